"""The local engine with real worker processes, some of which are killed or stopped on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from enginekit import letters, long_document

from fairlead import Fairlead
from fairlead.blobs.local import LocalBlobs
from fairlead.demo.samples import samples
from fairlead.errors import DamagedData, MissingExtra, StoreUnreachable, TemporarilyUnavailable
from fairlead.model.documents import Claim, Document, EventKind
from fairlead.model.pipelines import ClaimRequest
from fairlead.model.states import State
from fairlead.worker import engine as local
from fairlead.worker.engine import LocalEngine, Stop
from fairlead.worker.result_saver import SHORT_TEXTS, FinishedJob
from fairlead.worker.result_writer import ResultWriter
from fairlead.worker.sandbox.answer import Extraction
from fairlead.worker.sandbox.forkserver import ForkServer
from fairlead.worker.sandbox.process import ReadJob, Sandbox
from fairlead.worker.slot import WorkerSlot

pytestmark = pytest.mark.services

LONG = b"x" * (SHORT_TEXTS + 1)
"""A document whose text becomes a file."""


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data", settings={"retry_delay": 0.01}) as installation:
        yield installation


def starting(command: list[str]) -> Callable[[ForkServer], list[str]]:
    """A method that returns this command; as such, Python 3.13 warns of a `partial`."""
    return lambda _server: command


def busy_slots(engine: LocalEngine) -> list[WorkerSlot]:
    return [slot for slot in engine.workers.slots if slot.claim is not None]


def test_the_number_of_workers_follows_the_settings(tmp_path: Path) -> None:
    numbers = [2, 3, 1]
    workers: dict[int, int] = {}

    def follow() -> None:
        workers[numbers[0]] = len(engine.worker_pids())
        if workers[numbers[0]] == numbers[0]:
            numbers.pop(0)
            if numbers:
                (tmp_path / "fairlead.toml").write_text(f"workers = {numbers[0]}")
            else:
                engine.stop()

    with Fairlead(tmp_path) as fairlead:
        documents = fairlead.submit_many("acme", letters(40))
        engine = fairlead.services.engine(on_tick=lambda: follow() if numbers else None)
        engine.run()
        assert workers == {2: 2, 3: 3, 1: 1}
        fairlead.run_until_idle()
        assert {fairlead.document(document.id).attempts for document in documents} == {1}


def test_a_worker_that_leaves_gets_no_more_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "CHECK_SECONDS", 0.0)
    claims_of_slots: list[set[str]] = []

    def follow() -> None:
        totals = fairlead.queue.totals()
        if not totals.waiting + totals.processing:  # maybe before a second slot had a claim
            engine.stop()
        for slot in engine.workers.slots[1:]:
            if slot.claim is not None:
                (tmp_path / "fairlead.toml").write_text("workers = 1")
            if slot.is_leaving:
                claims_of_slots.append({claim.id for claim in slot.claims})

    with Fairlead(tmp_path) as fairlead:
        documents = fairlead.submit_many("acme", letters(300))
        engine = fairlead.services.engine(on_tick=follow)
        engine.run()
        assert all(later <= before for before, later in pairwise(claims_of_slots))
        assert {fairlead.document(document.id).attempts for document in documents} == {1}


def run(fairlead: Fairlead, on_tick: Callable[[LocalEngine], None], workers: int = 2) -> None:
    engine = fairlead.services.engine(workers, on_tick=lambda: on_tick(engine))
    engine.run(until_idle=True)


def run_and(fairlead: Fairlead, after_start: Callable[[WorkerSlot], None]) -> None:
    """Run until idle; right after each start, its slot is handed to `after_start`.

    By then the worker has the document, and cannot have read one of hundreds of pages: whatever
    is done to it meets it in mid-work, on a machine of any speed.
    """
    send = WorkerSlot.send

    def send_and(slot: WorkerSlot, job: ReadJob) -> FinishedJob | None:
        finished = send(slot, job)
        after_start(slot)
        return finished

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerSlot, "send", send_and)
        fairlead.run_until_idle(workers=2)


def events_of(fairlead: Fairlead, document: Document) -> list[EventKind]:
    return [
        event.kind
        for event in fairlead.store.events(limit=100_000)
        if event.document == document.id
    ]


def test_every_document_is_read_and_its_text_kept(fairlead: Fairlead) -> None:
    submitted = list(samples(10, seed=1))
    contents = [(sample.content, sample.name) for sample in submitted]
    documents = fairlead.submit_many("acme", contents)
    fairlead.run_until_idle(workers=2)
    for document, sample in zip(documents, submitted, strict=True):
        assert fairlead.document(document.id).state == "done"
        assert sample.reference in fairlead.text(document.id)
        assert fairlead.original(document.id) == sample.content


@pytest.mark.full
def test_twenty_workers_killed_in_mid_work_lose_and_double_nothing(fairlead: Fairlead) -> None:
    documents = fairlead.submit_many("acme", letters(1980))
    large, name = long_document()
    documents += [fairlead.submit("globex", large, name=f"{n}-{name}") for n in range(20)]
    victims = {document.id for document in documents[-20:]}

    def kill_readers_of_victims(slot: WorkerSlot) -> None:
        if slot.claim and slot.claim.id in victims:
            victims.remove(slot.claim.id)
            os.kill(slot.sandbox.pid, signal.SIGKILL)

    run_and(fairlead, kill_readers_of_victims)
    ends = Counter(
        event.document
        for event in fairlead.store.events(limit=100_000)
        if event.kind in (EventKind.DONE, EventKind.FAILED, EventKind.CANCELLED)
    )
    assert ends == {document.id: 1 for document in documents}
    current = [fairlead.document(document.id) for document in documents]
    assert {document.state for document in current} == {State.DONE}
    assert [document.attempts for document in current] == [1] * 1980 + [2] * 20
    assert all(fairlead.text(document.id) for document in documents)


def test_a_document_whose_reader_is_always_killed_ends_as_failed(fairlead: Fairlead) -> None:
    """Safety finding 9: the attempts are those that `max_attempts` allows."""
    content, name = long_document()
    poison = fairlead.submit("acme", content, name=name)
    harmless = fairlead.submit("globex", b"harmless", name="h.txt")

    def kill_its_reader(slot: WorkerSlot) -> None:
        if slot.claim and slot.claim.id == poison.id:
            os.kill(slot.sandbox.pid, signal.SIGKILL)

    run_and(fairlead, kill_its_reader)
    ended = fairlead.document(poison.id)
    assert (ended.state, ended.error, ended.attempts) == (State.FAILED, "worker-lost", 3)
    assert fairlead.document(harmless.id).state is State.DONE


def test_a_document_whose_reader_is_killed_twice_is_read(fairlead: Fairlead) -> None:
    """Safety finding 9: a kill from outside counted as the document's own crash."""
    document = fairlead.submit("acme", long_document()[0], name="long.pdf")
    killed: set[int] = set()

    def kill_two_readers(slot: WorkerSlot) -> None:
        if slot.claim and len(killed) < 2 and slot.sandbox.pid not in killed:
            killed.add(slot.sandbox.pid)
            os.kill(slot.sandbox.pid, signal.SIGKILL)

    run_and(fairlead, kill_two_readers)
    ended = fairlead.document(document.id)
    assert (ended.state, ended.attempts) == (State.DONE, 3)


def test_a_worker_that_dies_idle_is_replaced(fairlead: Fairlead) -> None:
    killed: list[int] = []

    def kill_one_once(engine: LocalEngine) -> None:
        if not killed and any(slot.is_free for slot in engine.workers.slots):
            free = next(slot for slot in engine.workers.slots if slot.is_free)
            killed.append(free.sandbox.pid)
            os.kill(free.sandbox.pid, signal.SIGKILL)
            fairlead.submit_many("acme", letters(50))

    fairlead.submit("acme", b"first", name="first.txt")
    run(fairlead, kill_one_once)
    assert killed
    assert {document.state for document in fairlead.documents()} == {State.DONE}


def test_the_lease_is_renewed_while_the_work_goes_on(tmp_path: Path) -> None:
    with Fairlead(tmp_path / "data", settings={"lease": 1.0}) as fairlead:
        document = fairlead.submit("acme", b"slow", name="slow.txt")
        stopped: list[int] = []

        def hold_for_three_leases(engine: LocalEngine) -> None:
            for slot in busy_slots(engine):
                if not stopped:
                    os.kill(slot.sandbox.pid, signal.SIGSTOP)
                    stopped.append(slot.sandbox.pid)
                if slot.seconds() > 3:
                    os.kill(slot.sandbox.pid, signal.SIGCONT)
                else:
                    assert fairlead.store.claim("thief") is None

        # Stopped before its job is sent, so that it cannot be done too soon.
        def stop_first(engine: LocalEngine) -> None:
            for slot in engine.workers.slots:
                if slot.is_free and not stopped:
                    os.kill(slot.sandbox.pid, signal.SIGSTOP)
                    stopped.append(slot.sandbox.pid)
            hold_for_three_leases(engine)

        run(fairlead, stop_first, workers=1)
        ended = fairlead.document(document.id)
        assert (ended.state, ended.attempts) == (State.DONE, 1)


def test_leases_are_renewed_as_soon_as_the_store_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of an hour after they could not be, it might be too late."""
    with Fairlead(tmp_path, settings={"lease": 3600}) as fairlead:
        engine = fairlead.services.engine(1)
        engine.workers.match_count()
        attend, tries = fairlead.store.attend, 0

        def fail_once(name: str, *report: Any) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise StoreUnreachable("the database is away")
            attend(name, *report)

        monkeypatch.setattr(fairlead.store, "attend", fail_once)
        turns = 0
        while tries < 2 and turns < 500:
            engine._turn(claims=False)
            turns += 1
        engine.close()
        assert tries == 2


def test_a_document_over_its_time_ends_as_failed(tmp_path: Path) -> None:
    settings = {"time_limit": 1.0, "max_attempts": 1}
    with Fairlead(tmp_path / "data", settings=settings) as fairlead:
        content, name = long_document()
        document = fairlead.submit("acme", content, name=name)

        run_and(fairlead, lambda slot: os.kill(slot.sandbox.pid, signal.SIGSTOP))
        ended = fairlead.document(document.id)
        assert (ended.state, ended.error) == (State.FAILED, "time-limit")


def test_cancelling_stops_the_worker(fairlead: Fairlead) -> None:
    content, name = long_document()
    document = fairlead.submit("acme", content, name=name)
    pids: list[int] = []

    def cancel_at_work(slot: WorkerSlot) -> None:
        os.kill(slot.sandbox.pid, signal.SIGSTOP)  # it would never end by itself
        pids.append(slot.sandbox.pid)
        fairlead.cancel(document.id)

    run_and(fairlead, cancel_at_work)
    assert fairlead.document(document.id).state is State.CANCELLED
    assert pids
    assert not Path(f"/proc/{pids[0]}").exists()


def test_no_worker_idles_while_a_document_waits(fairlead: Fairlead) -> None:
    fairlead.submit_many("acme", letters(60))
    fairlead.submit_many("globex", letters(60))
    engine = fairlead.services.engine(2)
    claim, looked = engine._claim, []

    def claim_and_look() -> None:
        claim()
        if any(slot.is_free for slot in engine.workers.slots):
            looked.append(fairlead.queue.totals().waiting)

    engine._claim = claim_and_look  # type: ignore[method-assign]
    engine.run(until_idle=True)
    assert looked
    assert set(looked) == {0}


def test_a_capped_customer_never_has_more_at_work(fairlead: Fairlead) -> None:
    fairlead.customers.add("acme")
    fairlead.customers.set("acme", processing_cap=1)
    fairlead.submit_many("acme", letters(20))
    at_work: list[int] = []

    def look(_engine: LocalEngine) -> None:
        at_work.append(fairlead.store.customer("acme").processing)

    run(fairlead, look)
    assert max(at_work) == 1
    assert {document.state for document in fairlead.documents()} == {State.DONE}


def test_paused_documents_stay_and_do_not_keep_the_engine(fairlead: Fairlead) -> None:
    document = fairlead.submit("acme", b"later", name="later.txt")
    fairlead.customers.pause("acme")
    fairlead.submit("globex", b"now", name="now.txt")
    fairlead.run_until_idle(workers=1)
    assert fairlead.document(document.id).state is State.WAITING
    fairlead.customers.resume("acme")
    fairlead.run_until_idle(workers=1)
    assert fairlead.document(document.id).state is State.DONE


DIES_AT_FIRST_START = """
import os, signal, sys
from fairlead import Fairlead
from fairlead.worker.slot import WorkerSlot
from fairlead.worker.result_writer import ResultWriter
from fairlead.worker.sandbox.answer import Extraction

WorkerSlot.start = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with Fairlead(sys.argv[1], settings={"lease": 3600.0}) as fairlead:
    fairlead.run_until_idle(workers=1)
"""


def test_documents_of_an_engine_that_was_killed_are_rescued_at_once(tmp_path: Path) -> None:
    """The lease is an hour: without a look at who still lives, this would not end."""
    with Fairlead(tmp_path / "data", settings={"lease": 3600.0}) as fairlead:
        documents = fairlead.submit_many("acme", letters(20))
        died = subprocess.run(
            [sys.executable, "-c", DIES_AT_FIRST_START, tmp_path / "data"], check=False
        )
        assert died.returncode == -signal.SIGKILL
        assert fairlead.queue.totals().processing == 1
        fairlead.run_until_idle(workers=2)
        assert {fairlead.document(document.id).state for document in documents} == {State.DONE}


def test_results_do_not_leave_a_trace_of_a_stale_worker(fairlead: Fairlead) -> None:
    """A claim that was taken away while its result was on the way: nothing of it is kept."""
    document = fairlead.submit("acme", LONG, name="mine.txt")
    old = fairlead.store.claim("slow")
    assert old is not None
    fairlead.store.rescue_from("slow")
    fairlead.run_until_idle(workers=1)
    writer = ResultWriter(fairlead.store, fairlead.files, fairlead.texts, lambda: None)
    writer.add(FinishedJob(old, Extraction("text", LONG.decode(), {}), 0.1))
    writer.close()
    assert writer.error is None
    assert fairlead.text(document.id) == LONG.decode()
    (name,) = [path.name for path in fairlead.folder.texts.rglob("*.txt")]
    assert name.startswith(document.id)
    assert name != f"{document.id}.{old.fence}.txt"
    assert events_of(fairlead, document).count(EventKind.DONE) == 1


def is_alive(pid: int) -> bool:
    """Not one that has ended, and only waits for the machine's first process to notice."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a bug in the caller's tick")])
def test_an_interruption_gives_back_the_claims_and_ends_the_children(
    fairlead: Fairlead, error: BaseException
) -> None:
    document = fairlead.submit("acme", long_document()[0], name="long.pdf")
    pids: list[int] = []

    def interrupt(engine: LocalEngine) -> None:
        if busy_slots(engine):
            pids.extend(engine.worker_pids())
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)  # none of them would end by itself
            raise error

    with pytest.raises(type(error)):
        run(fairlead, interrupt)
    assert len(pids) == 2
    assert not any(is_alive(pid) for pid in pids)
    current = fairlead.document(document.id)
    assert (current.state, current.attempts) == (State.WAITING, 0)


def test_a_claim_whose_answer_was_interrupted_is_given_back(fairlead: Fairlead) -> None:
    """A Ctrl-C while the claim waits for somebody else's commit: it is claimed all the same."""
    documents = fairlead.submit_many("acme", letters(3))
    claim_requests = fairlead.store.claim_requests

    def claim_and_be_interrupted(requests: Sequence[ClaimRequest]) -> tuple[list[Claim], float]:
        assert claim_requests(requests)[0]
        raise KeyboardInterrupt

    fairlead.store.claim_requests = claim_and_be_interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        fairlead.run_until_idle(workers=2)
    current = [fairlead.document(document.id) for document in documents]
    assert [(document.state, document.attempts) for document in current] == [(State.WAITING, 0)] * 3


def test_results_that_cannot_be_saved_cost_no_attempt(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full three times must not make documents fail that nobody could save."""
    document = fairlead.submit("acme", LONG, name="hello.txt")

    def refuse(*_arguments: object, **_options: object) -> None:
        raise DamagedData("the folder of texts cannot be used")

    with monkeypatch.context() as patch:
        patch.setattr(LocalBlobs, "put_all", refuse)
        for _ in range(4):
            with pytest.raises(DamagedData):
                fairlead.run_until_idle(workers=1)
            current = fairlead.document(document.id)
            assert (current.state, current.attempts) == (State.WAITING, 0)
    fairlead.run_until_idle(workers=1)
    assert fairlead.text(document.id) == LONG.decode()


def test_a_missing_library_ends_the_engine_with_its_name_and_loses_nothing(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = fairlead.submit("acme", b"hello", name="hello.txt")

    def cannot_start(self: Sandbox, raw: bytes) -> None:
        raise MissingExtra("pypdfium2 is missing; install it")

    monkeypatch.setattr(Sandbox, "_greet", cannot_start)
    with pytest.raises(MissingExtra, match="install it"):
        fairlead.run_until_idle(workers=2)
    current = fairlead.document(document.id)
    assert (current.state, current.attempts) == (State.WAITING, 0)


@pytest.mark.usefixtures("own_fork_servers")
def test_children_that_cannot_start_are_an_outage_with_a_sentence(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairlead.submit("acme", b"hello", name="hello.txt")
    dying = (
        "import sys; from fairlead.worker.sandbox import child, forkserver_main as birth\n"
        "child.main = lambda *_, **__: 3\n"
        "birth.main(int(sys.argv[1]))"
    )
    command = [sys.executable, "-c", dying, str(os.getpid())]
    monkeypatch.setattr(ForkServer, "_command", starting(command))
    monkeypatch.setattr(local, "LONGEST_OUTAGE", 0.0)
    with pytest.raises(TemporarilyUnavailable, match=r"exit code 3\); check the installation"):
        fairlead.run_until_idle(workers=2)
    for broken in ([sys.executable, "-c", "exit(3)"], ["/nowhere/python"]):
        monkeypatch.setattr(ForkServer, "_command", starting(broken))
        with pytest.raises(TemporarilyUnavailable, match="could not be started"):
            fairlead.run_until_idle(workers=2)
    assert fairlead.queue.totals().waiting == 1


def test_idle_children_may_be_killed_as_often_as_somebody_likes(fairlead: Fairlead) -> None:
    fairlead.submit("acme", b"later", name="later.txt")
    fairlead.customers.pause("acme")
    keeper = fairlead.submit("globex", b"x", name="x.txt")
    assert fairlead.store.claim("keeper") is not None  # else the engine would be idle, and end
    killed: set[int] = set()

    def kill_the_idle(engine: LocalEngine) -> None:
        for slot in engine.workers.slots:
            if slot.is_free and len(killed) < 7:
                killed.add(slot.sandbox.pid)
                os.kill(slot.sandbox.pid, signal.SIGKILL)
        if len(killed) == 7 and any(slot.is_free for slot in engine.workers.slots):
            fairlead.cancel(keeper.id)

    run(fairlead, kill_the_idle)
    assert len(killed) == 7


def test_new_limits_hold_from_the_next_claim_on(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        first = fairlead.submit("acme", b"0123456789", name="1.txt")
        second: list[Document] = []

        def tighten(engine: LocalEngine) -> None:
            if not second and fairlead.document(first.id).state is State.DONE:
                (tmp_path / "fairlead.toml").write_text("max_characters = 4")
                second.append(fairlead.submit("acme", b"0123456789", name="2.txt"))

        run(fairlead, tighten, workers=1)
        assert len(fairlead.text(first.id)) == 10
        assert len(fairlead.text(second[0].id)) <= 4


def test_to_stop_an_engine_that_has_ended_touches_nothing(
    fairlead: Fairlead, tmp_path: Path
) -> None:
    """The number of its closed pipe may by now be that of any file, even of the database."""
    engine = fairlead.services.engine(1)
    button = engine._wake_pipe._writer
    engine.run(until_idle=True)
    with (tmp_path / "foreign").open("wb") as foreign:
        os.dup2(foreign.fileno(), button)
        engine.stop()
        engine.stop()
        os.close(button)
    assert (tmp_path / "foreign").read_bytes() == b""
    assert engine.stopping is Stop.NOW


def test_progress_is_reported_once_while_it_stays_the_same(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(Sandbox, "progress", property(lambda _: (1, 500)))
    content, name = long_document()
    document = fairlead.submit("acme", content, name=name)
    fairlead.run_until_idle()
    kinds = events_of(fairlead, document)
    assert (kinds.count(EventKind.PROGRESS), kinds[-1]) == (1, EventKind.DONE)
