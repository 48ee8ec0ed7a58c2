"""The local engine while something it needs is away for a time: it waits, and nothing is lost."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import Fairlead
from fairlead.blobs.local import LocalBlobs
from fairlead.demo.samples import samples
from fairlead.errors import (
    DiskFull,
    FairleadError,
    FilesUnreachable,
    StoreBusy,
    StoreUnreachable,
    TemporarilyUnavailable,
)
from fairlead.model.states import State
from fairlead.storage.sqlite import SqliteStore
from fairlead.worker import engine as local
from fairlead.worker.engine import LocalEngine
from fairlead.worker.result_saver import SHORT_TEXTS, FinishedJob
from fairlead.worker.sandbox.job_dir import JobDir
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import ReadJob
from fairlead.worker.slot import WorkerSlot

pytestmark = pytest.mark.services

LONG = b"x" * (SHORT_TEXTS + 1)
"""A document whose text becomes a file."""
PASSING = [
    DiskFull("the disk is full"),
    StoreBusy("the database is locked"),
    StoreUnreachable("the server is away"),
    FilesUnreachable("the bucket is away"),
]
PLACES: list[tuple[type[object], str]] = [
    (SqliteStore, "attend"),
    (SqliteStore, "claim_requests"),
    (SqliteStore, "finish_all"),
    (LocalBlobs, "put_all"),
    (LocalBlobs, "path"),
    (JobDir, "add"),
]
"""Where an engine may meet an outage."""


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path, settings={"lease": 3600}) as installation:
        yield installation


class Away:
    """Something that does not work, for so many tries or until it is mended."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        place: tuple[type[object], str],
        error: TemporarilyUnavailable,
        tries: float = float("inf"),
    ) -> None:
        self.left = tries
        self.tried = 0
        true: Callable[..., Any] = getattr(*place)

        def fail(*things: Any, **named: Any) -> Any:
            if self.left > 0:
                self.left -= 1
                self.tried += 1
                raise error
            return true(*things, **named)

        patch.setattr(*place, fail)


def run_until_done(fairlead: Fairlead, on_tick: Callable[[LocalEngine], None]) -> LocalEngine:
    """Run an engine that would go on for ever, until nothing is pending."""

    def tick() -> None:
        on_tick(engine)
        totals = fairlead.queue.totals()
        if not totals.waiting + totals.processing:
            engine.stop()

    engine = fairlead.services.engine(2, on_tick=tick)
    engine.run()
    return engine


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1])
@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.code)
def test_what_passes_is_borne_and_costs_no_attempt(
    fairlead: Fairlead,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: tuple[type[object], str],
    error: TemporarilyUnavailable,
) -> None:
    documents = fairlead.submit_many("acme", [(LONG, f"{number}.txt") for number in range(3)])
    away = Away(monkeypatch, place, error, tries=2)
    held_up: list[bool] = []
    engine = run_until_done(fairlead, lambda engine: held_up.append(engine.is_held_up))
    assert away.tried == 2
    assert any(held_up)
    assert not engine.is_held_up
    current = [fairlead.document(document.id) for document in documents]
    assert {(document.state, document.attempts) for document in current} == {(State.DONE, 1)}
    assert {fairlead.text(document.id) for document in documents} == {LONG.decode()}
    assert len(caplog.records) % 2 == 0
    assert all("retry until" in record.getMessage() for record in caplog.records[::2])
    assert all("continue" in record.getMessage() for record in caplog.records[1::2])


def test_workers_come_when_there_is_room_for_them(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    document = fairlead.submit("acme", b"hello", name="a.txt")
    away = Away(monkeypatch, (JobDir, "__init__"), DiskFull("full"), tries=2)
    run_until_done(fairlead, lambda _engine: None)
    assert away.tried == 2
    assert fairlead.document(document.id).attempts == 1
    began, over = (record.getMessage() for record in caplog.records)
    assert "retry until" in began
    assert "continue" in over


def test_a_worker_that_finds_room_works_without_the_others(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: set[int] = set()
    make_job_dir = JobDir.__init__

    def only_one(job_dir: JobDir, folder: Path) -> None:
        if numbers:
            raise DiskFull("full")
        numbers.add(0)
        make_job_dir(job_dir, folder)

    monkeypatch.setattr(JobDir, "__init__", only_one)
    document = fairlead.submit("acme", b"hello", name="a.txt")
    run_until_done(fairlead, lambda engine: numbers.add(len(engine.worker_pids())))
    assert numbers == {0, 1}
    assert fairlead.text(document.id) == "hello"


def test_an_engine_without_room_for_workers_can_be_stopped(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fairlead.services.engine(1)

    def fail_meanwhile(_job_dir: JobDir, _folder: Path) -> None:
        engine.stop()
        raise DiskFull("full")

    monkeypatch.setattr(JobDir, "__init__", fail_meanwhile)
    engine.run()
    assert engine.worker_pids() == []


def test_a_suspect_waits_for_room_too(fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader is a new one, so it is laid out only when that is ready."""
    [document] = fairlead.submit_many("acme", [(b"hello", "a.txt")])
    fairlead.store.claim_for([], ["gone"])
    fairlead.store.rescue_from("gone")
    before = fairlead.submit("globex", b"before", name="b.txt")
    away = Away(monkeypatch, (JobDir, "add"), DiskFull("full"), tries=3)
    run_until_done(fairlead, lambda _engine: None)
    assert away.tried == 3
    for submitted in (document, before):
        current = fairlead.document(submitted.id)
        assert (current.state, current.attempts) == (State.DONE, 1)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1])
def test_who_has_to_end_does_not_wait_for_ever(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch, place: tuple[type[object], str]
) -> None:
    monkeypatch.setattr(local, "LONGEST_OUTAGE", 0.0)
    document = fairlead.submit("acme", LONG, name="a.txt")
    with monkeypatch.context() as patch:
        Away(patch, place, DiskFull("full"))
        for _ in range(2):
            with pytest.raises(DiskFull):
                fairlead.run_until_idle(workers=1)
            current = fairlead.document(document.id)
            assert (current.state, current.attempts) == (State.WAITING, 0)
    fairlead.run_until_idle(workers=1)
    assert fairlead.text(document.id) == LONG.decode()


def test_an_engine_in_an_outage_can_be_stopped(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = fairlead.submit("acme", LONG, name="a.txt")

    def stop_if_held_up() -> None:
        if engine.is_held_up:
            engine.stop()

    for place in ((SqliteStore, "claim_requests"), (JobDir, "add"), (LocalBlobs, "put_all")):
        engine = fairlead.services.engine(1, on_tick=stop_if_held_up)
        with monkeypatch.context() as patch:
            Away(patch, place, DiskFull("full"))
            if place == (LocalBlobs, "put_all"):  # it was read, and that has to be said
                with pytest.raises(DiskFull):
                    engine.run()
            else:
                engine.run()
        current = fairlead.document(document.id)
        assert (current.state, current.attempts) == (State.WAITING, 0)


def test_a_message_of_celery_waits_out_an_outage(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = fairlead.submit("acme", LONG, name="a.txt")
    away = Away(monkeypatch, (LocalBlobs, "put_all"), DiskFull("full"), tries=2)
    engine = fairlead.services.engine(1)
    engine.work(3600.0)  # until nothing is left
    engine.close()
    assert away.tried == 2
    assert fairlead.document(document.id).attempts == 1
    assert fairlead.text(document.id) == LONG.decode()


def test_time_without_a_listening_engine_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long answer waits in the pipe, and its reader with it, while the engine waits for a lock.

    So the engine comes back only when the time of what it has begun is over.
    """
    content = next(samples(1, seed=4, pages=(500, 500))).content
    send = WorkerSlot.send

    def send_and_wait_for_a_lock(slot: WorkerSlot, job: ReadJob) -> FinishedJob | None:
        finished = send(slot, job)
        while time.monotonic() <= slot.deadline:
            select.select([], [], [], 0.1)
        return finished

    monkeypatch.setattr(WorkerSlot, "send", send_and_wait_for_a_lock)
    with Fairlead(tmp_path, settings={"time_limit": 4, "max_attempts": 1}) as fairlead:
        document = fairlead.submit("acme", content, name="long.pdf")
        fairlead.run_until_idle(workers=1)
        assert len(fairlead.text(document.id)) > 65_536  # what a pipe holds
        assert fairlead.document(document.id).error is None


def test_the_time_between_two_messages_does_not_count(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    uncounted: list[float] = []
    engine = fairlead.services.engine(1)
    engine.work(3600.0)
    engine._listened_at -= 1000.0  # as if that were long ago
    monkeypatch.setattr(engine.workers, "extend_deadlines", uncounted.append)
    fairlead.submit("acme", b"x", name="x.txt")
    engine.work(3600.0)
    engine.close()
    assert max(uncounted) < 1000.0


def test_a_new_reader_needs_no_new_folder(fairlead: Fairlead) -> None:
    """On a full disk there may be no room for one."""
    engine = fairlead.services.engine(1)
    engine.workers.match_count()
    [slot] = engine.workers.slots
    job_dir = slot.sandbox.job_dir.folder
    before = job_dir.stat().st_ino
    engine.workers.replace_child(slot)
    assert job_dir.stat().st_ino == before
    engine.close()
    assert not job_dir.exists()


def test_a_worker_that_dies_on_a_full_disk_is_replaced_when_there_is_room(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away: list[Away] = []

    def fill_disk(engine: LocalEngine) -> None:
        if not away and fairlead.queue.totals().processing:
            away.append(Away(monkeypatch, (WorkerSlot, "fill"), DiskFull("full"), tries=5))
            for pid in engine.worker_pids():
                os.kill(pid, signal.SIGKILL)

    documents = fairlead.submit_many("acme", [(LONG, f"{number}.txt") for number in range(20)])
    run_until_done(fairlead, fill_disk)
    assert away[0].tried == 5
    assert {fairlead.text(document.id) for document in documents} == {LONG.decode()}
    messages = [record.getMessage() for record in caplog.records]
    assert any("retry until" in message for message in messages)


def test_if_no_more_workers_start_work_goes_on_with_those_that_run(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A number that is too large for the machine ends nobody who has begun with a smaller one."""
    starts_left, fill = [1], WorkerSlot.fill

    def few(slot: WorkerSlot, limits: SandboxLimits) -> None:
        if not starts_left:
            raise FairleadError("a worker process could not be started")
        starts_left.pop()
        fill(slot, limits)

    def tick() -> None:
        wanted[0] = 3
        totals = fairlead.queue.totals()
        if not totals.waiting + totals.processing:
            engine.stop()

    monkeypatch.setattr(WorkerSlot, "fill", few)
    monkeypatch.setattr(local, "CHECK_SECONDS", 0.0)
    wanted = [1]
    documents = fairlead.submit_many("acme", [(LONG, f"{number}.txt") for number in range(20)])
    engine = fairlead.services.engine(on_tick=tick)
    engine.workers._count = lambda: wanted[0]
    engine.run()
    assert {fairlead.text(document.id) for document in documents} == {LONG.decode()}
    (record,) = caplog.records  # once, however often it is tried
    assert "only 1 workers could be started" in record.getMessage()
