"""The cap on pending documents: a submission is accepted whole or refused whole."""

from __future__ import annotations

import pytest
from storekit import CRASHED, DONE, must_claim, submit, submit_one

from fairlead.errors import InvalidSetting, PendingCapReached
from fairlead.model.customers import CustomerSettings
from fairlead.storage import Store


def capped(store: Store, cap: int) -> None:
    store.add_customer("acme", pending_cap=cap)


def test_what_does_not_fit_is_refused_whole(store: Store) -> None:
    capped(store, 3)
    submit(store, "acme", 2)
    before = store.customer("acme"), store.last_event()
    with pytest.raises(PendingCapReached):
        submit(store, "acme", 2)
    assert (store.customer("acme"), store.last_event()) == before
    assert len(store.documents()) == 2


def test_a_refused_submission_is_no_check(store: Store) -> None:
    capped(store, 1)
    submit(store, "acme")
    with pytest.raises(PendingCapReached):
        submit(store, "acme")
    store.finish(must_claim(store), DONE)
    assert submit_one(store, "acme").count == -1


def test_the_last_place_can_be_used(store: Store) -> None:
    capped(store, 3)
    assert len(submit(store, "acme", 3)) == 3


def test_a_cap_of_zero_is_named_as_the_cause(store: Store) -> None:
    capped(store, 0)
    with pytest.raises(PendingCapReached, match="its cap on pending documents is 0") as refused:
        submit(store, "acme")
    assert refused.value.never_fits, "later is no better"


def test_processing_and_delayed_documents_are_pending(store: Store) -> None:
    capped(store, 2)
    submit(store, "acme", 2)
    store.finish(must_claim(store), CRASHED)
    must_claim(store)
    with pytest.raises(PendingCapReached):
        submit(store, "acme")


@pytest.mark.parametrize("end", ["finish", "cancel"])
def test_an_end_makes_room(store: Store, end: str) -> None:
    capped(store, 1)
    submit(store, "acme")
    claim = must_claim(store)
    if end == "finish":
        store.finish(claim, DONE)
    else:
        store.cancel(claim.id)
    assert submit(store, "acme")


def test_others_are_not_capped(store: Store) -> None:
    capped(store, 1)
    submit(store, "acme")
    assert len(submit(store, "globex", 5)) == 5


@pytest.mark.parametrize("caps", [{"pending_cap": -1}, {"processing_cap": 0}])
def test_what_is_no_cap_is_refused(caps: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting):
        CustomerSettings(**caps)  # type: ignore[arg-type]
