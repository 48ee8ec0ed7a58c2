"""Prefetch: only where documents are short, never for long, and all claims are given back."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead import Fairlead
from fairlead.model.documents import Claim
from fairlead.model.states import State
from fairlead.worker.prefetch import AHEAD_SECONDS, MOST_AHEAD, Prefetch


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
            if engine._prefetch.claims and not seen:
                seen.append(len(engine._prefetch.claims))
                engine.stop()

        engine._on_tick = stop_with_prefetched_claims
        engine.run(until_idle=True)
        found = [fairlead.document(each.id) for each in documents]
        assert seen
        assert {each.state for each in found} == {State.DONE, State.WAITING}
        assert {each.attempts for each in found if each.state is State.WAITING} == {0}
        assert fairlead.queue.totals().processing == 0
        fairlead.run_until_idle(workers=1)
        assert {fairlead.document(each.id).state for each in documents} == {State.DONE}


def test_a_prefetched_document_that_is_cancelled_ends_as_cancelled(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        fairlead.submit_many("acme", [(b"x", "x.txt")] * 100)
        engine = fairlead.services.engine(1)
        cancelled: list[str] = []

        def cancel_the_last_prefetched() -> None:
            if len(engine._prefetch.claims) > 1 and not cancelled:
                cancelled.append(engine._prefetch.claims[-1].id)
                fairlead.cancel(cancelled[0])

        engine._on_tick = cancel_the_last_prefetched
        engine.run(until_idle=True)
        states = [each.state for each in fairlead.documents(limit=200)]
        assert states.count(State.CANCELLED) == 1
        assert states.count(State.DONE) == 99
