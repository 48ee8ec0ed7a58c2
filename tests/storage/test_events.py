"""The record of events: one for each transition, in order, never changed."""

from __future__ import annotations

from storekit import CRASHED, DAMAGED, DONE, LEASE, Clock, must_claim, submit, submit_one

from fairlead.model.documents import EventKind, Progress
from fairlead.storage import Store


def kinds(store: Store, after: int = 0) -> list[str]:
    return [event.kind.value for event in store.events(after)]


def test_each_transition_of_a_document_is_told_once(store: Store, clock: Clock) -> None:
    document = submit_one(store, "acme")
    store.release([must_claim(store)])
    store.finish(must_claim(store), CRASHED)
    clock.advance(2)
    must_claim(store)
    clock.advance(LEASE + 1)
    store.finish(must_claim(store), DAMAGED)
    store.retry(document.id)
    store.cancel(document.id)
    store.retry(document.id)
    store.finish(must_claim(store), DONE)
    assert kinds(store) == [
        *("customer-added", "submitted", "claimed", "released", "claimed", "requeued"),
        *("claimed", "rescued", "claimed", "failed", "retried", "cancelled", "retried"),
        *("claimed", "done"),
    ]
    assert {event.document for event in store.events()} == {None, document.id}
    assert {event.customer for event in store.events()} == {"acme"}


def test_each_decision_about_a_customer_is_told(store: Store) -> None:
    store.add_customer("acme")
    store.add_customer("acme")
    store.set_customer("acme", processing_cap=2, thresholds=(-1,))
    store.pause("acme")
    store.resume("acme")
    store.reset("acme")
    assert kinds(store) == [
        *("customer-added", "customer-set", "customer-paused", "customer-resumed"),
        "customer-reset",
    ]
    assert store.events()[1].data == {"processing_cap": 2, "thresholds": [-1]}


def test_progress_is_told_of_the_newest_claim_only(store: Store, clock: Clock) -> None:
    submit_one(store, "acme")
    old = must_claim(store)
    store.progress([Progress(old, 3, 10)])
    assert store.events()[-1].data == {"pages_done": 3, "pages": 10}
    clock.advance(LEASE + 1)
    new = must_claim(store)
    last = store.last_event()
    store.progress([Progress(old, 4, 10), Progress(new, 1, 10)])
    assert [(event.kind.value, event.data) for event in store.events(last)] == [
        ("progress", {"pages_done": 1, "pages": 10})
    ]


def test_what_changes_nothing_is_not_told(store: Store) -> None:
    submit(store, "acme")
    store.pause("acme")
    last = store.last_event()
    store.pause("acme")
    store.claim("worker")
    assert store.last_event() == last
    store.resume("acme")
    store.resume("acme")
    assert kinds(store, last) == ["customer-resumed"]


def test_events_are_numbered_in_order_and_never_change(store: Store, clock: Clock) -> None:
    submit(store, "acme", 3)
    early = store.events()
    clock.advance(5)
    store.finish(must_claim(store), DONE)
    late = store.events(after=early[-1].seq)
    assert store.events() == early + late
    assert [event.seq for event in store.events()] == list(range(1, store.last_event() + 1))
    assert {event.at for event in late} == {clock.now}


def test_events_come_in_portions(store: Store) -> None:
    submit(store, "acme", 5)
    first = store.events(limit=2)
    second = store.events(after=first[-1].seq, limit=10)
    assert len(first) == 2
    assert first + second == store.events()
    assert store.events(after=store.last_event()) == []


def test_a_claim_tells_who_and_whether_by_the_lane(store: Store) -> None:
    submit(store, "acme")
    claim = must_claim(store, "anna")
    event = store.events()[-1]
    assert event.kind is EventKind.CLAIMED
    assert event.data == {"fence": claim.fence, "worker": "anna", "attempt": 1}


def test_the_version_changes_with_every_commit(store: Store) -> None:
    seen = {store.changes.version()}
    submit(store, "acme")
    seen.add(store.changes.version())
    must_claim(store)
    seen.add(store.changes.version())
    assert len(seen) == 3
    assert store.changes.version() in seen


def test_the_life_of_one_document_is_told_alone(store: Store) -> None:
    first, second = submit_one(store, "acme"), submit_one(store, "acme")
    claim = must_claim(store)
    assert claim.id == first.id
    store.finish(claim, DONE)
    store.cancel(second.id, by="key")
    kinds = [event.kind for event in store.events_of(first.id)]
    assert kinds == [EventKind.SUBMITTED, EventKind.CLAIMED, EventKind.DONE]
    assert [event.actor for event in store.events_of(second.id)] == [None, "key"]
    store.delete(first.id)
    assert [event.kind for event in store.events_of(first.id)] == [*kinds, EventKind.DELETED]
    assert store.events_of("no such id") == []
