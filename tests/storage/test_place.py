"""What goes before a document: the answer is the order in which one worker then claims."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storekit import (
    CRASHED,
    DONE,
    Clock,
    RulesInForce,
    StoreFactory,
    fresh_store,
    histories,
    ids,
    must_claim,
    new_document,
    sqlite_store,
    submit,
    submit_one,
    work_off,
)

from fairlead.model.documents import Submission
from fairlead.model.pipelines import Pipeline
from fairlead.policy.rules import Rules
from fairlead.storage import Store
from fairlead.storage.sql import reads
from fairlead.storage.sql.queries import sql

RULES = Rules(thresholds=(-1, -2, -4), lane=None)

bursts = st.lists(
    st.tuples(
        st.sampled_from(["acme", "globex", "initech"]),
        st.lists(st.booleans(), min_size=1, max_size=5),
        st.sampled_from(["done", "released", "cancelled", "none"]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.hypothesis
def test_the_place_is_the_order_in_which_one_worker_claims(store_factory: StoreFactory) -> None:
    @settings(max_examples=histories(store_factory, 100))
    @given(history=bursts)
    def agree(history: list[tuple[str, list[bool], str]]) -> None:
        with fresh_store(store_factory, RULES) as fresh:
            for customer, flags, work in history:
                documents = tuple(new_document(urgent=flag) for flag in flags)
                fresh.store.submit(Submission(customer, documents))
                work_a_little(fresh.store, work)
            waiting = [
                document for document in fresh.store.documents() if document.state == "waiting"
            ]
            positions = {document.id: ahead(fresh.store, document.id) for document in waiting}
            assert positions == actual_places(fresh.store)

    agree()


def work_a_little(store: Store, work: str) -> None:
    if work == "none":
        return
    claim = must_claim(store)
    if work == "done":
        store.finish(claim, DONE)
    elif work == "released":
        store.release([claim])
    else:
        store.cancel(claim.id)
        store.retry(claim.id)


def ahead(store: Store, id_: str) -> tuple[int, int, int] | None:
    """How many of its customer's documents go before it, and of others', and of how many."""
    place = store.place(id_)
    return place and (place.own_documents, place.other_documents, place.other_customers)


def actual_places(store: Store) -> dict[str, tuple[int, int, int]]:
    claims = work_off(store)
    places = {}
    for number, claim in enumerate(claims):
        others = [
            earlier.customer for earlier in claims[:number] if earlier.customer != claim.customer
        ]
        places[claim.id] = (number - len(others), len(others), len(set(others)))
    return places


def test_only_queued_documents_have_a_place(store: Store) -> None:
    done, delayed, processing, cancelled = submit(store, "acme", 4)
    store.finish(must_claim(store), DONE)
    store.finish(must_claim(store), CRASHED)
    must_claim(store)
    store.cancel(cancelled.id)
    for document in (done, delayed, processing, cancelled):
        assert store.place(document.id) is None
    assert store.place("no such id") is None


def test_documents_that_may_not_run_are_in_nobodys_way(store: Store) -> None:
    submit(store, "acme", 3)
    document = submit_one(store, "globex")
    assert ahead(store, document.id) == (0, 3, 1)
    store.pause("acme")
    assert ahead(store, document.id) == (0, 0, 0)


def submit_to(store: Store, pipeline: str, customer: str, number: int = 1) -> list[str]:
    documents = tuple(new_document()._replace(pipeline=pipeline) for _ in range(number))
    return [document.id for document in store.submit(Submission(customer, documents))]


def test_documents_behind_another_quota_are_in_nobodys_way(store: Store) -> None:
    store.use_quotas([Pipeline("invoices", limit="2/h")])
    invoices = submit_to(store, "invoices", "acme", 3)
    (document,) = submit_to(store, "default", "globex")
    assert ahead(store, document) == (0, 1, 1), "the quota lets one start now"
    assert ahead(store, invoices[2]) == (2, 0, 0), "those of its own pipeline go before it"
    assert must_claim(store).id == invoices[0]
    assert ahead(store, document) == (0, 0, 0)
    assert ahead(store, invoices[2]) == (1, 0, 0)


def test_documents_that_nobody_serves_are_in_nobodys_way(store: Store) -> None:
    (invoice,) = submit_to(store, "invoices", "acme")
    (document,) = submit_to(store, "default", "globex")
    assert ahead(store, document) == (0, 1, 1), "no worker has said yet what it serves"
    store.attend("engine", 1, ["default"])
    assert ahead(store, document) == (0, 0, 0)
    assert ahead(store, invoice) == (0, 0, 0)
    store.attend("engine", 1, ["default", "invoices"])
    assert ahead(store, document) == (0, 1, 1)


def test_only_queues_that_compete_for_the_same_workers_count(store: Store) -> None:
    submit_to(store, "default", "whale", 5)
    (vision,) = submit_to(store, "vision", "acme")
    (invoice,) = submit_to(store, "invoices", "acme")
    store.attend("engine", 2, ["default", "invoices"])
    assert ahead(store, vision) == (0, 0, 0), "nobody serves it"
    store.attend("pull:key:vision", 1, ["vision"])
    assert ahead(store, vision) == (0, 0, 0), "a program of its own serves it"
    assert ahead(store, invoice) == (0, 3, 1)


def test_a_place_is_told_although_others_claim_at_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All questions of one answer see the same moment."""
    store = sqlite_store(tmp_path, RulesInForce(), Clock())
    documents = submit(store, "acme", 3)

    def sql_while_others_claim(name: str) -> str:
        if name == "nth_slot":
            assert ids(work_off(store)) == ids(documents)
        return sql(name)

    monkeypatch.setattr(reads, "sql", sql_while_others_claim)
    assert ahead(store, documents[-1].id) == (2, 0, 0)
    store.close()


def test_an_estimated_position_is_never_behind_the_end_of_the_queue(store: Store) -> None:
    """Regression: 5,751 of 1,400; others were scaled by the part of its own that was counted."""
    for number in range(30):
        submit(store, f"customer {number}", 50)
    store.attend("engine", 4)
    last = store.documents()[0].id
    place = store.place(last)
    assert place is not None
    assert place.is_estimate
    assert 1000 < place.position <= 1500
