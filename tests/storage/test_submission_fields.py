"""Fields of a submission: pipeline, metadata, reference, and the earliest start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from storekit import DONE, Clock, RulesInForce, ids, must_claim, new_document, submit_one, work_off

from fairlead.errors import PendingCapReached
from fairlead.model.documents import Document, NewDocument, Submission
from fairlead.model.states import State
from fairlead.model.submissions import NotBefore
from fairlead.storage import Store

HOUR = 3600.0
IN_AN_HOUR = NotBefore(HOUR, is_delay=True)


def accepted(store: Store, customer: str = "acme", **fields: Any) -> Document:
    (document,) = store.submit(Submission(customer, (new_document()._replace(**fields),)))
    return document


def ids_with(store: Store, **metadata: str) -> list[str]:
    return ids(store.documents(metadata=metadata))


def test_the_fields_come_back_with_the_document_and_its_claim(store: Store) -> None:
    metadata = {"order": 471, "tags": ["a", "b"], "paid": True, "note": None}
    document = accepted(store, pipeline="invoices", metadata=metadata, reference="A-17")
    assert document == store.document(document.id)
    assert (document.pipeline, document.metadata, document.reference) == (
        "invoices",
        metadata,
        "A-17",
    )
    claim = must_claim(store)
    assert (claim.pipeline, claim.metadata) == ("invoices", metadata)


def test_without_fields_a_document_has_the_usual_ones(store: Store) -> None:
    document = submit_one(store, "acme")
    assert (document.pipeline, document.metadata) == ("default", {})
    assert (document.reference, document.not_before) == (None, None)


@pytest.mark.parametrize(
    ("value", "term"),
    [
        ("A 17", "A 17"),
        (471, "471"),
        (1.5, "1.5"),
        (True, "true"),
        ("471", "471"),
        ("x" * 3000, "x" * 3000),
        ("\0", "\0"),
    ],
)
def test_metadata_is_found_by_the_json_text_of_a_value(
    store: Store, value: object, term: str
) -> None:
    document = accepted(store, metadata={"order": value, "shop": 3})
    accepted(store, metadata={"order": "another"})
    accepted(store, metadata={"shop": value})
    assert ids_with(store, order=term) == [document.id]
    assert ids_with(store, order=term, shop="3") == [document.id]
    assert ids_with(store, order=term, shop="4") == []


@pytest.mark.parametrize("value", [None, ["a"], {"a": 1}])
def test_other_values_are_kept_and_not_found(store: Store, value: object) -> None:
    accepted(store, metadata={"order": value})
    assert ids_with(store, order="null") == []


def test_documents_are_found_by_reference_and_customer(store: Store) -> None:
    ours = accepted(store, "acme", reference="A-17")
    theirs = accepted(store, "globex", reference="A-17")
    accepted(store, "acme", reference="A-18")
    assert ids(store.documents(reference="A-17")) == [theirs.id, ours.id]
    assert ids(store.documents(reference="A-17", customer="acme")) == [ours.id]


def test_documents_are_found_by_pipeline(store: Store) -> None:
    ours, later = (accepted(store, "acme", pipeline="invoices") for _ in range(2))
    usual = accepted(store, "acme")
    theirs = accepted(store, "globex", pipeline="invoices")
    store.finish(must_claim(store), DONE)
    assert ids(store.documents(pipeline="invoices")) == [theirs.id, later.id, ours.id]
    assert ids(store.documents(pipeline="invoices", limit=1, before=theirs.id)) == [later.id]
    assert ids(store.documents(pipeline="invoices", customer="acme")) == [later.id, ours.id]
    for state, of_all, of_acme in (
        (State.DONE, [ours.id], [ours.id]),
        (State.WAITING, [theirs.id, later.id], [later.id]),
    ):
        assert ids(store.documents(pipeline="invoices", state=state)) == of_all
        of_one = store.documents(pipeline="invoices", state=state, customer="acme")
        assert ids(of_one) == of_acme
    assert ids(store.documents(pipeline="default")) == [usual.id]
    assert ids(store.documents(pipeline="orders")) == []


def test_a_deleted_document_leaves_nothing_to_be_found(store: Store) -> None:
    document = accepted(store, metadata={"order": 1}, reference="A-17")
    (event,) = store.events_of(document.id)
    assert (event.reference, event.metadata) == ("A-17", {"order": 1})
    store.delete(document.id)
    assert ids_with(store, order="1") == []
    for event in store.events_of(document.id):
        assert (event.reference, event.metadata) == (None, {})


def test_attachments_inherit_metadata_and_go_to_the_default_pipeline(store: Store) -> None:
    fields: Mapping[str, Any] = {"pipeline": "invoices", "metadata": {"order": 1}}
    document = accepted(store, reference="A-17", **fields)
    part = NewDocument("p" * 26, "part.txt", 1, "0" * 64)
    store.finish(must_claim(store), DONE._replace(parts=(part,)))
    (attachment,) = store.documents(parent=document.id)
    assert (attachment.pipeline, attachment.metadata) == ("default", {"order": 1})
    assert attachment.reference is None
    assert ids_with(store, order="1") == [part.id, document.id]


# --- the earliest start ---


def test_a_document_does_not_start_before_its_time(store: Store, clock: Clock) -> None:
    late = accepted(store, not_before=IN_AN_HOUR)
    assert late.not_before == clock.now + HOUR
    soon = accepted(store, not_before=NotBefore(clock.now + 60))
    assert store.claim("worker") is None
    clock.advance(60)
    assert [claim.id for claim in work_off(store)] == [soon.id]
    clock.advance(HOUR - 60)
    assert [claim.id for claim in work_off(store)] == [late.id]
    assert store.document(late.id).state is State.DONE


def test_a_time_that_is_past_delays_nothing(store: Store, clock: Clock) -> None:
    document = accepted(store, not_before=NotBefore(clock.now - 60))
    assert must_claim(store).id == document.id


def test_a_later_document_counts_as_pending_and_leaves_the_store_idle(
    store: Store, clock: Clock
) -> None:
    store.add_customer("acme", pending_cap=1)
    document = accepted(store, not_before=IN_AN_HOUR)
    assert store.customer("acme").waiting == 1
    assert store.is_idle()
    with pytest.raises(PendingCapReached):
        submit_one(store, "acme")
    clock.advance(HOUR)
    assert not store.is_idle()
    store.cancel(document.id)
    assert store.customer("acme").waiting == 0


def test_it_may_be_cancelled_and_retried(store: Store) -> None:
    document = accepted(store, not_before=IN_AN_HOUR)
    store.cancel(document.id)
    store.retry(document.id)
    assert must_claim(store).id == document.id


def test_waiting_for_its_own_time_makes_no_customer_overdue(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    """Else a late start would be a way through the overdue lane."""
    lane = rules.rules.lane
    assert lane is not None
    accepted(store, "late", not_before=NotBefore(2 * lane.after, is_delay=True))
    for _ in range(lane.share):  # the lane earns credit
        submit_one(store, "other")
    work_off(store)
    clock.advance(2 * lane.after)
    early = submit_one(store, "early")
    order = work_off(store)
    assert [claim.customer for claim in order] == ["late", "early"]
    events = store.events_of(early.id) + store.events_of(order[0].id)
    assert not any(event.data.get("lane") for event in events)


def test_under_fair_its_work_counts_from_its_time_on(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    rules.change(policy="fair", unit=0.001)
    for _ in range(3):
        assert accepted(store, not_before=IN_AN_HOUR).count == 0
    clock.advance(HOUR)
    store.fold()
    assert submit_one(store, "acme").count < 0
