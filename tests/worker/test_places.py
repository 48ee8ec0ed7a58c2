"""Workers are places: how many documents an engine processes at once, and what it claims."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import Fairlead
from fairlead.model.documents import Document, EventKind
from fairlead.model.engines import StepUse
from fairlead.model.states import State
from fairlead.worker.engine import LocalEngine

pytestmark = pytest.mark.services

STEPS = """
import os, threading
from pathlib import Path
from fairlead import step

def until_released(job):
    here = Path(os.environ["PLACES"])
    (here / job.id).touch()
    while not (here / "released").exists():
        threading.Event().wait(0.005)
    return "well"

@step(concurrency=3)
def waits(job):
    return until_released(job)

@step(processes=1)
def one(job):
    return until_released(job)

def quick(job):
    return until_released(job) if job.name == "long.txt" else job.name
"""
PIPELINES = {
    "default": {"steps": ["read"]},
    "computing": {"steps": ["read", "places_of_test:until_released"]},
    "plain-step": {"steps": ["places_of_test:until_released"]},
    "waiting": {"steps": ["places_of_test:waits"]},
    "gpu": {"steps": ["read", "places_of_test:one"]},
    "quick": {"steps": ["places_of_test:quick"]},
}
BROKEN = {**PIPELINES, "broken": {"steps": ["read", "nomodule:fields"]}}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "places_of_test.py").write_text(textwrap.dedent(STEPS))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PLACES", str(folder))
    return folder


@pytest.fixture
def fairlead(tmp_path: Path, here: Path) -> Iterator[Fairlead]:
    assert here.is_dir()
    with Fairlead(tmp_path / "data", settings={"pipelines": PIPELINES}) as installation:
        yield installation


def run_until(fairlead: Fairlead, workers: int, is_over: Callable[[LocalEngine], Any]) -> None:
    """Run an engine until a condition holds, then let it end its documents."""
    engine = fairlead.services.engine(workers)

    def look() -> None:
        if is_over(engine):
            engine.stop()

    engine._on_tick = look
    engine.run()


def processing(fairlead: Fairlead) -> int:
    return len(list(fairlead.documents(state=State.PROCESSING)))


@pytest.mark.parametrize("pipeline", ["computing", "plain-step"])
def test_as_many_documents_as_workers_are_processed_at_once(
    fairlead: Fairlead, here: Path, pipeline: str
) -> None:
    """Through reading and an own step; no further document is claimed meanwhile."""
    for number in range(7):
        fairlead.submit("acme", b"words", name=f"{number}.txt", pipeline=pipeline)
    most = 0

    def look(_engine: LocalEngine) -> bool:
        nonlocal most
        if not (
            here / "released"
        ).exists():  # afterwards they are short, and some are claimed ahead
            most = max(most, processing(fairlead))
        if len(list(here.iterdir())) >= 3:
            (here / "released").touch()
        return not list(fairlead.documents(state=State.WAITING))

    run_until(fairlead, 3, look)
    assert most == 3


def test_steps_that_wait_have_a_capacity_of_their_own(fairlead: Fairlead, here: Path) -> None:
    """They take no place, so a document is read beside them."""
    for number in range(8):
        fairlead.submit("acme", b"words", name=f"{number}.txt", pipeline="waiting")
    plain = None

    def look(_engine: LocalEngine) -> bool:
        nonlocal plain
        if len(list(here.iterdir())) == 6 and plain is None:
            plain = fairlead.submit("bolt", b"words", name="plain.txt")
        if plain is not None and fairlead.document(plain.id).state is State.DONE:
            assert processing(fairlead) == 6, "2 workers x concurrency 3"
            (here / "released").touch()
        return (here / "released").exists()

    run_until(fairlead, 2, look)


def test_documents_are_read_only_for_steps_with_room(fairlead: Fairlead, here: Path) -> None:
    """A step with one process: one document of its pipeline is claimed, others go on."""
    for number in range(4):
        fairlead.submit("acme", b"words", name=f"{number}.txt", pipeline="gpu")
    plain = [fairlead.submit("bolt", b"words", name=f"p{number}.txt") for number in range(9)]
    most = 0

    def look(_engine: LocalEngine) -> bool:
        nonlocal most
        gpu = fairlead.documents(customer="acme", state=State.PROCESSING)
        most = max(most, len(list(gpu)))
        has_begun = bool(list(here.iterdir()))
        ends = [fairlead.document(document.id).state is State.DONE for document in plain]
        if has_begun and all(ends):
            (here / "released").touch()
        return (here / "released").exists()

    run_until(fairlead, 3, look)
    assert most == 1


def test_short_steps_get_documents_in_portions(fairlead: Fairlead) -> None:
    documents = [
        fairlead.submit("acme", b"x", name=f"{n}.txt", pipeline="quick") for n in range(300)
    ]
    commits = fairlead.store.commits()
    fairlead.run_until_idle(workers=2)
    assert {fairlead.document(document.id).state for document in documents} == {State.DONE}
    assert sum(fairlead.store.commits()) - sum(commits) < 300, (
        "less than a commit for each document"
    )


def test_a_step_that_cannot_be_imported_closes_its_pipelines_only(
    tmp_path: Path, here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (here / "released").touch()
    caplog.set_level(logging.WARNING)
    with Fairlead(tmp_path / "data", settings={"pipelines": BROKEN}) as fairlead:
        stuck = fairlead.submit("acme", b"words", name="a.txt", pipeline="broken")
        others = [
            fairlead.submit("acme", b"words", name="b.txt", pipeline=name)
            for name in ("default", "computing", "quick")
        ]

        def look(engine: LocalEngine) -> bool:
            is_known = any(use.problem for use in engine.runner.use())
            ended = [fairlead.document(document.id).state is State.DONE for document in others]
            return is_known and all(ended)

        run_until(fairlead, 2, look)
        assert fairlead.document(stuck.id).state is State.WAITING
    why = (
        "step nomodule:fields: there is no module nomodule; install it, or start the worker in its "
        "folder"
    )
    assert f"fairlead: pipeline broken cannot run here: {why}" in caplog.messages


def test_an_engine_reports_its_steps(tmp_path: Path, here: Path) -> None:
    assert here.is_dir()
    with Fairlead(tmp_path / "data", settings={"pipelines": BROKEN}) as fairlead:
        reports: list[Any] = []

        def look(_engine: LocalEngine) -> bool:
            reports[:] = fairlead.store.engines()
            uses = {use.step: use for report in reports for use in report.steps}
            return len(uses) == 6 and all(use.capacity or use.problem for use in uses.values())

        run_until(fairlead, 2, look)
    (report,) = reports
    uses = {use.step: use for use in report.steps}
    assert report.workers == 2
    assert uses["read"] == StepUse("read", 2)
    assert uses["places_of_test:waits"] == StepUse("places_of_test:waits", 6)
    assert uses["places_of_test:one"] == StepUse("places_of_test:one", 1)
    assert uses["nomodule:fields"].capacity == 0
    assert "there is no module nomodule" in (uses["nomodule:fields"].problem or "")
    assert "broken" not in report.queues
    assert {"default", "computing"} < set(report.queues)


@pytest.mark.parametrize("pipeline", ["plain-step", "quick"])
def test_documents_claimed_ahead_do_not_wait_behind_a_long_one(
    fairlead: Fairlead, here: Path, pipeline: str
) -> None:
    """Those of a short step are given back once, with their files, and not claimed again."""
    content = b"x" * 100_000
    quick = [fairlead.submit("acme", content, name=f"{n}.txt", pipeline="quick") for n in range(40)]
    held: Document | None = None

    def look(_engine: LocalEngine) -> bool:
        nonlocal held
        if held is None and fairlead.document(quick[-1].id).state is State.DONE:
            held = fairlead.submit("bolt", content, name="long.txt", pipeline=pipeline)
        elif held is not None and len(quick) == 40 and (here / held.id).exists():
            more = [(content, f"{n}.txt") for n in range(40)]
            quick.extend(fairlead.submit_many("acme", more, pipeline="quick"))
        elif (
            held is not None and _seconds(fairlead, held) > 1.5 and not (here / "released").exists()
        ):
            assert processing(fairlead) == 1
            originals = list(fairlead.folder.job_dirs.rglob("original"))
            assert [path.parents[1].name.split(".")[0] for path in originals] == [held.id]
            (here / "released").touch()
        ended = [fairlead.document(document.id).state is State.DONE for document in quick]
        return len(ended) == 80 and all(ended)

    run_until(fairlead, 1, look)
    released = [event for event in fairlead.store.events(0, 1000) if event.kind.value == "released"]
    assert len(released) <= 48 + 15, "what one claim takes ahead, and what lies ready"


def _seconds(fairlead: Fairlead, document: Document | None) -> float:
    """For how long it has been processed."""
    started = None if document is None else fairlead.document(document.id).started_at
    return 0.0 if started is None else fairlead.store.now() - started


def test_pipelines_of_a_changed_file_are_served_without_a_restart(
    tmp_path: Path, here: Path
) -> None:
    assert here.is_dir()
    file = tmp_path / "data" / "fairlead.toml"
    file.parent.mkdir()
    file.write_text("[pipelines.old]\nsteps = ['places_of_test:quick']\n")
    with Fairlead(tmp_path / "data") as fairlead:
        documents = [fairlead.submit("acme", b"x", name="a.txt", pipeline="old")]

        def look(engine: LocalEngine) -> bool:
            is_done = all(fairlead.document(own.id).state is State.DONE for own in documents)
            if not is_done:
                return False
            if len(documents) == 2:
                assert set(engine.runner.queues) == {"default", "new"}
                return True
            file.write_text(
                "[pipelines.new]\nsteps = ['read', 'places_of_test:quick']\nmax_running = 2\n"
            )
            documents.append(fairlead.submit("acme", b"x", name="b.txt", pipeline="new"))
            return False

        run_until(fairlead, 1, look)
        assert fairlead.store.pipelines()["new"].max_running == 2


def test_a_claim_of_a_running_document_holds_up_no_other(fairlead: Fairlead, here: Path) -> None:
    """A step that does not look at `cancelled` runs on while the document is claimed again."""
    long = fairlead.submit("acme", b"x", name="long.txt", pipeline="quick")
    others: list[Document] = []
    claims = 0

    def look(_engine: LocalEngine) -> bool:
        nonlocal claims
        kinds = [event.kind for event in fairlead.store.events_of(long.id)]
        claims = kinds.count(EventKind.CLAIMED)
        if claims == 1 and (here / long.id).exists() and EventKind.CANCELLED not in kinds:
            fairlead.cancel(long.id)
            fairlead.retry(long.id)
        elif claims == 2 and not others:
            others.append(fairlead.submit("bolt", b"x", name="b.txt", pipeline="quick"))
        elif others and fairlead.document(others[0].id).state is State.DONE:
            (here / "released").touch()
        elif others:
            assert _seconds(fairlead, long) < 30, "the other document waits"
        return fairlead.document(long.id).state is State.DONE

    run_until(fairlead, 3, look)
    assert claims == 2


def test_a_quota_that_permits_a_start_wakes_no_engine_without_a_free_place(
    tmp_path: Path, here: Path
) -> None:
    pipelines = {"limited": {"steps": ["places_of_test:until_released"], "limit": "1/s"}}
    pauses: list[float] = []
    with Fairlead(tmp_path / "data", settings={"pipelines": pipelines}) as fairlead:
        first, _ = fairlead.submit_many("acme", [b"x", b"y"], pipeline="limited")

        def look(engine: LocalEngine) -> bool:
            if not pauses and _seconds(fairlead, first) > 1.2:
                pauses.append(engine._sleep_seconds())
                (here / "released").touch()
            return bool(pauses)

        run_until(fairlead, 1, look)
    assert pauses[0] > 0


def test_a_document_that_is_read_passes_its_steps_after_its_pipeline_was_removed(
    fairlead: Fairlead, here: Path
) -> None:
    (here / "released").touch()
    document = fairlead.submit("acme", b"words", name="a.txt", pipeline="computing")

    def look(engine: LocalEngine) -> bool:
        if any(slot.claim for slot in engine.workers.slots) and "computing" in engine.runner.queues:
            left = [own for own in engine.runner._served.values() if own.name == "default"]
            engine.runner._read_pipelines = lambda: left
            engine.runner.follow_settings()
            assert not engine.runner._pools
        return fairlead.document(document.id).state is State.DONE

    run_until(fairlead, 1, look)
    assert fairlead.result(document.id).text == "well"


def test_an_engine_that_has_slept_finds_a_dead_process_before_it_starts_a_document(
    fairlead: Fairlead,
) -> None:
    """The engine of a Celery worker sleeps between two messages."""
    engine = fairlead.services.engine(1)
    try:
        for number in range(2):
            document = fairlead.submit("acme", b"x", name=f"{number}.txt", pipeline="quick")
            while fairlead.document(document.id).state is not State.DONE:
                engine.work(1.0)
            for pid in engine.runner._pools["places_of_test:quick"].pids():
                end = os.pidfd_open(pid)
                os.kill(pid, signal.SIGKILL)
                assert select.select([end], [], [], 60)[0]
                os.close(end)
        kinds = [event.kind for event in fairlead.store.events_of(document.id)]
        assert kinds.count(EventKind.CLAIMED) == 1
    finally:
        engine.close()
