"""Batches: documents that were submitted together have one end."""

from __future__ import annotations

import pytest
from storekit import CRASHED, DAMAGED, DONE, LEASE, Clock, must_claim, new_document, work_off

from fairlead.errors import BatchEnded, UnknownBatch
from fairlead.model.documents import Document, Event, EventKind, NewDocument, Submission
from fairlead.storage import Store

ID = "b1"


def batch_of(store: Store, number: int, customer: str = "acme") -> list[Document]:
    new = tuple(new_document()._replace(batch=ID) for _ in range(number))
    return store.submit(Submission(customer, new, new_batch=ID))


def add_to(store: Store, batch: str, customer: str = "acme") -> Document:
    new = new_document()._replace(batch=batch)
    return store.submit(Submission(customer, (new,), batch=batch))[0]


def ends(store: Store) -> list[Event]:
    return [event for event in store.events() if event.kind is EventKind.BATCH_DONE]


def test_a_batch_counts_its_documents_by_state(store: Store) -> None:
    documents = batch_of(store, 4)
    assert {document.batch for document in documents} == {ID}
    assert store.document(documents[0].id).batch == ID
    store.finish(must_claim(store), DONE)
    store.finish(must_claim(store), DAMAGED)
    must_claim(store)
    batch, last = store.batch(ID)
    assert (batch.customer, batch.documents, batch.progress) == ("acme", 4, 0.5)
    counts = (batch.waiting, batch.processing, batch.done, batch.failed, batch.cancelled)
    assert counts == (1, 1, 1, 1, 0)
    assert last == documents[-1].id
    assert len(store.documents(batch=ID)) == 4


def test_it_ends_once_when_nothing_of_it_is_pending(store: Store, clock: Clock) -> None:
    first, *_, last = batch_of(store, 3)
    store.finish(must_claim(store), DONE)
    store.finish(must_claim(store), DAMAGED)
    assert ends(store) == []
    clock.advance(5)
    store.cancel(last.id)
    (event,) = ends(store)
    assert (event.customer, event.data["batch"]) == ("acme", ID)
    assert (event.data["done"], event.data["failed"], event.data["cancelled"]) == (1, 1, 1)
    batch, pending = store.batch(ID)
    assert (batch.finished_at, batch.progress, pending) == (clock.now, 1.0, None)
    store.retry(last.id)
    work_off(store)
    store.delete(first.id)
    assert len(ends(store)) == 1


def test_an_attempt_that_breaks_does_not_end_it(store: Store, clock: Clock) -> None:
    batch_of(store, 1)
    store.finish(must_claim(store), CRASHED)
    assert ends(store) == []
    clock.advance(60)
    store.finish(must_claim(store), DONE)
    assert len(ends(store)) == 1


def test_a_lost_worker_may_end_it(store: Store, clock: Clock) -> None:
    batch_of(store, 1)
    while store.claim("doomed"):
        clock.advance(LEASE + 1)
    assert len(ends(store)) == 1
    assert store.batch(ID).batch.failed == 1


def test_deleting_what_is_pending_ends_it(store: Store) -> None:
    first, second = batch_of(store, 2)
    store.delete(first.id)
    assert ends(store) == []
    store.delete(second.id)
    assert len(ends(store)) == 1


def test_attachments_belong_to_it(store: Store) -> None:
    (document,) = batch_of(store, 1)
    part = NewDocument("p" * 26, "part.txt", 1, "0" * 64)
    store.finish(must_claim(store), DONE._replace(parts=(part,)))
    assert ends(store) == []
    assert store.batch(ID).batch.documents == 2
    store.finish(must_claim(store), DONE)
    assert len(ends(store)) == 1
    assert [part.batch for part in store.documents(parent=document.id)] == [ID]


def test_it_grows_until_it_has_ended(store: Store) -> None:
    batch_of(store, 1)
    assert add_to(store, ID).batch == ID
    work_off(store)
    with pytest.raises(BatchEnded):
        add_to(store, ID)
    assert store.batch(ID).batch.documents == 2


def test_nobody_adds_to_the_batch_of_another(store: Store) -> None:
    batch_of(store, 1)
    for customer, batch in (("globex", ID), ("acme", "b2")):
        with pytest.raises(UnknownBatch):
            add_to(store, batch, customer)
    with pytest.raises(UnknownBatch):
        store.batch("b2")
