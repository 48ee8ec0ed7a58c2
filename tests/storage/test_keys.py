"""Keys, the audit, deletion and tallies: the same for every store."""

from __future__ import annotations

import pytest
from storekit import DONE, Clock, RulesInForce, ids, must_claim, submission, submit, submit_one

from fairlead.errors import (
    DailyBytesReached,
    DeletedDocument,
    PendingCapReached,
    UnknownCustomer,
    UnknownDocument,
    UnknownKey,
)
from fairlead.model.documents import Document, EventKind, Saved, Tally
from fairlead.model.keys import key_owner
from fairlead.storage import Store

DAY = 86_400


def test_keys_are_found_listed_and_revoked(store: Store, clock: Clock) -> None:
    store.add_customer("acme")
    ours = store.add_key("a1", "hash", key_owner("acme"), by="boss")
    operators = store.add_key("b2", "other", key_owner())
    assert store.key("a1") == ours
    assert (ours.customer, ours.operator) == ("acme", False)
    assert store.stored_key("a1") == (ours, "hash")
    assert operators.operator
    assert store.keys() == [ours, operators]
    clock.advance(5)
    assert store.revoke_key("a1", by="boss").revoked_at == clock.now
    clock.advance(5)
    assert store.revoke_key("a1").revoked_at == clock.now - 5
    assert [event.kind for event in store.audit()] == [EventKind.KEY_REVOKED, EventKind.KEY_ADDED]
    assert {event.actor for event in store.audit()} == {"boss"}


def test_a_key_of_nobody_is_refused(store: Store) -> None:
    with pytest.raises(UnknownCustomer):
        store.add_key("a1", "hash", key_owner("nobody"))
    with pytest.raises(UnknownKey):
        store.key("a1")
    with pytest.raises(UnknownKey):
        store.revoke_key("a1")


def test_the_audit_tells_who_decided_newest_first_and_in_pages(store: Store) -> None:
    submit(store, "acme", 3)
    store.pause("acme", by="anna")
    store.resume("acme", by="ben")
    store.set_customer("acme", weight=2, by="anna")
    store.reset("acme")
    decisions = store.audit()
    assert [(event.actor, event.kind.value) for event in decisions] == [
        *(("anna", "customer-set"), ("ben", "customer-resumed"), ("anna", "customer-paused")),
    ]
    assert store.audit(before=decisions[0].seq, limit=1) == decisions[1:2]


def test_events_of_one_customer_are_its_own(store: Store) -> None:
    submit(store, "acme", 2)
    submit(store, "globex", 2)
    ours = store.events(customer="acme")
    assert ours == [event for event in store.events() if event.customer == "acme"]
    assert store.events(ours[0].seq, 1, customer="acme") == ours[1:2]
    assert store.events(customer="nobody") == []


def test_a_deleted_document_is_gone_and_its_events_stay(store: Store) -> None:
    submit_one(store, "acme")
    document = submit_one(store, "acme")
    for _ in range(2):
        store.finish(must_claim(store), DONE)
    before = store.events()
    assert store.delete(document.id, by="anna") == [DONE.text_key]
    assert store.delete(document.id) == []
    with pytest.raises(UnknownDocument):
        store.document(document.id)
    assert store.known_documents([document.id]) == set()
    assert store.deleted_customer(document.id) == "acme"
    assert store.events()[:-1] == before
    last = store.events()[-1]
    assert (last.kind, last.document, last.actor) == (EventKind.DELETED, document.id, "anna")


@pytest.mark.parametrize("claimed", [False, True])
def test_a_pending_document_is_cancelled_before_it_is_deleted(store: Store, claimed: bool) -> None:
    document = submit_one(store, "acme")
    claim = must_claim(store) if claimed else None
    assert store.delete(document.id) == []
    assert store.customer("acme").pending == 0
    assert [event.kind.value for event in store.events()][-2:] == ["cancelled", "deleted"]
    if claim is not None:
        assert store.lost([claim]) == [claim]
        assert store.finish(claim, DONE) is Saved.STALE


def test_deleting_what_never_was_is_an_error(store: Store) -> None:
    with pytest.raises(UnknownDocument):
        store.delete("no such id")
    assert store.deleted_customer("no such id") is None


def test_a_page_goes_on_after_a_document_that_was_deleted(store: Store) -> None:
    documents = submit(store, "acme", 3)
    store.delete(documents[1].id)
    assert ids(store.documents(before=documents[1].id)) == [documents[0].id]


def test_a_repeat_of_what_was_deleted_is_told(store: Store) -> None:
    (document,) = submit(store, "acme", key="k", fingerprint="body")
    store.delete(document.id)
    with pytest.raises(DeletedDocument):
        submit(store, "acme", key="k", fingerprint="body")


def test_bytes_a_day_are_bounded_and_start_again_at_midnight(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    clock.now = 20_000 * DAY - 10.0
    rules.change(daily_bytes=25)
    submit(store, "acme", 2)
    with pytest.raises(DailyBytesReached):
        submit(store, "acme")
    submit(store, "globex", 2)
    clock.advance(11)
    submit(store, "acme", 2)
    with pytest.raises(DailyBytesReached):
        submit(store, "acme")


def test_submissions_together_are_accepted_or_refused_each_alone(store: Store) -> None:
    store.add_customer("full", pending_cap=1)
    first, refused, second = store.submit_each(
        [submission("acme", 2), submission("full", 2), submission("acme", 1)]
    )
    assert isinstance(refused, PendingCapReached)
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert [document.count for document in first + second] == [0, -1, -2]
    assert store.submit_each([]) == []


def test_repeats_among_submissions_together_are_one_document(store: Store) -> None:
    one = submission("acme", key="k", fingerprint="body")
    answers = store.submit_each([one, submission("acme", key="k", fingerprint="body")])
    documents = [answer[0] for answer in answers if isinstance(answer, list)]
    assert len({document.id for document in documents}) == 1
    assert all(isinstance(document, Document) for document in documents)


def test_tallies_count_by_state_and_priority(store: Store) -> None:
    submit(store, "acme", 4)
    store.finish(must_claim(store), DONE)
    store.delete(must_claim(store).id)
    assert store.tallies() == [
        *(Tally("done", 1, 1), Tally("waiting", 1, 1), Tally("waiting", 2, 1)),
    ]
