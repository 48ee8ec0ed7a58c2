"""Leases, fences, rescue, and the end of a document that kills workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from storekit import (
    CRASHED,
    DAMAGED,
    DONE,
    LEASE,
    Clock,
    RulesInForce,
    ids,
    must_claim,
    submit,
    submit_one,
    work_off,
)

from fairlead.errors import StoreBusy
from fairlead.model.documents import EventKind, Saved, ShortTexts
from fairlead.model.states import State
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.retry import RetryRule
from fairlead.storage import Store
from fairlead.storage.sql import claims

pytestmark = pytest.mark.postgres_differs

SAVED, STALE = Saved.SAVED, Saved.STALE


def test_a_late_worker_changes_nothing(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    old = must_claim(store, "slow")
    clock.advance(LEASE + 1)
    new = must_claim(store, "quick")
    before = store.document(old.id), store.customer("acme"), store.last_event()
    assert store.finish(old, DONE) is STALE
    assert store.finish(old, DAMAGED) is STALE
    assert store.finish(old, CRASHED) is STALE
    assert store.release([old]) == [STALE]
    assert store.renew([old]) == [old]
    assert (store.document(old.id), store.customer("acme"), store.last_event()) == before
    assert store.finish(new, DONE) is SAVED


def test_an_outage_between_two_rounds_of_a_claim_loses_no_claim(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store, "acme", 2)
    claim_documents, rounds = claims.claim_documents, []

    def claim_then_fail(*arguments: Any) -> Callable[[], claims.ClaimResult]:
        rounds.append(arguments)
        if len(rounds) == 2:
            raise StoreBusy("the database is locked")
        read = claim_documents(*arguments)
        return lambda: read()._replace(is_partial=True)

    monkeypatch.setattr(claims, "claim_documents", claim_then_fail)
    assert len(store.claim_for(["a", "b"])) == 2
    assert len(rounds) == 2


def test_an_outcome_is_saved_once(store: Store) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    assert store.finish(claim, DONE) is SAVED
    assert store.finish(claim, DAMAGED) is STALE
    assert store.document(claim.id).state is State.DONE


def test_a_result_is_kept_whole(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    clock.advance(3)
    store.finish(claim, DONE)
    document = store.document(claim.id)
    assert (document.kind, document.facts) == (DONE.kind, DONE.facts)
    stored = store.stored_document(claim.id)
    assert (stored.text_key, stored.text_sha256) == (DONE.text_key, DONE.text_sha256)
    assert (document.started_at, document.finished_at) == (clock.now - 3, clock.now)
    assert store.known_texts([claim.id, "no such id"]) == {DONE.text_key}


def test_short_texts_are_kept_with_the_end_and_go_with_the_document(store: Store) -> None:
    submit(store, "acme", 3)
    first, second, third = store.claim_for(["a", "b", "c"])
    short = DONE._replace(text_key=None, short=ShortTexts(b"text", b"# text"))
    store.finish(first, short)
    store.finish(second, short._replace(short=ShortTexts("t\x00\xe9".encode())))
    store.finish(third, DONE)
    assert store.finish(first, short._replace(short=ShortTexts(b"late"))) is STALE
    assert store.short_texts(first.id) == ShortTexts(b"text", b"# text")
    assert store.short_texts(second.id) == ShortTexts("t\x00\xe9".encode(), None)
    assert store.short_texts(third.id) is None
    assert store.delete(first.id) == []
    assert store.short_texts(first.id) is None
    assert store.short_texts(second.id) is not None


def test_many_outcomes_are_saved_each_for_itself(store: Store, clock: Clock) -> None:
    submit(store, "acme", 3)
    first, second = store.claim_for(["one", "two"])
    store.cancel(first.id)
    assert store.finish_all([(first, DONE), (second, DONE)]) == [STALE, SAVED]


def test_a_lease_holds_to_its_last_moment(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    must_claim(store, "slow")
    clock.advance(LEASE)
    assert store.claim("quick") is None
    clock.advance(0.001)
    assert store.claim("quick") is not None


def test_a_worker_past_its_lease_still_finishes_what_nobody_took(
    store: Store, clock: Clock
) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    clock.advance(LEASE * 2)
    assert store.lost([claim]) == []
    assert store.finish(claim, DONE) is SAVED


def test_renewing_lengthens_the_lease(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    claim = must_claim(store, "slow")
    for _ in range(3):
        clock.advance(LEASE)
        assert store.renew([claim]) == []
        assert store.claim("quick") is None
    assert store.finish(claim, DONE) is SAVED


def test_renewing_tells_which_claims_are_held_no_more(store: Store, clock: Clock) -> None:
    submit(store, "acme", 3)
    current, cancelled, finished = store.claim_for(["one", "two", "three"])
    store.cancel(cancelled.id)
    store.finish(finished, DONE)
    assert store.lost([current, cancelled, finished]) == [cancelled, finished]
    assert store.renew([current, cancelled, finished]) == [cancelled, finished]


def test_a_released_document_goes_back_to_its_place_and_the_attempt_does_not_count(
    store: Store,
) -> None:
    documents = submit(store, "acme", 3)
    for _ in range(5):  # more often than there are attempts
        claim = must_claim(store)
        assert claim.id == documents[0].id
        assert claim.attempts == 1
        assert store.release([claim]) == [SAVED]
    document = store.document(claim.id)
    assert (document.state, document.attempts, document.started_at) == (State.WAITING, 0, None)
    assert must_claim(store).attempts == 1


def test_a_worker_that_stops_gives_back_all_that_it_holds(store: Store) -> None:
    submit(store, "acme", 3)
    for worker in ("stops", "stays", "stops"):
        store.claim(worker)
    assert store.release_from(["stops", "idle"]) == 2
    assert store.lease_holders() == ["stays"]
    assert sorted(document.attempts for document in store.documents()) == [0, 0, 1]


def test_a_document_goes_back_to_its_place_when_its_lease_ends(store: Store, clock: Clock) -> None:
    documents = submit(store, "acme", 3)
    old = must_claim(store, "slow")
    clock.advance(LEASE + 1)
    new = must_claim(store, "quick")
    assert new.id == old.id == documents[0].id
    assert new.fence != old.fence
    assert new.attempts == 2
    assert store.lost([old, new]) == [old]


def test_a_rescue_takes_back_what_one_worker_held(store: Store) -> None:
    submit(store, "acme", 3)
    gone_one, gone_two, alive = store.claim_for(["gone", "gone", "alive"])
    assert sorted(store.lease_holders()) == ["alive", "gone"]
    assert store.rescue_from("gone") == 2
    assert store.rescue_from("gone") == 0
    assert store.lost([gone_one, gone_two, alive]) == [gone_one, gone_two]
    assert store.lease_holders() == ["alive"]
    assert store.customer("acme").waiting == 2


def test_a_document_that_kills_its_workers_ends_as_failed(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    rules.change(retry=RetryRule(max_attempts=3))
    document = submit_one(store, "acme")
    attempts = 0
    while store.claim("victim") is not None:
        attempts += 1
        clock.advance(LEASE + 1)
        assert attempts <= 3, "the document went on killing its workers"
    ended = store.document(document.id)
    assert (ended.state, ended.error, ended.attempts) == (State.FAILED, "worker-lost", 3)
    assert ended.finished_at == clock.now
    assert store.is_idle()


def test_a_rescue_counts_the_attempts_too(store: Store, rules: RulesInForce) -> None:
    rules.change(retry=RetryRule(max_attempts=2))
    document = submit_one(store, "acme")
    must_claim(store, "gone")
    store.rescue_from("gone")
    must_claim(store, "gone")
    store.rescue_from("gone")
    assert store.document(document.id).state is State.FAILED
    kinds = [event.kind for event in store.events() if event.document == document.id]
    assert kinds[-3:] == [EventKind.RESCUED, EventKind.CLAIMED, EventKind.FAILED]


def lose(store: Store, clock: Clock, worker: str, *, by_lease: bool) -> None:
    """The worker is gone, and another process notices."""
    if by_lease:
        clock.advance(LEASE + 1)
        store.claim_for([])
    else:
        store.rescue_from(worker)


by_lease = pytest.mark.parametrize("by_lease", [False, True])


@by_lease
def test_what_lay_ready_loses_no_attempt_with_its_worker(
    store: Store, clock: Clock, rules: RulesInForce, *, by_lease: bool
) -> None:
    """Even if it was the only attempt: processing has not begun."""
    rules.change(retry=RetryRule(max_attempts=1))
    started, *ready = submit(store, "acme", 4)
    assert len(store.claim_for(["gone"], ["gone"] * 3)) == 4
    assert [store.document(claim.id).attempts for claim in ready] == [1, 1, 1]
    lose(store, clock, "gone", by_lease=by_lease)
    assert store.document(started.id).error == "worker-lost"
    documents = [store.document(claim.id) for claim in ready]
    assert [(document.state, document.attempts) for document in documents] == [
        (State.WAITING, 0)
    ] * 3
    rescues = [event.data for event in store.events() if event.kind is EventKind.RESCUED]
    assert rescues == [{"worker": "gone", "ready": True}] * 3
    assert [claim.attempts for claim in work_off(store)] == [1, 1, 1]


@by_lease
def test_what_lay_ready_and_was_lost_is_begun_at_once_from_then_on(
    store: Store, clock: Clock, *, by_lease: bool
) -> None:
    """It may have killed the worker. It keeps its place: prefetched documents end before it."""
    suspects, fresh = submit(store, "acme", 2), submit(store, "acme", 3)
    store.claim_for([], ["gone"] * 2)
    lose(store, clock, "gone", by_lease=by_lease)
    assert store.claim_for([], ["worker"] * 5) == []
    claims = store.claim_for(["one"], ["one"] * 4) + store.claim_for(["two"], ["two"] * 4)
    assert ids(claims) == ids([*suspects, *fresh])
    assert [claim.suspect for claim in claims] == [True, True, False, False, False]
    assert [claim.attempts for claim in claims] == [1] * 5


@by_lease
def test_a_document_that_kills_its_workers_is_claimed_once_more_than_it_has_attempts(
    store: Store, clock: Clock, rules: RulesInForce, *, by_lease: bool
) -> None:
    rules.change(retry=RetryRule(max_attempts=3))
    document = submit_one(store, "acme")
    fences = []
    while claims := store.claim_for([], ["gone"]) or store.claim_for(["gone"]):
        fences += [claim.fence for claim in claims]
        lose(store, clock, "gone", by_lease=by_lease)
        assert len(fences) <= 4, "the document went on killing its workers"
    ended = store.document(document.id)
    assert (ended.state, ended.error, ended.attempts) == (State.FAILED, "worker-lost", 3)
    assert len(set(fences)) == 4


def test_what_broke_does_not_lie_ready(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    store.finish(must_claim(store), CRASHED)
    clock.advance(60)
    assert store.claim_for([], ["worker"]) == []
    assert must_claim(store).suspect


def test_what_lay_ready_and_was_given_back_is_no_suspect(store: Store) -> None:
    submit(store, "acme", 2)
    for _ in range(3):
        claims = store.claim_for([], ["worker"] * 2)
        assert [(claim.attempts, claim.suspect) for claim in claims] == [(1, False)] * 2
        store.release(claims)


def test_a_document_that_is_queued_again_is_no_suspect(store: Store) -> None:
    document = submit_one(store, "acme")
    store.claim_for([], ["gone"])
    store.rescue_from("gone")
    store.cancel(document.id)
    store.retry(document.id)
    [claim] = store.claim_for([], ["worker"])
    assert (claim.attempts, claim.suspect) == (1, False)


def test_the_lane_lets_no_suspect_lie_ready(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    rules.change(lane=OverdueLane(after=5.0, share=2))
    submit(store, "acme", 30)
    submit(store, "globex", 1)
    store.claim_for([], ["gone"] * 31)
    store.rescue_from("gone")
    submit(store, "initech", 1)
    clock.advance(10)
    assert store.claim_for([], ["worker"] * 5) == []
    assert len(work_off(store)) == 32
