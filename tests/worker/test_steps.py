"""The engine drives steps: read, then functions, all within one claim."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import Fairlead
from fairlead.errors import DamagedData, InvalidSetting, NotReady, UnknownFile, UnknownPipeline
from fairlead.model.blobs import SHORT_BYTES
from fairlead.model.documents import EventKind
from fairlead.model.states import State

pytestmark = pytest.mark.services

STEPS = """
import os, time
from pathlib import Path
from fairlead import Refuse, Result, RetryLater, step

@step(concurrency=4)
def fields(job):
    count(job, "fields")
    long = b"%PDF-" + 100_000 * b"x"
    return Result(
        text=job.text.upper(),
        data={"words": len(job.text.split()), "by": "fields", "kind": job.kind},
        files={"stamped.pdf": long, "note.txt": b"short"},
        parts=[("page.txt", b"one page", "plain")] if job.name == "parts.txt" else [],
    )

@step(attempts=3)
def export(job):
    count(job, "export")
    if job.name == "broken.txt":
        raise ValueError("secret of the operator")
    if job.name == "once.txt" and job.attempt == 1:
        raise ValueError("once")
    if job.name == "refused.txt":
        raise Refuse("no-total", "No total was found on this invoice.")
    if job.name == "exits.txt" and job.attempt == 1:
        os._exit(3)
    return {"by": "export", "exported": sorted(job.data)}

@step(retry_for=1.5)
def busy(job):
    if job.metadata.get("times", 99) <= count(job, "busy") - 1:
        return "at last"
    raise RetryLater(0)

@step(concurrency=4)
def orders(job):
    return {"order": job.json()["order"], "metadata": job.metadata, "text": job.text}

def waits(job):
    (Path(os.environ["STEP_NOTES"]) / "started").touch()
    while not job.cancelled:
        job.progress(1, 3)
        time.sleep(0.01)

def count(job, name):
    notes = Path(os.environ["STEP_NOTES"]) / f"{job.name}.{name}"
    with notes.open("a") as file:
        file.write("x")
    return len(notes.read_text())
"""

PIPELINES = {
    "default": {"steps": ["read", "steps_of_test:fields", "steps_of_test:export"]},
    "plain": {"steps": ["read"]},
    "orders": {"steps": ["steps_of_test:orders"]},
    "busy": {"steps": ["steps_of_test:busy"]},
    "waits": {"steps": ["steps_of_test:waits"]},
}


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (tmp_path / "steps_of_test.py").write_text(textwrap.dedent(STEPS))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("STEP_NOTES", str(folder))
    return folder


@pytest.fixture
def fairlead(tmp_path: Path, notes: Path) -> Iterator[Fairlead]:
    assert notes.is_dir()
    settings = {"pipelines": PIPELINES, "retry_delay": 0.01, "workers": 1}
    with Fairlead(tmp_path / "data", settings=settings) as installation:
        yield installation
        assert installation.store.problems() == []
        assert installation.store.interim_keys() == set()
        jobs = installation.folder.job_dirs
        assert not [path for path in jobs.rglob("*") if path.is_file()]


def calls(notes: Path, name: str) -> dict[str, int]:
    note_paths = notes.glob(f"{name}.*")
    return {path.suffix[1:]: len(path.read_text()) for path in sorted(note_paths)}


def test_every_step_adds_to_the_result(fairlead: Fairlead, notes: Path) -> None:
    document = fairlead.submit("acme", b"two words", name="letter.txt")
    with pytest.raises(NotReady):
        fairlead.result(document.id)
    fairlead.run_until_idle()
    result = fairlead.result(document.id)
    assert result.text == result.markdown == "TWO WORDS"
    assert result.data == {
        "words": 2,
        "kind": "text",
        "by": "export",
        "exported": ["by", "kind", "words"],
    }
    shown = [(file.name, file.media_type, file.size) for file in result.files]
    assert shown == [("note.txt", "text/plain", 5), ("stamped.pdf", "application/pdf", 100_005)]
    assert result.file("note.txt") == b"short"
    assert result.file("stamped.pdf").startswith(b"%PDF-xxx")
    with pytest.raises(UnknownFile):
        result.file("other.pdf")
    done = fairlead.document(document.id)
    assert (done.state, done.kind, done.attempts) == (State.DONE, "text", 1)
    assert list(fairlead.contents.damage(done)) == []
    assert calls(notes, "letter.txt") == {"export": 1, "fields": 1}
    blobs = [path for path in fairlead.folder.texts.rglob("*") if path.stat().st_size > 90_000]
    assert len(blobs) == 1
    blobs[0].write_bytes(b"other")
    assert len(list(fairlead.contents.damage(done))) == 1
    fairlead.delete(document.id)
    assert not blobs[0].exists()


def test_a_retry_resumes_at_the_step_that_failed(fairlead: Fairlead, notes: Path) -> None:
    raising = fairlead.submit("acme", b"two words", name="once.txt")
    exiting = fairlead.submit("bolt", b"two words", name="exits.txt")
    fairlead.run_until_idle()
    for document in (raising, exiting):
        done = fairlead.document(document.id)
        assert (done.state, done.attempts, done.error) == (State.DONE, 2, None)
        assert calls(notes, done.name) == {"export": 2, "fields": 1}
        assert fairlead.result(document.id).data["words"] == 2
        assert len(fairlead.result(document.id).file("stamped.pdf")) == 100_005


def test_attempts_of_a_step_are_bounded_and_the_cause_is_the_operators(
    fairlead: Fairlead, notes: Path
) -> None:
    document = fairlead.submit("acme", b"words", name="broken.txt")
    fairlead.run_until_idle()
    failed = fairlead.document(document.id)
    assert (failed.state, failed.error, failed.attempts) == (State.FAILED, "step-failed", 3)
    assert "secret" not in (failed.detail or "")
    assert "ValueError: secret of the operator" in (fairlead.cause(document.id) or "")
    assert calls(notes, "broken.txt") == {"export": 3, "fields": 1}
    events = [event.data for event in fairlead.store.events_of(document.id)]
    assert "secret" not in json.dumps(events)
    assert not list(fairlead.folder.texts.rglob(f"{document.id}*")), "its blobs are gone"


def test_a_refusal_is_final_and_the_customer_reads_its_sentence(
    fairlead: Fairlead, notes: Path
) -> None:
    document = fairlead.submit("acme", b"words", name="refused.txt")
    fairlead.run_until_idle()
    failed = fairlead.document(document.id)
    assert (failed.state, failed.error) == (State.FAILED, "no-total")
    assert failed.detail == "No total was found on this invoice."
    assert calls(notes, "refused.txt") == {"export": 1, "fields": 1}


def test_later_uses_no_attempt_and_is_bounded_in_all(fairlead: Fairlead, notes: Path) -> None:
    short = fairlead.submit("acme", b"x", name="s.txt", pipeline="busy", metadata={"times": 1})
    long = fairlead.submit("acme", b"x", name="l.txt", pipeline="busy")
    fairlead.run_until_idle()
    assert fairlead.result(short.id).text == "at last"
    assert fairlead.document(short.id).attempts == 2
    failed = fairlead.document(long.id)
    assert (failed.state, failed.error) == (State.FAILED, "step-failed")
    assert "retry_for" in (fairlead.cause(long.id) or "")
    assert calls(notes, "l.txt") == {"busy": 2}, "a pause is at least a second"


def test_a_pipeline_without_reading_gets_the_original_untouched(fairlead: Fairlead) -> None:
    document = fairlead.submit("acme", {"order": 7}, pipeline="orders", metadata={"shop": 3})
    fairlead.run_until_idle()
    result = fairlead.result(document.id)
    assert result.data == {"order": 7, "metadata": {"shop": 3}, "text": ""}
    assert result.text is None
    assert result.files == ()


def test_parts_go_to_the_pipeline_that_they_name(fairlead: Fairlead, notes: Path) -> None:
    document = fairlead.submit("acme", b"words", name="parts.txt")
    fairlead.run_until_idle()
    (part,) = fairlead.documents(parent=document.id)
    assert (part.name, part.pipeline, part.state) == ("page.txt", "plain", State.DONE)
    assert fairlead.text(part.id) == "one page"
    assert calls(notes, "page.txt") == {}


def test_a_cancelled_document_leaves_its_step(fairlead: Fairlead, notes: Path) -> None:
    document = fairlead.submit("acme", b"words", name="waits.txt", pipeline="waits")

    def cancel() -> None:
        if (notes / "started").exists() and fairlead.document(document.id).state.is_pending:
            kinds = [event.kind for event in fairlead.store.events_of(document.id)]
            if EventKind.PROGRESS in kinds:
                fairlead.cancel(document.id)

    fairlead.run_until_idle(on_tick=cancel)
    assert fairlead.document(document.id).state is State.CANCELLED


def test_a_stopped_engine_keeps_what_steps_found_and_a_changed_list_starts_over(
    tmp_path: Path, notes: Path
) -> None:
    def installation(*steps: str) -> Fairlead:
        names = [f"steps_of_test:{step}" for step in steps]
        return Fairlead(tmp_path / "data", steps=["read", *names], settings={"workers": 1})

    def stop_when_it_waits(fairlead: Fairlead) -> None:
        engine = fairlead.services.engine()

        def stop() -> None:
            if (notes / "started").exists():
                engine.stop()
                engine.stop()

        engine._on_tick = stop
        engine.run()
        (notes / "started").unlink()

    with installation("fields", "waits") as fairlead:
        document = fairlead.submit("acme", b"two words", name="letter.txt")
        stop_when_it_waits(fairlead)
        assert fairlead.document(document.id).attempts == 0
        assert len(fairlead.store.interim_keys()) == 1
        stop_when_it_waits(fairlead)
    assert calls(notes, "letter.txt") == {"fields": 1}
    with installation("fields", "export") as fairlead:
        fairlead.run_until_idle()
        assert fairlead.result(document.id).data["words"] == 2
        assert fairlead.store.interim_keys() == set()
        assert len([*fairlead.folder.texts.rglob(f"{document.id}*")]) == 1
    assert calls(notes, "letter.txt") == {"export": 1, "fields": 2}


def test_nobody_else_is_served_beyond_the_pipelines_of_an_engine(fairlead: Fairlead) -> None:
    other = fairlead.submit("acme", b"words", name="letter.txt", pipeline="plain")
    own = fairlead.submit("acme", {"order": 7}, pipeline="orders")
    fairlead.services.engine(1, pipelines=["orders"]).run(until_idle=True)
    assert fairlead.document(own.id).state is State.DONE
    assert fairlead.document(other.id).state is State.WAITING
    with pytest.raises(UnknownPipeline, match="known are: default, plain"):
        fairlead.services.engine(1, pipelines=["order"])
    fairlead.run_until_idle()


def test_a_step_that_cannot_be_loaded_is_an_error_at_the_start(tmp_path: Path, notes: Path) -> None:
    assert notes.is_dir()
    with (
        Fairlead(tmp_path / "data", steps=["read", "steps_of_test:nothing"]) as fairlead,
        pytest.raises(InvalidSetting, match="nothing"),
    ):
        fairlead.run_until_idle(workers=1)


def test_an_unknown_pipeline_is_refused(fairlead: Fairlead) -> None:
    with pytest.raises(UnknownPipeline, match="'invoices'; known are: default, plain"):
        fairlead.submit("acme", b"words", name="a.txt", pipeline="invoices")


def test_no_document_is_claimed_that_would_wait_for_its_step(
    fairlead: Fairlead, notes: Path
) -> None:
    """The order is decided at the claim."""
    documents: list[Any] = [
        fairlead.submit("acme", b"words", name=f"w{number}.txt", pipeline="waits")
        for number in range(3)
    ]
    most = 0
    engine = fairlead.services.engine(1)

    def look() -> None:
        nonlocal most
        states = [fairlead.document(document.id).state for document in documents]
        most = max(most, states.count(State.PROCESSING))
        if (notes / "started").exists():
            for document in documents:
                fairlead.cancel(document.id)
            engine.stop()

    engine._on_tick = look
    engine.run()
    assert most == 1


def test_a_killed_step_process_uses_an_attempt_of_the_step_only(
    fairlead: Fairlead, notes: Path
) -> None:
    document = fairlead.submit("acme", b"words", name="waits.txt", pipeline="waits")
    killed: list[int] = []
    engine = fairlead.services.engine(1)

    def kill() -> None:
        if not (notes / "started").exists():
            return
        (notes / "started").unlink()
        if len(killed) < 2:
            killed.extend(engine.runner._pools["steps_of_test:waits"].pids())
            os.kill(killed[-1], signal.SIGKILL)
        else:
            fairlead.cancel(document.id)
            engine.stop()

    engine._on_tick = kill
    engine.run()
    assert len(set(killed)) == 2
    assert fairlead.document(document.id).attempts == 3


def test_a_document_that_cannot_be_given_to_its_step_costs_no_other_claim(
    fairlead: Fairlead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fairlead.folder.path / "fairlead.toml").write_text("max_attempts = 1\n")
    order = b'{"order": 7}' + b" " * SHORT_BYTES  # long ones are copied for the step
    documents = fairlead.submit_many("acme", [(order, "o.json")] * 4, pipeline="orders")
    path, failures = fairlead.files.path, [tmp_path]  # a folder, which cannot be read as a file

    def fail_once(key: str) -> Path:
        return failures.pop() if failures else path(key)

    monkeypatch.setattr(fairlead.files, "path", fail_once)
    fairlead.run_until_idle(workers=1)
    ended = [fairlead.document(document.id) for document in documents]
    assert [(document.state, document.attempts) for document in ended] == [(State.DONE, 1)] * 4
    assert not failures


def test_a_damaged_result_of_an_earlier_step_fails_its_document_only(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_damage(key: str, _sha256: str) -> bytes:
        raise DamagedData(f"the file {key} is damaged")

    monkeypatch.setattr(fairlead.texts, "read", find_damage)
    damaged = fairlead.submit("acme", b"word " * SHORT_BYTES, name="once.txt")
    sound = fairlead.submit("acme", b"word", name="once.txt")
    fairlead.run_until_idle(workers=1)
    assert fairlead.document(damaged.id).error == "corrupt"
    assert fairlead.document(sound.id).state is State.DONE


def test_an_engine_that_never_began_removes_no_files_when_it_closes(
    fairlead: Fairlead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "file").touch()
    monkeypatch.chdir(own)
    fairlead.services.engine(1).close()
    assert (own / "file").exists()


def test_pipelines_of_the_call_take_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "echoing.py").write_text(
        "from fairlead import Result\n"
        "def echo(job): return Result(data=job.json(), files={'order.txt': job.content})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    pipelines = {"orders": {"steps": [importlib.import_module("echoing").echo]}}
    with Fairlead(tmp_path / "data", settings={"pipelines": pipelines}) as fairlead:
        document = fairlead.submit("acme", {"order": 7}, pipeline="orders")
        fairlead.run_until_idle(workers=1)
        result = fairlead.result(document.id)
        assert result.data == {"order": 7}
        assert repr(result) == f"<DocumentResult of {document.id}: data, 'order.txt'>"
