"""Hostile documents among honest ones, in a whole engine: each comes to its end, in time."""

from __future__ import annotations

import signal
import time
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hostilekit import hostile_forkserver

from fairlead import Fairlead
from fairlead.errors import NoSandbox
from fairlead.model.documents import Claim, Document, EventKind
from fairlead.model.states import State
from fairlead.worker.engine import LocalEngine
from fairlead.worker.sandbox.forkserver import ForkServer
from fairlead.worker.sandbox.process import ReadJob
from fairlead.worker.slot import WorkerSlot

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("own_fork_servers")]

Install = Callable[..., Fairlead]
PDF = b"""%%PDF-1.4
1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj
2 0 obj <</Type /Pages /Kids [3 0 R] /Count 1>> endobj
3 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 300 99] /Contents 4 0 R>> endobj
4 0 obj <</Length %d /Filter /FlateDecode>> stream
%s
endstream endobj
trailer <</Root 1 0 R>>
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> Install:
    """An installation whose workers do what hostile documents say."""
    monkeypatch.setattr(ForkServer, "_command", lambda _: hostile_forkserver())

    def make(**settings: Any) -> Fairlead:
        fairlead = Fairlead(tmp_path / "data", settings={"retry_delay": 0.01} | settings)
        request.addfinalizer(fairlead.close)
        return fairlead

    return make


def hostile(fairlead: Fairlead, behaviour: str, argument: object = "") -> Document:
    return fairlead.submit("mallory", f"hostile:{behaviour} {argument}".encode(), name=behaviour)


def ended(fairlead: Fairlead, document: Document) -> tuple[State, str | None, int]:
    current = fairlead.document(document.id)
    return current.state, current.error, current.attempts


def test_a_document_that_never_ends_is_stopped_twice_and_fails(install: Install) -> None:
    fairlead = install(time_limit=1.0)
    asleep, honest = hostile(fairlead, "sleep_deaf"), fairlead.submit("acme", b"hello", name="h")
    began = time.monotonic()
    fairlead.run_until_idle(workers=2)
    assert time.monotonic() - began < 20
    assert ended(fairlead, asleep) == (State.FAILED, "time-limit", 2)
    assert fairlead.document(asleep.id).detail == "Reading it took longer than 1 s."
    assert ended(fairlead, honest) == (State.DONE, None, 1)


def test_memory_is_named_with_its_limit(install: Install) -> None:
    fairlead = install(memory_limit=300_000_000)
    greedy = hostile(fairlead, "fill_memory")
    fairlead.run_until_idle(workers=1)
    assert ended(fairlead, greedy) == (State.FAILED, "memory-limit", 2)
    assert fairlead.document(greedy.id).detail == "Reading it needed more than 300 MB of memory."


def test_a_pdf_that_fills_the_memory_is_named_with_the_limit(install: Install) -> None:
    """Safety finding 9: PDFium ends the process when it gets no memory, which was a crash."""
    fairlead = install(memory_limit=300_000_000)
    packer = zlib.compressobj()
    content = b"".join(packer.compress(bytes(1_000_000)) for _ in range(400)) + packer.flush()
    bomb = fairlead.submit("mallory", PDF % (len(content), content), name="bomb.pdf")
    fairlead.run_until_idle(workers=1)
    assert ended(fairlead, bomb) == (State.FAILED, "memory-limit", 2)
    assert fairlead.document(bomb.id).detail == "Reading it needed more than 300 MB of memory."


def test_a_suspect_is_read_alone_in_a_fresh_process(install: Install) -> None:
    fairlead = install()
    crash = hostile(fairlead, "crash")
    for number in range(40):
        fairlead.submit("acme", b"letter %d" % number, name=str(number))
    sent: list[tuple[str, int, int]] = []  # document, attempts, process
    engine = fairlead.services.engine(1)
    send = WorkerSlot.send

    def send_and_note(slot: WorkerSlot, job: ReadJob) -> Any:
        sent.append((slot.claims[-1].id, slot.claims[-1].attempts, slot.sandbox.pid))
        return send(slot, job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerSlot, "send", send_and_note)
        engine.run(until_idle=True)
    second = next(pid for id_, attempts, pid in sent if (id_, attempts) == (crash.id, 2))
    assert [id_ for id_, _, pid in sent if pid == second] == [crash.id]
    assert ended(fairlead, crash) == (State.FAILED, "crashed", 2)
    assert {document.state for document in fairlead.documents(customer="acme")} == {State.DONE}


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [("crash", "crashed"), ("two_answers", "bad-answer"), ("fill_memory", "memory-limit")],
)
def test_only_the_guilty_one_is_blamed_of_those_that_lay_ready(
    install: Install, behaviour: str, code: str
) -> None:
    fairlead = install(memory_limit=300_000_000)
    letters = [fairlead.submit("mallory", b"letter %d" % n, name=str(n)) for n in range(5)]
    guilty = hostile(fairlead, behaviour)
    letters += [fairlead.submit("mallory", b"more %d" % n, name=str(n)) for n in range(20)]
    engine = fairlead.services.engine(1)
    engine.prefetch.learn(0.001)
    engine.run(until_idle=True)
    assert ended(fairlead, guilty) == (State.FAILED, code, 2)
    assert {ended(fairlead, letter) for letter in letters} == {(State.DONE, None, 1)}


def test_a_child_that_was_taken_over_never_sees_another_customer(install: Install) -> None:
    """Safety finding 4: a taken-over child changed a victim's text and told it to the attacker."""
    fairlead = install()
    hostile(fairlead, "take_over")
    after = fairlead.submit("mallory", b"next", name="next")
    contracts = [fairlead.submit("acme", b"IBAN 1", name="contract")]
    later = fairlead.submit("mallory", b"later", name="later")
    contracts.append(fairlead.submit("globex", b"IBAN 1", name="contract"))
    engine = fairlead.services.engine(1)
    engine.prefetch.learn(0.001)  # so that documents lie ready
    engine.run(until_idle=True)
    assert fairlead.text(after.id) == "changed after ['next']"  # the control: the attack works
    assert fairlead.text(later.id) == "changed after ['next', 'later']"  # and nobody else's
    assert [fairlead.text(contract.id) for contract in contracts] == ["IBAN 1"] * 2


def test_documents_of_a_customer_go_to_the_child_that_serves_it(install: Install) -> None:
    """Safety finding 4: customers who alternate cost no new child where each can have one."""
    fairlead = install()
    sent: dict[int, set[str]] = {}
    send = WorkerSlot.send

    def send_and_note(slot: WorkerSlot, job: ReadJob) -> Any:
        sent.setdefault(slot.sandbox.pid, set()).add(slot.claims[-1].customer)
        return send(slot, job)

    for number in range(30):
        for customer in ("acme", "globex"):
            fairlead.submit(customer, b"letter %d" % number, name=str(number))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerSlot, "send", send_and_note)
        fairlead.run_until_idle(workers=2)
    assert all(len(customers) == 1 for customers in sent.values())
    assert len(sent) < 60


def test_a_suspect_that_is_read_at_last_is_done(install: Install) -> None:
    """Whoever was in the same process as the cause does not suffer from it."""
    fairlead = install()
    document = fairlead.submit("acme", b"innocent", name="i.txt")
    claim = fairlead.store.claim("gone")
    assert claim is not None
    fairlead.store.rescue_from("gone")
    fairlead.run_until_idle(workers=1)
    assert ended(fairlead, document) == (State.DONE, None, 2)


def test_a_cancelled_document_stops_within_a_second(install: Install) -> None:
    fairlead = install()
    asleep = hostile(fairlead, "sleep_deaf")
    cancelled: list[float] = []

    def cancel(engine: LocalEngine) -> None:
        (slot,) = engine.workers.slots
        if slot.claim is not None and not cancelled:
            fairlead.cancel(asleep.id)
            cancelled.append(time.monotonic())

    engine: LocalEngine = fairlead.services.engine(1, on_tick=lambda: cancel(engine))
    engine.run(until_idle=True)
    assert time.monotonic() - cancelled[0] < 1.0
    assert ended(fairlead, asleep)[0] is State.CANCELLED


ALL = (
    *("burn", "fill_memory", "start_threads", "close_pipes", "leave", "crash", "system_exit"),
    *("panic", "two_answers", "giant_length", "unknown_tag", "flood_of_progress"),
    *("flood_of_parts", "endless_output", "deep_json", "kill_parent", "fork", "sleep"),
)


@pytest.mark.full
def test_every_hostile_document_has_an_end_and_nobody_else_suffers(install: Install) -> None:
    fairlead = install(time_limit=2.0, memory_limit=400_000_000, max_members=10)
    bad = [hostile(fairlead, behaviour, 0) for behaviour in ALL]
    good = [fairlead.submit("acme", b"letter %d" % n, name=str(n)) for n in range(50)]
    fairlead.run_until_idle(workers=2)
    assert {fairlead.document(document.id).state for document in bad} <= {State.DONE, State.FAILED}
    # One that came into a process which a hostile one had left in disorder is read once more.
    assert {fairlead.document(document.id).state for document in good} == {State.DONE}
    for document in bad:
        kinds = [
            event.kind
            for event in fairlead.store.events(limit=10_000)
            if event.document == document.id
        ]
        assert len([kind for kind in kinds if kind in (EventKind.DONE, EventKind.FAILED)]) == 1
    assert not list(fairlead.folder.job_dirs.iterdir())


def test_progress_is_reported_while_the_work_goes_on(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairlead = install()
    slow = hostile(fairlead, "turn_pages", 40)
    fairlead.run_until_idle(workers=1)
    reports = [event for event in fairlead.store.events() if event.kind is EventKind.PROGRESS]
    assert ended(fairlead, slow)[0] is State.DONE
    assert {report.document for report in reports} == {slow.id}
    assert [report.data["pages"] for report in reports] == [40] * len(reports)
    done = [report.data["pages_done"] for report in reports]
    assert done == sorted(set(done))
    times = [report.at for report in reports]
    assert all(after - before > 0.9 for before, after in pairwise(times))


def test_strict_refuses_to_work_where_a_lock_is_missing(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairlead = install(sandbox="strict")
    without = "hostile.child.lock_files = lambda *_: False\n"
    monkeypatch.setattr(ForkServer, "_command", lambda _: hostile_forkserver(without))
    document = fairlead.submit("acme", b"hello", name="h.txt")
    with pytest.raises(NoSandbox, match="Landlock"):
        fairlead.run_until_idle(workers=1)
    assert fairlead.document(document.id).state is State.WAITING
    with Fairlead(fairlead.folder.path, settings={"sandbox": "best"}) as lenient:
        lenient.run_until_idle(workers=1)
        assert lenient.document(document.id).state is State.DONE


def test_a_worker_whose_job_dir_was_removed_goes_on(install: Install) -> None:
    fairlead = install()
    document = fairlead.submit("acme", b"hello", name="h.txt")
    engine = fairlead.services.engine(1)
    start = engine._start
    removed: list[Path] = []

    def remove_job_dir(slot: WorkerSlot, claim: Claim) -> None:
        if not removed:
            removed.append(slot.sandbox.job_dir.folder)
            slot.sandbox.job_dir.folder.rmdir()
        start(slot, claim)

    engine._start = remove_job_dir  # type: ignore[method-assign]
    engine.run(until_idle=True)
    assert ended(fairlead, document) == (State.DONE, None, 1)


def test_a_fork_server_that_was_killed_is_replaced(install: Install) -> None:
    """Its children die with it; what they were reading is read once more."""
    fairlead = install()
    documents = [fairlead.submit("acme", b"letter %d" % n, name=str(n)) for n in range(300)]
    killed: list[int] = []

    def kill_once(engine: LocalEngine) -> None:
        process = engine.workers._forkserver._process
        if process is not None and not killed and any(slot.claim for slot in engine.workers.slots):
            killed.append(process.pid)
            process.kill()

    engine: LocalEngine = fairlead.services.engine(2, on_tick=lambda: kill_once(engine))
    engine.run(until_idle=True)
    assert killed
    assert {fairlead.document(document.id).state for document in documents} == {State.DONE}


def test_beside_threads_children_are_spawned(install: Install, monkeypatch: Any) -> None:
    threads = (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    monkeypatch.setattr(ForkServer, "_command", lambda _: hostile_forkserver(threads))
    fairlead = install()
    document = fairlead.submit("acme", b"hello", name="h.txt")
    fairlead.run_until_idle(workers=1)
    assert ended(fairlead, document) == (State.DONE, None, 1)


def test_a_stopped_fork_server_does_not_block_the_end(install: Install) -> None:
    fairlead = install()
    document = hostile(fairlead, "sleep_deaf")

    def stop(engine: LocalEngine) -> None:
        process = engine.workers._forkserver._process
        if process is not None and engine.workers.slots[0].claim is not None:
            process.send_signal(signal.SIGSTOP)
            engine.stop()
            engine.stop()

    engine: LocalEngine = fairlead.services.engine(1, on_tick=lambda: stop(engine))
    engine.run()
    assert fairlead.document(document.id).state is State.WAITING
