"""Claims by pipeline: a worker serves some pipelines, and each only while there is room for it."""

from __future__ import annotations

import pytest
from storekit import Clock, new_document

from fairlead.model.documents import Claim, Submission
from fairlead.model.pipelines import ClaimLimit, ClaimRequest, Pipeline
from fairlead.policy.queue import PolicyName
from fairlead.storage import Store


def submit(store: Store, customer: str, number: int = 1, pipeline: str = "default") -> list[str]:
    documents = tuple(new_document()._replace(pipeline=pipeline) for _ in range(number))
    return [document.id for document in store.submit(Submission(customer, documents))]


def ids(claims: list[Claim]) -> list[str]:
    return [claim.id for claim in claims]


@pytest.fixture(params=["classic", "fair"])
def policy(request: pytest.FixtureRequest, store: Store) -> PolicyName:
    store.use_policy(request.param)
    return store.policy()


def test_a_worker_gets_only_documents_of_its_pipelines(store: Store, policy: PolicyName) -> None:
    plain = submit(store, "acme", 2)
    invoices = submit(store, "acme", 2, "invoices")
    claims = store.claim_for(["one", "two", "three"], pipelines=["invoices"])
    assert ids(claims) == invoices, policy
    assert {claim.pipeline for claim in claims} == {"invoices"}
    assert ids(store.claim_for(["four", "five", "six"])) == plain


def test_pipelines_are_chosen_from_in_the_order_of_the_queue(store: Store, clock: Clock) -> None:
    wanted: list[str] = []
    for customer in ("one", "two", "three", "four"):
        wanted += submit(store, customer, 1, "invoices" if len(wanted) % 2 else "default")
        clock.advance(1)
    request = ClaimRequest([f"worker {number}" for number in range(4)], (), ["default", "invoices"])
    assert ids(store.claim_requests([request])[0]) == wanted


def test_each_room_is_filled_in_the_order_of_the_queue_and_no_further(
    store: Store, policy: PolicyName
) -> None:
    plain, slow = submit(store, "acme", 3), submit(store, "bolt", 3, "slow")
    requests = [
        ClaimRequest(["slot 1", "slot 2"], (), ["default"]),
        ClaimRequest(["step"], (), ["slow"]),
    ]
    claims, _ = store.claim_requests(requests)
    assert sorted(ids(claims)) == sorted([*plain[:2], slow[0]]), policy
    assert {claim.worker for claim in claims if claim.pipeline == "slow"} == {"step"}
    assert ids(store.claim_requests([ClaimRequest(["step"], (), ["slow"])])[0]) == slow[1:2]


def test_documents_are_prefetched_only_for_the_pipelines_of_that_room(store: Store) -> None:
    plain, slow = submit(store, "acme", 3), submit(store, "bolt", 3, "slow")
    requests = [
        ClaimRequest(["slot"], (), ["default", "slow"]),
        ClaimRequest((), ["slot"] * 5, ["default"]),
    ]
    claims, _ = store.claim_requests(requests)
    assert ids(claims) == plain
    assert ids(store.claim_for(["slot"], pipelines=["default", "slow"])) == slow[:1]


def test_limits_of_a_request_share_its_workers_among_queues(store: Store) -> None:
    """At most one of `slow` starts, and with those claimed ahead there are two of it in all."""
    slow, plain = submit(store, "bolt", 4, "slow"), submit(store, "acme", 5)
    limits = [
        ClaimLimit(1, 2, frozenset({"slow"})),
        ClaimLimit(3, 100, frozenset({"slow", "default"})),
    ]
    request = ClaimRequest(["now"] * 4, ["ahead"] * 4, ["slow", "default"], limits)
    claims, _ = store.claim_requests([request])
    started = [claim.id for claim in claims if claim.worker == "now"]
    prefetched = [claim.id for claim in claims if claim.worker == "ahead"]
    assert sorted(started) == sorted([slow[0], *plain[:2]])
    assert sorted(prefetched) == sorted([slow[1], *plain[2:]])


def test_a_quota_holds_back_one_pipeline_and_nobody_else(
    store: Store, clock: Clock, policy: PolicyName
) -> None:
    store.use_quotas([Pipeline("invoices", limit="2/s")])
    limited = submit(store, "acme", 5, "invoices")
    free = submit(store, "acme", 2)
    claims, opens_in = store.claim_requests([ClaimRequest(["worker"] * 9)])
    assert sorted(ids(claims)) == sorted([*limited[:2], *free]), policy
    assert opens_in == pytest.approx(0.5, abs=0.01)
    clock.advance(opens_in)
    assert ids(store.claim_for(["worker"] * 9)) == limited[2:3]


def test_who_gets_the_scarce_place_is_decided_by_the_policy(store: Store, clock: Clock) -> None:
    store.use_quotas([Pipeline("invoices", max_running=1)])
    many = submit(store, "many", 5, "invoices")
    first = store.claim_for(["worker"] * 5)
    assert ids(first) == many[:1]
    clock.advance(1)
    few = submit(store, "few", 1, "invoices")
    submit(store, "many", 5, "invoices")
    store.release(first)
    assert ids(store.claim_for(["worker"] * 5)) == many[:1]  # it was there first
    store.cancel(many[0])
    for _ in range(3):
        claims = store.claim_for(["worker"] * 5)
        assert len(claims) == 1
        store.cancel(claims[0].id)
    assert few[0] in {claims[0].id, *ids(store.claim_for(["worker"]))}
