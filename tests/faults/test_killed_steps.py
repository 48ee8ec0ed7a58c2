"""Steps while their processes and whole engines are killed: each document ends exactly once.

Engines run a pipeline that reads first and one of a function alone: one engine on SQLite, two on
PostgreSQL. Documents come in portions; after each something is killed, in an order that is the same
at every run.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import NamedTuple

import postgreskit
import pytest
from fleetkit import ENDS, every_event, inversions
from stepfleet import StepEngine, parent_of, step_engines
from stepkit import write_module

from fairlead import Fairlead
from fairlead.model.documents import Document
from fairlead.model.documents import Event as Happened
from fairlead.model.states import State
from fairlead.worker.orphan_sweeper import sweep_orphans

CUSTOMERS = 20
SLOWEST = 300.0
LONG = 40_000
"""So often repeated, a name is longer than what the store keeps itself."""

STEPS = """
import os, time
from pathlib import Path
from fairlead import Result, step

CALLS = Path(__file__).with_name("calls")

def result(job, text, by):
    with CALLS.open("a") as calls:
        calls.write(f"{job.id} {job.attempt} {os.getpid()}\\n")
    time.sleep(0.02)  # the work, in which most kills come
    number = job.metadata["number"]
    parts = [("short.txt", f"part {number}".encode())] if number % 5 == 0 else []
    if number % 10 == 0:
        parts.append(("long.txt", f"part {number} ".encode() * 40_000))
    return Result(
        data={"text": text, "by": by, "number": number},
        files={"long.bin": text.encode() * 40_000, "short.txt": text.encode()},
        parts=parts,
    )

@step(concurrency=4, attempts=50)
def fields(job):
    return result(job, job.text, "fields")

@step(attempts=50)
def orders(job):
    return result(job, job.json()["order"], "orders")
"""

SETTINGS = """
lease = 5
max_attempts = 50
retry_delay = 0.05
sweep_after = 3600
[pipelines.invoices]
steps = ["read", "mysteps:fields"]
[pipelines.orders]
steps = ["mysteps:orders"]
"""


class Kills(NamedTuple):
    documents: int
    processes: int
    templates: int
    engines: int


SOME = Kills(60, 4, 2, 2)
MANY = Kills(2_000, 50, 10, 10)


@pytest.fixture(params=["sqlite", "postgres"])
def folders(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Path]]:
    """A data folder for each engine: one, or two that share a server and the files."""
    write_module(tmp_path, STEPS)
    if request.param == "sqlite":
        yield [data_folder(tmp_path / "data", SETTINGS)]
        return
    postgreskit.server()
    with postgreskit.lent(tmp_path):
        store, files = postgreskit.url_for(tmp_path), tmp_path / "shared"
        settings = f'store = "{store}"\nfiles = "{files}"\n{SETTINGS}'
        yield [data_folder(tmp_path / name, settings) for name in ("one", "other")]


def data_folder(folder: Path, settings: str) -> Path:
    folder.mkdir()
    (folder / "fairlead.toml").write_text(settings)
    return folder


@pytest.mark.full
def test_some_kills_lose_and_double_nothing(folders: list[Path]) -> None:
    check_kills(folders, SOME)


@pytest.mark.faults
def test_many_kills_lose_and_double_nothing(folders: list[Path]) -> None:
    check_kills(folders, MANY)


def check_kills(folders: list[Path], kills: Kills) -> None:
    with Fairlead(folders[0]) as fairlead:
        with step_engines(folders, "--workers", "2") as engines:
            submitted = run(fairlead, engines, kills)
            wait_for_everything(fairlead)
            for engine in engines:
                engine.stop()
        documents = {document.id: document for document in everything(fairlead)}
        events = every_event(fairlead)
        print(summary(folders[0].parent, documents, events))
        check_ends(documents, events)
        for number, document in submitted.items():
            check_result(fairlead, number, document)
        assert inversions_by_pipeline(fairlead, events, documents) == {}
        check_nothing_is_left(fairlead, documents)
    for folder in folders:
        check_jobs_left_nothing(folder)


# --- the run ---


def run(fairlead: Fairlead, engines: list[StepEngine], kills: Kills) -> dict[int, Document]:
    """Submit everything in portions, and kill something amid each; the documents by number."""
    dice = random.Random(20)
    calls = Calls(fairlead.folder.path.parent)
    faults = ["engine"] * kills.engines + ["template"] * kills.templates
    faults += ["process"] * kills.processes
    dice.shuffle(faults)
    bounds = [kills.documents * number // len(faults) for number in range(len(faults) + 1)]
    submitted: dict[int, Document] = {}
    for fault, numbers in zip(faults, map(range, bounds, bounds[1:]), strict=True):
        calls_before_fault = dice.randint(numbers.start + 1, numbers.stop)
        submitted |= {number: submit(fairlead, number, dice) for number in numbers}
        process = calls.wait(calls_before_fault, engines)
        Event().wait(dice.uniform(0.0, 0.06))  # into a call, its end, or the next
        (engine,) = (engine for engine in engines if process in engine.step_processes())
        if fault == "engine":
            engine.kill()
            engine.start()
        else:
            os.kill(parent_of(process) if fault == "template" else process, signal.SIGKILL)
    return submitted


class Calls:
    """What the steps wrote down when they were called: document, attempt, process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "calls"

    def lines(self) -> list[tuple[str, ...]]:
        if not self._path.exists():
            return []
        return [tuple(line.split()) for line in self._path.read_text().splitlines()]

    def wait(self, documents: int, engines: list[StepEngine]) -> int:
        """Return when steps have been called for so many documents: the process of the last."""
        give_up = time.monotonic() + SLOWEST
        while True:
            lines = self.lines()
            if len({id_ for id_, *_ in lines}) >= documents:
                return int(lines[-1][-1])
            assert time.monotonic() < give_up, f"no step was called for document {documents}"
            assert all(engine.pid for engine in engines), "an engine ended by itself"
            Event().wait(0.005)


def submit(fairlead: Fairlead, number: int, dice: random.Random) -> Document:
    customer, metadata = f"customer-{dice.randrange(CUSTOMERS)}", {"number": number}
    if number % 2:
        return fairlead.submit(
            customer, {"order": text_of(number)}, pipeline="orders", metadata=metadata
        )
    content = text_of(number).encode()
    return fairlead.submit(
        customer, content, name=f"{number}.txt", pipeline="invoices", metadata=metadata
    )


def wait_for_everything(fairlead: Fairlead) -> None:
    """Also for the parts that documents bring at their end."""
    while pending := [document for document in everything(fairlead) if document.state.is_pending]:
        fairlead.wait(pending, timeout=SLOWEST)


def everything(fairlead: Fairlead) -> list[Document]:
    return list(fairlead.documents(limit=1_000_000))


def text_of(number: int) -> str:
    return f"text {number}"


# --- what must hold ---


def check_ends(documents: Mapping[str, Document], events: list[Happened]) -> None:
    failed = [
        (document.name, document.error)
        for document in documents.values()
        if document.state != State.DONE
    ]
    assert failed == []
    ends = Counter(event.document for event in events if event.kind in ENDS)
    assert ends == dict.fromkeys(documents, 1)


def check_result(fairlead: Fairlead, number: int, document: Document) -> None:
    """Data, files and parts are whole, and each is there once."""
    text = text_of(number)
    result = fairlead.result(document.id)
    by = "orders" if number % 2 else "fields"
    assert result.data == {"text": text, "by": by, "number": number}
    assert [file.name for file in result.files] == ["long.bin", "short.txt"]
    assert result.file("long.bin") == text.encode() * LONG
    assert result.file("short.txt") == text.encode()
    assert list(fairlead.contents.damage(fairlead.document(document.id))) == []
    expected = {"short.txt": digest(f"part {number}")} if number % 5 == 0 else {}
    if number % 10 == 0:
        expected["long.txt"] = digest(f"part {number} " * LONG)
    parts = fairlead.documents(parent=document.id)
    assert sorted((part.name, part.sha256) for part in parts) == sorted(expected.items())
    for part in parts:
        assert fairlead.text(part.id).startswith(f"part {number}")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def inversions_by_pipeline(
    fairlead: Fairlead, events: list[Happened], documents: Mapping[str, Document]
) -> dict[str, int]:
    """Claims out of order: an engine claims only for pipelines of which it has a free place."""
    by_pipeline: dict[str, list[Happened]] = {}
    for event in events:
        if event.document is not None:
            by_pipeline.setdefault(documents[event.document].pipeline, []).append(event)
    wrong = {name: inversions(fairlead, own, documents) for name, own in by_pipeline.items()}
    return {name: number for name, number in wrong.items() if number}


def check_nothing_is_left(fairlead: Fairlead, documents: Mapping[str, Document]) -> None:
    assert fairlead.store.problems() == []
    assert fairlead.store.interim_keys() == set()
    swept = sum(
        sweep_orphans(fairlead.store, fairlead.files, fairlead.texts, before=time.time() + 60)
    )
    print(f"{swept} orphans of killed engines removed")
    stored_keys = {key for keys in fairlead.texts.older_than(time.time() + 60) for key in keys}
    assert stored_keys == fairlead.store.known_texts(documents)


def check_jobs_left_nothing(folder: Path) -> None:
    with Fairlead(folder) as fairlead:
        assert [path for path in fairlead.folder.job_dirs.rglob("*") if path.is_file()] == []


def summary(folder: Path, documents: Mapping[str, Document], events: list[Happened]) -> str:
    calls = Calls(folder).lines()
    kinds = Counter(event.kind.value for event in events)
    return (
        f"{len(documents)} documents, {len(calls)} calls of steps in "
        f"{len({process for *_, process in calls})} processes, "
        f"events: {dict(kinds)}"
    )
