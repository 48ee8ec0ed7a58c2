"""The bound on starts: a customer that could start longer ago than it allows is an event, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from storekit import DONE, LEASE, Clock, RulesInForce, must_claim, new_document, submit

from fairlead.model.documents import Event, EventKind, Submission
from fairlead.model.engines import StepUse
from fairlead.model.pipelines import ClaimLimit, ClaimRequest, Pipeline
from fairlead.model.submissions import NotBefore
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName
from fairlead.storage import Store

AFTER = 100.0
SERVED = ["default", "quota"]


@pytest.fixture(autouse=True)
def a_lane(rules: RulesInForce) -> None:
    rules.change(lane=OverdueLane(after=AFTER, share=4))


def serve(store: Store, clock: Clock, seconds: float, queues: Sequence[str] = SERVED) -> None:
    """Workers are there, but none is free."""
    while seconds > 0:
        store.attend("engine", 2, queues)
        clock.advance(min(seconds, LEASE / 2))
        seconds -= LEASE / 2
    store.attend("engine", 2, queues)


def submit_to(store: Store, customer: str, queue: str, number: int = 1) -> None:
    documents = tuple(new_document()._replace(pipeline=queue) for _ in range(number))
    store.submit(Submission(customer, documents))


def broken(store: Store) -> list[Event]:
    return [event for event in store.events(0) if event.kind is EventKind.BOUND_BROKEN]


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_a_customer_that_could_start_before_the_bound_is_told_once(
    store: Store, clock: Clock, policy: PolicyName
) -> None:
    store.use_policy(policy)
    serve(store, clock, 0)
    submit(store, "acme", 3)
    submit(store, "brine", 3)
    serve(store, clock, AFTER + 1)
    assert store.fairness().bound_broken
    assert must_claim(store).customer == "acme"
    must_claim(store)
    told = broken(store)
    assert sorted(event.customer or "" for event in told) == ["acme", "brine"]
    assert {(event.data["waited"], event.data["bound"]) for event in told} == {(101.0, AFTER)}
    while claim := store.claim("worker"):
        store.finish(claim, DONE)
    assert broken(store) == told
    submit(store, "acme")
    serve(store, clock, AFTER + 1)
    must_claim(store)
    assert len(broken(store)) == 3  # a new wait


Hold = Callable[[Store, Clock], None]


def paused(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    store.pause("acme")
    serve(store, clock, 2 * AFTER)
    assert not store.fairness().bound_broken
    store.resume("acme")


def at_its_cap(store: Store, clock: Clock) -> None:
    store.add_customer("acme", processing_cap=1)
    submit(store, "acme", 2)
    claim = must_claim(store)
    for _ in range(8):
        serve(store, clock, LEASE / 2)
        store.renew([claim])
    assert not store.fairness().bound_broken
    store.finish(claim, DONE)


def its_quota_is_full(store: Store, clock: Clock) -> None:
    store.use_quotas([Pipeline("quota", max_running=1)])
    submit_to(store, "acme", "quota")
    (claim,) = store.claim_for(["worker"])
    submit_to(store, "brine", "quota")
    for _ in range(8):
        serve(store, clock, LEASE / 2)
        store.renew([claim])
    assert not store.fairness().bound_broken
    store.finish(claim, DONE)


def its_quota_has_no_token(store: Store, clock: Clock) -> None:
    store.use_quotas([Pipeline("quota", limit="12/h")])
    submit_to(store, "acme", "quota", 2)
    store.finish(must_claim(store), DONE)
    serve(store, clock, 299)
    assert not store.fairness().bound_broken
    serve(store, clock, 1.01)


def no_worker_serves_it(store: Store, clock: Clock) -> None:
    submit_to(store, "acme", "pulled")
    submit(store, "brine")
    serve(store, clock, 2 * AFTER, ["default"])
    assert store.fairness().most_overdue is not None
    store.claim_for(["worker"], pipelines=["default"])
    assert [event.customer for event in broken(store)] == ["brine"]
    assert not store.fairness().bound_broken
    store.attend("program", 1, ["pulled"])


def no_worker_ran(store: Store, clock: Clock) -> None:
    store.leave("engine")
    submit(store, "acme")
    clock.advance(2 * AFTER)
    serve(store, clock, 0)


def not_due(store: Store, clock: Clock) -> None:
    later = NotBefore(2 * AFTER, is_delay=True)
    store.submit(Submission("acme", (new_document()._replace(not_before=later),)))
    serve(store, clock, 2 * AFTER)


def retried(store: Store, clock: Clock) -> None:
    submit(store, "brine")
    (document,) = submit(store, "acme")
    store.cancel(document.id)
    store.finish(must_claim(store), DONE)
    serve(store, clock, 2 * AFTER)
    store.retry(document.id)


@pytest.mark.parametrize(
    "hold",
    [
        paused,
        at_its_cap,
        its_quota_is_full,
        its_quota_has_no_token,
        no_worker_serves_it,
        no_worker_ran,
        not_due,
        retried,
    ],
)
@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_a_time_in_which_it_could_not_start_breaks_no_bound(
    store: Store, clock: Clock, policy: PolicyName, hold: Hold
) -> None:
    store.use_policy(policy)
    serve(store, clock, 0)
    hold(store, clock)
    assert not store.fairness().bound_broken
    assert must_claim(store).customer in {"acme", "brine"}
    assert "acme" not in [event.customer for event in broken(store)]
    assert store.fairness().most_overdue is None


def test_who_waits_in_a_queue_without_workers_does_not_compete(store: Store, clock: Clock) -> None:
    serve(store, clock, 0, ["default"])
    submit_to(store, "acme", "pulled", 3)
    submit(store, "brine", 2)
    fairness = store.fairness()
    assert fairness.waiting_customers == 1
    assert fairness.jain_index is None
    assert [(share.name, share.may_start) for share in fairness.accounts] == [
        ("acme", False),
        ("brine", True),
    ]


def test_the_bound_follows_the_narrowest_step(store: Store, clock: Clock) -> None:
    submit(store, "acme", 2)
    claim = must_claim(store)
    store.finish(claim, DONE._replace(seconds=10.0))
    store.fold()
    bounds = []
    for steps in ((), (StepUse("crm:post", 1), StepUse("no:such", 0, 0, "it is missing"))):
        store.attend("engine", 5, SERVED, steps)
        bounds.append(store.fairness().start_bound)
    assert bounds == [AFTER + 5 * 10.0 / 5 + 10.0, AFTER + 5 * 10.0 + 10.0]


def test_a_queue_whose_step_is_busy_is_not_told_by_a_claim_of_others(
    store: Store, clock: Clock
) -> None:
    serve(store, clock, 0)
    submit_to(store, "acme", "quota")
    submit(store, "brine")
    serve(store, clock, AFTER + 1)
    limit = ClaimLimit(0, 0, frozenset(["quota"]))
    store.claim_requests([ClaimRequest(["worker"], (), SERVED, [limit])])
    assert [event.customer for event in broken(store)] == ["brine"]
    store.claim_for(["worker"], pipelines=SERVED)
    assert [event.customer for event in broken(store)] == ["brine", "acme"]
