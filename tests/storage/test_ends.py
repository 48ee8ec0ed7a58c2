"""Results in order of completion: each document once, where it ended last."""

from __future__ import annotations

from storekit import DAMAGED, DONE, Clock, must_claim, submit_one

from fairlead.model.documents import ShortTexts
from fairlead.storage import Store


def ends(store: Store, after: int = 0, limit: int = 1000, customer: str | None = None) -> list[str]:
    return [document.id for _, document in store.ends(after, limit, customer=customer)]


def test_documents_come_in_order_of_their_ends_not_of_their_arrival(store: Store) -> None:
    first, second, third = (submit_one(store, "acme") for _ in range(3))
    claims = {claim.id: claim for claim in store.claim_for(["a", "b", "c"])}
    store.finish(claims[third.id], DONE)
    store.finish(claims[first.id], DAMAGED)
    store.cancel(second.id)
    assert ends(store) == [third.id, first.id, second.id]
    states = [document.state.value for _, document in store.ends()]
    assert states == ["done", "failed", "cancelled"]


def test_a_page_begins_after_a_number(store: Store) -> None:
    for _ in range(5):
        submit_one(store, "acme")
        store.finish(must_claim(store), DONE)
    all_of_them = store.ends()
    assert store.ends(limit=2) == all_of_them[:2]
    assert store.ends(all_of_them[1][0], 2) == all_of_them[2:4]
    assert store.ends(all_of_them[4][0]) == []


def test_a_customer_has_only_its_own(store: Store) -> None:
    for customer in ("acme", "bolt", "acme"):
        submit_one(store, customer)
        store.finish(must_claim(store), DONE)
    owners = [document.customer for _, document in store.ends(customer="acme")]
    assert owners == ["acme", "acme"]
    assert ends(store, customer="nobody") == []


def test_a_document_that_ends_again_comes_once_where_it_ended_last(
    store: Store, clock: Clock
) -> None:
    first = submit_one(store, "acme")
    store.finish(must_claim(store), DAMAGED)
    clock.advance(1)
    second = submit_one(store, "acme")
    store.finish(must_claim(store), DONE)
    assert ends(store) == [first.id, second.id]
    store.retry(first.id)
    assert ends(store) == [second.id], "it is pending"
    clock.advance(1)
    store.finish(must_claim(store), DONE)
    assert ends(store) == [second.id, first.id]


def test_deleted_and_pending_documents_are_left_out(store: Store) -> None:
    gone = submit_one(store, "acme")
    store.finish(must_claim(store), DONE)
    submit_one(store, "acme")
    store.delete(gone.id)
    assert ends(store) == []


def test_results_are_read_for_many_documents_at_once(store: Store) -> None:
    short = ShortTexts(b"One word", b"# One word")
    ids = []
    for content in (short, None):
        ids.append(submit_one(store, "acme").id)
        store.finish(must_claim(store), DONE._replace(short=content))
    stored = {
        (result.document, result.role): result for result in store.stored_results(ids, ["text"])
    }
    assert stored[ids[0], "text"].content == b"One word"
    assert stored[ids[1], "text"].content is None
    assert stored[ids[1], "text"].key == "text-of-it"
    assert len(stored) == 2
