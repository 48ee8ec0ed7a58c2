"""Changes of a document after its acceptance."""

from __future__ import annotations

from typing import Any

import pytest
from storekit import (
    CRASHED,
    DONE,
    Clock,
    RulesInForce,
    ids,
    must_claim,
    new_document,
    submit,
    submit_one,
    work_off,
)

from fairlead.errors import UnknownDocument
from fairlead.model.documents import EventKind, Submission
from fairlead.model.submissions import NotBefore
from fairlead.storage import Store


def ids_with(store: Store, **metadata: str) -> list[str]:
    return ids(store.documents(metadata=metadata))


def test_metadata_and_reference_are_replaced(store: Store) -> None:
    new = new_document()._replace(metadata={"order": 1, "shop": 3}, reference="A")
    (document,) = store.submit(Submission("acme", (new,)))
    changed = store.change(document.id, {"metadata": {"order": 2}, "reference": "B"}, by="boss")
    assert (changed.metadata, changed.reference) == ({"order": 2}, "B")
    assert ids_with(store, order="2") == [document.id]
    assert ids_with(store, order="1") == ids_with(store, shop="3") == []
    assert ids(store.documents(reference="B")) == [document.id]
    assert store.documents(reference="A") == []
    event = store.events_of(document.id)[-1]
    assert (event.kind, event.actor) == (EventKind.CHANGED, "boss")
    assert event.data == {"fields": ["metadata", "reference"]}


def test_what_is_not_named_stays_also_of_a_document_that_has_ended(store: Store) -> None:
    new = new_document()._replace(metadata={"order": 1}, reference="A")
    (document,) = store.submit(Submission("acme", (new,)))
    store.finish(must_claim(store), DONE)
    changed = store.change(document.id, {"reference": None})
    assert (changed.metadata, changed.reference, changed.urgent) == ({"order": 1}, None, False)


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_an_urgent_document_goes_before_the_others_of_its_customer(
    store: Store, rules: RulesInForce, policy: Any
) -> None:
    rules.change(policy=policy)
    first, second, third = ids(submit(store, "acme", 3))
    store.change(third, {"urgent": True})
    assert store.document(third).urgent
    store.change(second, {"urgent": True})
    store.change(second, {"urgent": False})
    assert store.customer("acme").waiting == 3
    assert [claim.id for claim in work_off(store)] == [third, first, second]


def test_urgency_changes_while_it_is_processed_or_delayed(store: Store, clock: Clock) -> None:
    document = submit_one(store, "acme")
    claim = must_claim(store)
    store.change(document.id, {"urgent": True})
    store.finish(claim, CRASHED)
    store.change(document.id, {"urgent": False})
    store.change(document.id, {"urgent": True})
    submit_one(store, "acme")
    clock.advance(60)
    assert work_off(store)[0].id == document.id


def test_a_document_for_later_stays_for_later(store: Store, clock: Clock) -> None:
    new = new_document()._replace(not_before=NotBefore(60, is_delay=True))
    (document,) = store.submit(Submission("acme", (new,)))
    store.change(document.id, {"urgent": True})
    assert store.claim("worker") is None
    clock.advance(60)
    assert must_claim(store).id == document.id


def test_an_unknown_document_cannot_be_changed(store: Store) -> None:
    with pytest.raises(UnknownDocument):
        store.change("0" * 26, {"urgent": True})
