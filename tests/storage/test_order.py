"""The order: by priority, then by arrival; the numbers of each customer are always correct."""

from __future__ import annotations

import pytest
from storekit import DONE, Clock, RulesInForce, ids, must_claim, submit, submit_one, work_off

from fairlead.model.documents import Totals
from fairlead.model.states import State
from fairlead.policy.queue import PolicyName
from fairlead.storage import Store

pytestmark = pytest.mark.postgres_differs


def test_documents_go_by_priority_then_by_arrival(store: Store) -> None:
    burst = submit(store, "acme", 25)
    late = submit(store, "globex", 4)
    expected = sorted([*burst, *late], key=lambda document: document.priority)  # keeps the arrival
    assert ids(work_off(store)) == ids(expected)


def test_a_claim_tells_all_that_a_worker_needs(store: Store, clock: Clock) -> None:
    document = submit_one(store, "acme")
    clock.advance(5)
    claim = must_claim(store, "anna")
    assert (claim.id, claim.name, claim.size, claim.sha256, claim.priority) == (
        *(document.id, document.name, document.size, document.sha256, document.priority),
    )
    assert (claim.customer, claim.worker, claim.attempts) == ("acme", "anna", 1)
    assert (claim.submitted_at, claim.started_at) == (clock.now - 5, clock.now)


def test_an_empty_store_has_nothing_to_claim(store: Store) -> None:
    assert store.claim("worker") is None
    assert store.claim_for(["one", "two"]) == []


def test_several_workers_get_a_document_each_while_there_are_any(store: Store) -> None:
    documents = submit(store, "acme", 2)
    claims = store.claim_for(["one", "two", "three"])
    assert [(claim.worker, claim.id) for claim in claims] == [
        ("one", documents[0].id),
        ("two", documents[1].id),
    ]


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_one_claim_takes_documents_of_many_customers(
    store: Store, rules: RulesInForce, policy: PolicyName
) -> None:
    rules.change(policy=policy)
    documents = [submit_one(store, f"customer {number}") for number in range(60)]
    assert ids(store.claim_for(["worker"] * 60)) == ids(documents)


def test_the_numbers_of_a_customer_follow_each_step(store: Store) -> None:
    def numbers() -> tuple[int, int, int]:
        customer = store.customer("acme")
        return customer.waiting, customer.processing, customer.pending

    submit(store, "acme", 3)
    assert numbers() == (3, 0, 3)
    first, second = store.claim_for(["one", "two"])
    assert numbers() == (1, 2, 3)
    store.finish(first, DONE)
    assert numbers() == (1, 1, 2)
    store.release([second])
    assert numbers() == (2, 0, 2)
    store.cancel(second.id)
    assert numbers() == (1, 0, 1)
    store.retry(second.id)
    assert numbers() == (2, 0, 2)


def test_totals_are_those_of_all_customers(store: Store) -> None:
    assert store.totals() == Totals(0, 0, 0)
    submit(store, "acme", 3)
    submit(store, "globex", 2)
    store.add_customer("initech")
    must_claim(store)
    assert store.totals() == Totals(4, 1, 3)


def test_a_paused_customer_waits_and_is_accepted_all_the_same(store: Store) -> None:
    submit(store, "acme", 2)
    store.pause("acme")
    assert store.customer("acme").paused
    document = submit_one(store, "acme")
    other = submit_one(store, "globex")
    assert must_claim(store).id == other.id
    assert store.claim("worker") is None
    store.resume("acme")
    assert not store.customer("acme").paused
    assert len(work_off(store)) == 3
    assert store.document(document.id).state is State.DONE


def test_a_pause_leaves_alone_what_is_processed(store: Store) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    store.pause("acme")
    assert store.lost([claim]) == []
    assert store.finish(claim, DONE) == "saved"


def test_the_processing_cap_holds_back_one_customer_only(store: Store) -> None:
    submit(store, "acme", 5)
    other = submit_one(store, "globex")
    store.set_customer("acme", processing_cap=2)
    claims = store.claim_for(["one", "two", "three", "four"])
    assert [claim.customer for claim in claims] == ["acme", "acme", "globex"]
    assert claims[-1].id == other.id
    store.finish(claims[0], DONE)
    assert must_claim(store).customer == "acme"
    assert store.claim("worker") is None


def test_a_lower_cap_takes_nothing_away_from_workers(store: Store) -> None:
    submit(store, "acme", 5)
    claims = store.claim_for(["one", "two", "three"])
    store.set_customer("acme", processing_cap=1)
    assert store.lost(claims) == []
    store.finish(claims[0], DONE)
    store.finish(claims[1], DONE)
    assert store.claim("worker") is None
    store.finish(claims[2], DONE)
    assert store.claim("worker") is not None


def test_a_cap_taken_back_lets_the_documents_run(store: Store) -> None:
    submit(store, "acme", 3)
    store.set_customer("acme", processing_cap=1)
    must_claim(store)
    assert store.claim("worker") is None
    store.set_customer("acme", processing_cap=None)
    assert store.claim("worker") is not None


def test_customers_are_listed_by_name(store: Store) -> None:
    for name in ("initech", "acme", "globex"):
        store.add_customer(name)
    assert [customer.name for customer in store.customers()] == ["acme", "globex", "initech"]


def test_a_customer_tells_since_when_it_waits(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    first = submit_one(store, "acme")
    clock.advance(10)
    submit(store, "acme")
    assert store.customer("acme").oldest_waiting_at == first.submitted_at
    assert store.customer("acme").last_started_at is None
    clock.advance(10)
    must_claim(store)
    assert store.customer("acme").oldest_waiting_at == first.submitted_at + 10
    assert store.customer("acme").last_started_at == clock.now
