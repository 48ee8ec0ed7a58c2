"""What breaks is tried again, later each time, and not for ever; what failed stays failed."""

from __future__ import annotations

import pytest
from storekit import (
    CRASHED,
    DAMAGED,
    DONE,
    LEASE,
    Clock,
    RulesInForce,
    must_claim,
    submit,
    submit_one,
)

from fairlead.errors import InvalidTransition, PendingCapReached, UnknownDocument
from fairlead.model.documents import WORKER_LOST, Broken, Document, Saved
from fairlead.model.states import State
from fairlead.policy.retry import RetryRule
from fairlead.storage import Store


class UnexpectedDocument(Exception):
    """A document differs from the expected one."""


def test_a_broken_attempt_is_followed_by_another_after_a_delay(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    rules.change(retry=RetryRule(max_attempts=3, first_delay=2.0))
    document = submit_one(store, "acme")
    store.finish(must_claim(store), CRASHED)
    broken = store.document(document.id)
    assert (broken.state, broken.error) == (State.WAITING, "crashed")
    assert store.stored_document(document.id).retry_at == clock.now + 2
    assert store.claim("worker") is None
    clock.advance(1.999)
    assert store.claim("worker") is None
    clock.advance(0.001)
    assert must_claim(store).attempts == 2


def test_the_delay_doubles_and_the_attempts_are_bounded(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    rules.change(retry=RetryRule(max_attempts=4, first_delay=2.0, longest_delay=6.0))
    document = submit_one(store, "acme")
    delays = []
    while claim := store.claim("worker"):
        store.finish(claim, CRASHED)
        retry_at = store.stored_document(document.id).retry_at
        if retry_at is not None:
            delays.append(retry_at - clock.now)
            clock.now = retry_at
    assert delays == [2, 4, 6]
    ended = store.document(document.id)
    assert (ended.state, ended.error, ended.attempts) == (State.FAILED, "crashed", 4)


def test_others_go_on_while_one_waits_for_its_retry(store: Store, clock: Clock) -> None:
    first, second = submit(store, "acme", 2)
    store.finish(must_claim(store), CRASHED)
    assert must_claim(store).id == second.id
    assert store.customer("acme").waiting == 1
    clock.advance(LEASE)
    assert must_claim(store).id == first.id


def test_a_document_that_comes_back_has_its_old_place(store: Store, clock: Clock) -> None:
    first, *_ = submit(store, "acme", 2)
    store.finish(must_claim(store), CRASHED)
    submit(store, "globex", 3)
    clock.advance(2)
    assert must_claim(store).id == first.id


def test_success_after_a_broken_attempt_leaves_no_error(store: Store, clock: Clock) -> None:
    document = submit_one(store, "acme")
    store.finish(must_claim(store), CRASHED)
    clock.advance(2)
    store.finish(must_claim(store), DONE)
    done = store.document(document.id)
    assert (done.state, done.error, done.detail, done.attempts) == (State.DONE, None, None, 2)


def test_failed_is_final(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    assert store.finish(claim, DAMAGED) is Saved.SAVED
    clock.advance(10_000)
    assert store.claim("worker") is None
    failed = store.document(claim.id)
    assert (failed.state, failed.error, failed.detail) == (
        *(State.FAILED, DAMAGED.code, DAMAGED.detail),
    )


def test_a_waiting_document_can_be_cancelled(store: Store, clock: Clock) -> None:
    first, second = submit(store, "acme", 2)
    clock.advance(5)
    cancelled = store.cancel(first.id)
    assert (cancelled.state, cancelled.finished_at) == (State.CANCELLED, clock.now)
    assert must_claim(store).id == second.id
    assert store.claim("worker") is None


def test_a_document_that_is_processed_can_be_cancelled(store: Store) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    assert store.cancel(claim.id).state is State.CANCELLED
    assert store.lost([claim]) == [claim]
    assert store.finish(claim, DONE) is Saved.STALE
    assert store.lease_holders() == []
    assert store.is_idle()


def test_a_delayed_document_can_be_cancelled(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    store.finish(claim, CRASHED)
    assert store.cancel(claim.id).state is State.CANCELLED
    clock.advance(10_000)
    assert store.claim("worker") is None
    assert store.is_idle()


def test_cancelling_twice_is_cancelling_once(store: Store) -> None:
    document = submit_one(store, "acme")
    store.cancel(document.id)
    last = store.last_event()
    assert store.cancel(document.id).state is State.CANCELLED
    assert store.last_event() == last
    assert store.customer("acme").waiting == 0


@pytest.mark.parametrize("outcome", [DONE, DAMAGED])
def test_what_has_ended_cannot_be_cancelled(store: Store, outcome: object) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    store.finish(claim, outcome)  # type: ignore[arg-type]  # both are outcomes
    with pytest.raises(InvalidTransition):
        store.cancel(claim.id)


@pytest.mark.parametrize("decision", ["cancel", "retry", "delete"])
def test_a_decision_can_depend_on_what_the_document_is_at_that_moment(
    store: Store, decision: str
) -> None:
    document = submit_one(store, "acme")
    must_claim(store)
    last, seen = store.last_event(), []

    def refuse(document: Document) -> None:
        seen.append(document)
        raise UnexpectedDocument

    with pytest.raises(UnexpectedDocument):
        getattr(store, decision)(document.id, check=refuse)
    assert seen == [store.document(document.id)]
    assert seen[0].state is State.PROCESSING
    assert store.last_event() == last
    getattr(store, decision)(document.id, check=seen.append)
    assert seen[1] == seen[0]


def test_what_no_state_allows_is_not_looked_at(store: Store) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    store.finish(claim, DONE)
    with pytest.raises(InvalidTransition):
        store.cancel(claim.id, check=_never)
    store.delete(claim.id)
    assert store.delete(claim.id, check=_never) == []


def _never(_document: Document) -> None:
    raise UnexpectedDocument


def test_a_failed_document_can_be_queued_again_with_all_its_attempts(
    store: Store, rules: RulesInForce
) -> None:
    rules.change(retry=RetryRule(max_attempts=1))
    submit(store, "acme")
    old = must_claim(store)
    store.finish(old, CRASHED)
    retry = store.retry(old.id)
    assert (retry.state, retry.attempts, retry.error, retry.finished_at) == (
        *(State.WAITING, 0, None, None),
    )
    new = must_claim(store)
    assert new.attempts == 1
    assert store.finish(old, DONE) is Saved.STALE
    assert store.finish(new, DONE) is Saved.SAVED


def test_a_cancelled_document_can_be_queued_again_at_its_old_place(store: Store) -> None:
    first, *_ = submit(store, "acme", 3)
    store.cancel(first.id)
    store.retry(first.id)
    assert must_claim(store).id == first.id


def test_queueing_a_pending_document_again_changes_nothing(store: Store) -> None:
    document = submit_one(store, "acme")
    last = store.last_event()
    assert store.retry(document.id) == document
    claim = must_claim(store)
    store.retry(document.id)
    assert store.lost([claim]) == []
    assert store.last_event() == last + 1


def test_again_needs_room_under_the_pending_cap(store: Store) -> None:
    first, _ = submit(store, "acme", 2)
    store.cancel(first.id)
    store.set_customer("acme", pending_cap=1)
    with pytest.raises(PendingCapReached):
        store.retry(first.id)
    assert store.document(first.id).state is State.CANCELLED


@pytest.mark.parametrize("name", ["cancel", "retry", "document"])
def test_an_unknown_document_is_refused(store: Store, name: str) -> None:
    with pytest.raises(UnknownDocument):
        getattr(store, name)("no such id")


def test_a_claim_tells_whether_its_document_broke_before(store: Store, clock: Clock) -> None:
    """The loss of a worker is no evidence against the document."""
    submit(store, "acme")
    assert not must_claim(store).broke_before
    clock.advance(LEASE + 1)
    rescued = must_claim(store)
    assert (rescued.attempts, rescued.broke_before) == (2, False)
    store.finish(rescued, CRASHED)
    clock.advance(60.0)
    assert must_claim(store).broke_before


def test_a_reader_that_was_killed_from_outside_has_not_broken(store: Store, clock: Clock) -> None:
    """Safety finding 9."""
    submit(store, "acme")
    store.finish(must_claim(store), Broken(WORKER_LOST, "SIGKILL"))
    clock.advance(60.0)
    again = must_claim(store)
    assert (again.attempts, again.suspect, again.broke_before) == (2, True, False)
