"""Prefetch: only where documents are short, never for long, and all claims are given back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from enginekit import letters, long_document

from fairlead import Fairlead
from fairlead.model.documents import Claim, EventKind
from fairlead.model.states import State
from fairlead.worker import engine as local
from fairlead.worker.prefetch import (
    AHEAD_SECONDS,
    MOST_AHEAD,
    MOST_AHEAD_OF_SLOW_CLAIMS,
    STUCK_SECONDS,
    Prefetch,
)
from fairlead.worker.result_saver import FinishedJob
from fairlead.worker.sandbox.process import ReadJob
from fairlead.worker.slot import WorkerSlot

pytestmark = pytest.mark.services


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data", settings={"retry_delay": 0.01}) as installation:
        yield installation


def claim(number: int) -> Claim:
    return Claim(f"id-{number}", 1, "worker", "acme", "a.txt", 1, "0" * 64, 1, 0.0, 0.0, 1)


@pytest.mark.parametrize("seconds", [0.06, 0.5, 6.0])
def test_long_documents_are_claimed_when_a_worker_is_free(seconds: float) -> None:
    prefetch = Prefetch()
    assert [prefetch.wanted(free, 1) for free in (0, 1)] == [0, 1]
    prefetch.learn(seconds)
    assert [prefetch.wanted(free, 1) for free in (0, 1)] == [0, 1]


def test_prefetched_claims_are_a_moment_of_work() -> None:
    prefetch = Prefetch()
    prefetch.learn(0.01)
    ahead = round(AHEAD_SECONDS * 2 / 0.01)
    assert prefetch.wanted(2, 2) == ahead + 2
    prefetch.claims.extend(claim(n) for n in range(ahead))
    assert prefetch.wanted(0, 2) == 0
    for _ in range(ahead // 2 + 1):
        prefetch.claims.popleft()
    assert prefetch.wanted(0, 2) == ahead - len(prefetch.claims)  # a whole portion, not one by one


def test_however_short_documents_are_there_is_an_end() -> None:
    prefetch = Prefetch()
    prefetch.learn(0.0)
    assert prefetch.wanted(0, 64) == MOST_AHEAD
    assert prefetch.wanted(0, 64, STUCK_SECONDS + 0.01) == 0  # what would be given back at once


def test_where_claims_are_slow_more_is_claimed_ahead() -> None:
    near, distant = Prefetch(), Prefetch()
    for prefetch in (near, distant):
        prefetch.learn(0.02)
    for _ in range(50):
        near.learn_claim(0.01)
        distant.learn_claim(0.25)
    assert near.wanted(0, 4) == round(AHEAD_SECONDS * 4 / 0.02)
    worth = distant.wanted(0, 4) * 0.02 / 4
    assert 0.5 < worth < 0.6, "the work of two claims for each worker"
    distant.learn(0.0)
    for _ in range(100):
        distant.learn(0.0)
    assert distant.wanted(0, 4) == MOST_AHEAD_OF_SLOW_CLAIMS


def test_long_documents_are_not_claimed_ahead_where_claims_are_slow() -> None:
    prefetch = Prefetch()
    prefetch.learn(6.0)
    for _ in range(50):
        prefetch.learn_claim(0.25)
    assert [prefetch.wanted(free, 1) for free in (0, 1)] == [0, 1]


def test_the_time_of_a_claim_is_learnt_from_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("fairlead.worker.prefetch.time.monotonic", lambda: now[0])
    prefetch = Prefetch()
    prefetch.learn(0.02)
    for number in range(50):
        wanted = prefetch.wanted(1, 1)
        assert wanted > 0
        now[0] += 0.3
        prefetch.add([claim(number)])
        prefetch.claims.clear()
    assert wanted > 20
    now[0] += 1000
    prefetch.add([])  # of no claim
    assert prefetch.wanted(1, 1) <= wanted + 1


def test_one_long_document_among_short_ones_makes_it_careful() -> None:
    prefetch = Prefetch()
    prefetch.learn(0.005)
    assert prefetch.wanted(1, 1) > 1
    prefetch.learn(6.0)
    assert prefetch.wanted(1, 1) == 1


def test_a_claim_that_is_held_no_more_is_dropped() -> None:
    prefetch = Prefetch()
    prefetch.claims.extend([claim(1), claim(2)])
    prefetch.drop([claim(1), claim(3)])
    assert list(prefetch.claims) == [claim(2)]


def test_prefetched_claims_are_released_when_the_engine_stops(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        documents = fairlead.submit_many("acme", [(b"x", "x.txt")] * 200)
        engine = fairlead.services.engine(1)
        seen: list[int] = []

        def stop_with_prefetched_claims() -> None:
            if engine.prefetch.claims and not seen:
                seen.append(len(engine.prefetch.claims))
                engine.stop()

        engine._on_tick = stop_with_prefetched_claims
        engine.run(until_idle=True)
        current = [fairlead.document(document.id) for document in documents]
        assert seen
        assert {document.state for document in current} == {State.DONE, State.WAITING}
        assert {document.attempts for document in current if document.state is State.WAITING} == {0}
        assert fairlead.queue.totals().processing == 0
        fairlead.run_until_idle(workers=1)
        assert {fairlead.document(document.id).state for document in documents} == {State.DONE}


def test_a_prefetched_document_that_is_cancelled_ends_as_cancelled(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        fairlead.submit_many("acme", [(b"x", "x.txt")] * 100)
        engine = fairlead.services.engine(1)
        cancelled: list[str] = []

        def cancel_the_last_prefetched() -> None:
            if len(engine.prefetch.claims) > 1 and not cancelled:
                cancelled.append(engine.prefetch.claims[-1].id)
                fairlead.cancel(cancelled[0])

        engine._on_tick = cancel_the_last_prefetched
        engine.run(until_idle=True)
        states = [document.state for document in fairlead.documents(limit=200)]
        assert states.count(State.CANCELLED) == 1
        assert states.count(State.DONE) == 99


def test_a_suspect_at_the_head_does_not_look_like_an_empty_line(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not claimed to lie ready, nor asked for again and again; a free worker gets it."""
    monkeypatch.setattr(local, "CHECK_SECONDS", 3600.0)  # else that would only be slow
    fairlead.submit_many("acme", letters(3))
    fairlead.store.claim_for([], ["gone"] * 3)
    fairlead.store.rescue_from("gone")
    engine = fairlead.services.engine(1)
    engine.prefetch.learn(0.001)
    engine.workers.match_count()
    engine._keep_leases()
    commits = []
    for _ in range(3):
        engine._claim()  # its worker has not been heard of yet
        commits.append(fairlead.store.commits())
    assert commits[0] == commits[1] == commits[2]
    assert fairlead.queue.totals().waiting == 3
    engine.work(3600.0)  # until nothing is left
    engine.close()
    documents = fairlead.documents()
    assert {(document.state, document.attempts) for document in documents} == {(State.DONE, 1)}


def test_what_was_claimed_beforehand_does_not_wait_behind_a_long_document(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings={"time_limit": 30}) as fairlead:
        content, name = long_document()
        long = fairlead.submit("acme", content, name=name)
        fairlead.submit_many("acme", letters(20))
        frozen: list[int] = []
        meanwhile: list[EventKind] = []

        def thaw_when_others_could_have_the_rest() -> None:
            if frozen and not engine.prefetch.claims and not engine.workers.slots[0].behind:
                meanwhile.extend(event.kind for event in fairlead.store.events())
                with suppress(ProcessLookupError):  # its time is over
                    os.kill(frozen.pop(), signal.SIGCONT)

        engine = fairlead.services.engine(1, on_tick=thaw_when_others_could_have_the_rest)
        engine.prefetch.learn(0.001)  # as if all before had been short
        start = engine._start

        def start_and_freeze(slot: WorkerSlot, claim: Claim) -> None:
            start(slot, claim)
            if claim.id == long.id:
                os.kill(slot.sandbox.pid, signal.SIGSTOP)
                frozen.append(slot.sandbox.pid)

        engine._start = start_and_freeze  # type: ignore[method-assign]
        engine.run(until_idle=True)
        assert meanwhile.count(EventKind.CLAIMED) == 21
        assert meanwhile.count(EventKind.RELEASED) == 20
        assert {document.state for document in fairlead.documents()} == {State.DONE}


def test_ready_documents_of_a_worker_are_of_one_customer(fairlead: Fairlead) -> None:
    for number in range(400):
        customer = f"customer-{number // 40 % 3 if number % 5 else 3}"
        fairlead.submit(customer, b"letter %d" % number, name=f"{number}.txt")
    owners = {document.id: document.customer for document in fairlead.documents(limit=400)}
    engine = fairlead.services.engine(2)
    engine.prefetch.learn(0.001)
    together: list[set[str]] = []
    send = WorkerSlot.send

    def send_and_look(slot: WorkerSlot, job: ReadJob) -> FinishedJob | None:
        finished = send(slot, job)
        if slot.behind:
            together.append({owners[claim.id] for claim in slot.claims})
        return finished

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerSlot, "send", send_and_look)
        engine.run(until_idle=True)
    assert together
    assert {len(customers) for customers in together} == {1}
    assert {document.state for document in fairlead.documents(limit=400)} == {State.DONE}


def test_a_cancelled_document_does_not_affect_ready_documents(fairlead: Fairlead) -> None:
    content, name = long_document()
    long = fairlead.submit("acme", content, name=name)
    others = fairlead.submit_many("acme", letters(20))
    engine = fairlead.services.engine(1)
    engine.prefetch.learn(0.001)
    send = WorkerSlot.send

    def send_and_cancel(slot: WorkerSlot, job: ReadJob) -> FinishedJob | None:
        finished = send(slot, job)
        if slot.behind == 5 and slot.claims[0].id == long.id:
            fairlead.cancel(long.id)
        return finished

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerSlot, "send", send_and_cancel)
        engine.run(until_idle=True)
    assert fairlead.document(long.id).state is State.CANCELLED
    documents = [fairlead.document(other.id) for other in others]
    assert {(document.state, document.attempts) for document in documents} == {(State.DONE, 1)}
