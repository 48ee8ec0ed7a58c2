"""A blocked customer's new documents are refused with the reason; those it has are processed."""

from __future__ import annotations

import pytest
from storekit import DONE, must_claim, submission, submit_one

from fairlead.errors import CustomerBlocked, InvalidSetting, PendingCapReached
from fairlead.storage import Store


def test_new_documents_are_refused_with_the_reason(store: Store) -> None:
    document = submit_one(store, "acme")
    store.set_customer("acme", blocked="the invoice of May is open")
    with pytest.raises(CustomerBlocked, match="'acme' is blocked: the invoice of May is open"):
        submit_one(store, "acme")
    outcomes = store.submit_each([submission("acme"), submission("bolt")])
    assert isinstance(outcomes[0], CustomerBlocked)
    assert isinstance(outcomes[1], list)
    ids = {must_claim(store).id for _ in range(2)}
    assert document.id in ids
    store.set_customer("acme", blocked=None)
    assert submit_one(store, "acme").count == -1, "a refused document changed no count"


def test_a_repeated_submission_still_gets_its_documents(store: Store) -> None:
    first = submit_one(store, "acme", key="k", fingerprint="f")
    store.set_customer("acme", blocked="unpaid")
    assert submit_one(store, "acme", key="k", fingerprint="f").id == first.id


@pytest.mark.parametrize("reason", ["", " ", "two\nlines", "x" * 501])
def test_a_reason_is_a_printable_sentence(store: Store, reason: str) -> None:
    store.add_customer("acme")
    with pytest.raises(InvalidSetting):
        store.set_customer("acme", blocked=reason)


def test_a_pending_cap_of_0_refuses_all(store: Store) -> None:
    submit_one(store, "acme")
    store.set_customer("acme", pending_cap=0)
    with pytest.raises(PendingCapReached):
        submit_one(store, "acme")
    store.finish(must_claim(store), DONE)
    with pytest.raises(PendingCapReached):
        submit_one(store, "acme")
