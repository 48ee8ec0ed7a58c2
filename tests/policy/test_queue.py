"""The pure queue in small cases: pipelines, urgent documents, lane, caps, attempts, accounts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fairlead.policy.fair import FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName, Queue, QueueState, Start
from fairlead.policy.queue_entry import QueuedDocument
from fairlead.policy.queue_events import Ended, MemberChanged, Reset
from fairlead.policy.quotas import Quota

POLICIES: tuple[PolicyName, ...] = ("classic", "fair")
both = pytest.mark.parametrize("policy", POLICIES)
A, B, C = 1, 2, 3
SHARED = -1


class Case:
    """A queue with shorthands; documents are numbered from 0."""

    def __init__(
        self,
        policy: PolicyName,
        lane: OverdueLane | None = None,
        *,
        allowance: float = 42.0,
        **quotas: Quota,
    ) -> None:
        rule = FairRule(unit=6.0, allowance=allowance, reset_interval=1500.0)
        self.queue = Queue(rule, lane, QueueState(policy, quotas=quotas))
        self.documents: list[QueuedDocument] = []
        self.starts: dict[int, Start] = {}

    def submit(
        self,
        *customers: int,
        now: float = 0.0,
        priority: int = 1,
        urgent: bool = False,
        estimate: float = 6.0,
        pipeline: str = "default",
    ) -> None:
        for customer in customers:
            number = len(self.documents)
            slot = (0 if urgent else 1) if self.queue.is_fair else priority
            document = QueuedDocument(
                number,
                customer,
                (slot, number),
                priority=priority,
                urgent=urgent,
                estimate=estimate,
                submitted_at=now,
                pipeline=pipeline,
            )
            self.documents.append(document)
            self.queue.push(document, now)

    def claim(
        self, number: int = 1, now: float = 0.0, pipelines: list[str] | None = None
    ) -> list[int]:
        starts = self.queue.choose(number, now, pipelines)
        self.starts |= {start.document.number: start for start in starts}
        return [start.document.number for start in starts]

    def end(self, *documents: int, now: float = 0.0, seconds: float | None = 6.0) -> None:
        for document in documents:
            start = self.starts.pop(document)
            place = (start.customer, start.document.pipeline)
            ended = Ended(now, *place, seconds, start.payer, start.charge, start.inner)
            self.queue.fold([ended])

    def wait_again(self, document: int, now: float = 0.0) -> None:
        self.documents[document].is_waiting = True
        self.queue.push(self.documents[document], now)

    def change(self, customer: int, now: float = 0.0, **settings: object) -> None:
        self.queue.fold([MemberChanged(now, customer, **settings)])  # type: ignore[arg-type]

    def through_lane(self, documents: Iterable[int]) -> list[bool]:
        return [self.starts[document].through_lane for document in documents]


# --- pipelines ---


@both
def test_a_document_that_is_held_back_blocks_nobody(policy: PolicyName) -> None:
    """Not even the other pipelines of its own customer."""
    case = Case(policy, slow=Quota(max_running=1))
    case.submit(A, A, pipeline="slow")
    case.submit(A, B)
    assert case.claim(4) == ([0, 2, 3] if policy == "classic" else [0, 3, 2])
    case.end(0)
    assert case.claim() == [1]


@both
def test_a_limit_is_a_number_of_starts_per_second(policy: PolicyName) -> None:
    case = Case(policy, slow=Quota(rate=2.0))
    case.submit(A, A, A, A, A, A, pipeline="slow")
    assert case.claim(6, now=0.0) == [0, 1]
    assert case.claim(6, now=0.4) == []
    assert case.claim(6, now=0.5) == [2]
    assert case.claim(6, now=100.0) == [3, 4], "one second's starts are kept, not more"


@both
def test_the_number_of_running_documents_is_that_of_the_pipeline(policy: PolicyName) -> None:
    case = Case(policy, slow=Quota(max_running=2))
    case.submit(A, B, C, pipeline="slow")
    assert case.claim(3) == [0, 1]
    case.end(1)
    assert case.claim(3) == [2]


@both
def test_a_worker_may_serve_some_pipelines_only(policy: PolicyName) -> None:
    case = Case(policy)
    case.submit(A)
    case.submit(A, pipeline="slow")
    assert case.claim(2, pipelines=["slow"]) == [1]
    assert case.claim(2, pipelines=["default"]) == [0]


@both
def test_what_a_quota_held_back_goes_through_the_lane_once_it_may(policy: PolicyName) -> None:
    case = Case(policy, OverdueLane(10.0, 2), slow=Quota(max_running=1))
    case.submit(A, B, pipeline="slow")
    assert case.claim() == [0]
    case.submit(C, C, now=19.0)
    assert case.claim(now=20.0) == [2], "the lane is open, and nobody may use it"
    case.end(0, now=21.0)
    assert case.claim(now=21.0) == [1]
    assert case.through_lane([2, 1]) == [False, True]


# --- urgent documents ---


def test_under_classic_an_urgent_document_swaps_slots_with_the_best_of_its_customer() -> None:
    """Decision 0001: other customers are not affected."""
    case = Case("classic")
    case.submit(A, B)
    case.submit(A, priority=9)
    case.submit(A, urgent=True, priority=9)
    case.submit(B, priority=2)
    assert case.claim() == [3]
    assert case.documents[0].slot == (9, 3)
    assert case.claim(4) == [1, 4, 0, 2], "A has lost its slot of priority 1, and no other"


def test_the_order_of_customers_is_the_same_with_and_without_urgent_documents() -> None:
    orders = []
    for urgent in (False, True):
        case = Case("classic", OverdueLane(5.0, 2))
        case.submit(A, B, A, B, priority=2)
        case.submit(A, urgent=urgent, priority=3)
        case.submit(C, A, priority=3)
        numbers = [case.claim(now=3.0 * turn)[0] for turn in range(7)]
        orders.append([case.documents[number].customer for number in numbers])
    assert orders[0] == orders[1]


def test_under_fair_urgent_documents_go_first_within_their_customer() -> None:
    case = Case("fair")
    case.submit(A, B, A)
    case.submit(A, B, urgent=True)
    assert case.claim(5) == [3, 4, 0, 1, 2]


# --- the lane ---


@both
def test_the_lane_takes_who_has_waited_longest(policy: PolicyName) -> None:
    case = Case(policy, OverdueLane(10.0, 2))
    case.submit(C)
    case.submit(A, now=1.0, priority=9)
    case.submit(B, now=2.0, priority=8)
    assert case.claim(now=2.0) == [0]
    assert case.claim(now=20.0) == [1]
    assert case.through_lane([0, 1]) == [False, True]


@both
def test_equals_in_the_lane_go_by_arrival_or_ticket(policy: PolicyName) -> None:
    """By the oldest document under classic, by the earlier place under fair."""
    case = Case(policy, OverdueLane(10.0, 2))
    case.submit(C, B, A, A, B, C)
    assert case.claim(3) == [0, 1, 2]
    assert case.claim(now=20.0) == ([3] if policy == "classic" else [5])
    assert case.through_lane([3 if policy == "classic" else 5]) == [True]


@both
def test_exactly_the_time_is_not_overdue(policy: PolicyName) -> None:
    case = Case(policy, OverdueLane(10.0, 2))
    case.submit(A, B, B)
    case.claim()
    first, second = case.claim(now=10.0), case.claim(now=10.0)
    assert case.through_lane(first + second) == [False, False]


@both
def test_a_start_makes_a_customer_wait_anew(policy: PolicyName) -> None:
    case = Case(policy, OverdueLane(10.0, 2))
    case.submit(A, A)
    case.claim(now=8.0)
    assert case.through_lane(case.claim(now=18.0)) == [False]


@both
def test_a_paused_customer_is_not_overdue_and_its_time_goes_on(policy: PolicyName) -> None:
    case = Case(policy, OverdueLane(10.0, 2))
    case.submit(C, A, priority=1)
    case.change(A, is_paused=True)
    assert case.claim() == [0]
    case.submit(B, B, now=30.0)
    assert case.through_lane(case.claim(now=30.0)) == [False]
    case.change(A, now=31.0)
    assert case.claim(now=31.0) == [1]
    assert case.through_lane([1]) == [True]


# --- pause and caps ---


@both
def test_a_paused_customer_starts_nothing_and_others_go_on(policy: PolicyName) -> None:
    case = Case(policy)
    case.submit(A, B)
    case.change(A, is_paused=True)
    case.submit(A)
    assert case.claim(3) == [1]
    case.change(A)
    assert case.claim(3) == [0, 2]


@both
def test_a_cap_bounds_what_runs_of_a_customer(policy: PolicyName) -> None:
    case = Case(policy)
    case.change(A, cap=1)
    case.submit(A, A, B)
    case.submit(A, pipeline="slow")
    assert case.claim(4) == [0, 2]
    case.end(0)
    assert case.claim(4) == [1]
    case.end(1)
    assert case.claim(4) == [3]


@both
def test_a_cap_that_is_lifted_counts_at_once(policy: PolicyName) -> None:
    case = Case(policy)
    case.change(A, cap=1)
    case.submit(A, A)
    assert case.claim(2) == [0]
    case.change(A)
    assert case.claim(2) == [1]


# --- attempts that end otherwise, cancelled documents ---


@both
def test_a_lost_document_waits_again_with_its_arrival(policy: PolicyName) -> None:
    case = Case(policy)
    case.submit(A, A)
    assert case.claim() == [0]
    case.end(0, now=3.0, seconds=0.0)
    assert case.queue.member(A).share.debt == 0.0
    case.wait_again(0, now=3.0)
    assert case.claim(2, now=3.0) == [0, 1]


def test_a_lost_document_still_counts_as_the_last_start() -> None:
    case = Case("fair", OverdueLane(10.0, 2))
    case.submit(A)
    case.claim(now=8.0)
    case.end(0, now=9.0, seconds=0.0)
    case.wait_again(0, now=9.0)
    assert case.queue.wait_of(case.queue.member(A).entry("default"))[0] == 8.0


def test_a_retry_counts_neither_in_the_queued_work_nor_as_waiting_until_it_is_due() -> None:
    case = Case("fair")
    case.submit(A)
    case.claim()
    start = case.starts.pop(0)
    ended = Ended(2.0, A, "default", 2.0, start.payer, start.charge, is_delayed=True)
    case.queue.fold([ended])
    member = case.queue.member(A)
    assert (member.delayed, member.waiting, member.share.queued) == (1, 1, 0.0)
    assert member.share.place is None
    assert case.claim(now=9.0) == []
    member.delayed -= 1
    case.wait_again(0, now=10.0)
    assert (member.waiting, member.share.queued) == (1, 6.0)
    assert case.claim(now=10.0) == [0]


@both
def test_a_cancelled_document_leaves_no_trace(policy: PolicyName) -> None:
    case = Case(policy, OverdueLane(10.0, 2))
    case.submit(A, B)
    case.queue.drop(case.documents[0], 1.0)
    member = case.queue.member(A)
    assert (member.waiting, member.share.queued, member.share.debt) == (0, 0.0, 0.0)
    assert case.claim(2, now=20.0) == [1]


# --- shared accounts, weights, resets ---


def test_customers_of_an_account_share_its_place_and_take_turns_inside() -> None:
    case = Case("fair")
    for customer in (A, B):
        case.change(customer, account=SHARED)
    case.submit(A, A, A, B, C, C)
    assert case.claim(6) == [0, 4, 3, 5, 1, 2]
    start = case.starts[0]
    assert (start.customer, start.payer) == (A, SHARED)
    assert start.charge == start.inner == (6.0, 1.0, False)


def test_an_account_may_run_while_one_of_its_customers_may() -> None:
    case = Case("fair")
    for customer in (A, B):
        case.change(customer, account=SHARED)
    case.submit(A, B)
    case.change(A, account=SHARED, is_paused=True)
    assert case.claim(2) == [1]
    assert case.queue.member(SHARED).share.place is None
    case.change(A, account=SHARED)
    assert case.claim() == [0]


def test_a_held_back_document_blocks_nobody_in_its_account() -> None:
    case = Case("fair", slow=Quota(max_running=1))
    for customer in (A, B):
        case.change(customer, account=SHARED)
    case.submit(A, A, pipeline="slow")
    case.submit(A, B)
    assert case.claim(4) == [0, 3, 2]


def test_under_classic_an_account_changes_nothing() -> None:
    case = Case("classic")
    for customer in (A, B):
        case.change(customer, account=SHARED)
    case.submit(A, A, B)
    assert case.claim(3) == [0, 1, 2]
    assert case.starts[0].payer == A


def test_beyond_the_allowance_accounts_share_by_weight() -> None:
    case = Case("fair", allowance=1.0)
    case.change(A, weight=2.0)
    case.submit(*[A] * 60, *[B] * 60)
    first = case.claim(33)
    started = [case.documents[number].customer for number in first[3:]]
    assert abs(started.count(A) - 2 * started.count(B)) <= 2


def test_a_weight_counts_from_the_next_claim_and_an_end_uses_the_old_one() -> None:
    case = Case("fair")
    case.submit(A, A)
    case.claim()
    case.change(A, weight=2.0)
    case.claim()
    share = case.queue.member(A).share
    assert share.debt == 6.0 + 3.0
    case.end(0, seconds=12.0)
    assert share.debt == 6.0 + 6.0 + 3.0


def test_a_reset_forgets_what_a_customer_has_had() -> None:
    case = Case("fair", allowance=1.0)
    case.submit(A, A, A, B)
    assert case.claim(3) == [0, 3, 1]
    case.submit(B)
    case.queue.fold([Reset(0.0, A)])
    assert case.queue.member(A).share.debt == 0.0
    assert case.claim() == [2]


# --- filters of a choice ---


@both
def test_a_document_that_the_caller_refuses_ends_the_choice(policy: PolicyName) -> None:
    case = Case(policy)
    case.submit(A, B, C)
    starts = case.queue.choose(3, 0.0, may_start=lambda document: document.number != 1)
    assert [start.document.number for start in starts] == [0]
    assert case.claim(3) == [1, 2]


@both
def test_the_state_as_a_whole_is_kept(policy: PolicyName) -> None:
    case = Case(policy, OverdueLane(10.0, 4))
    case.submit(A, B)
    case.claim(2)
    state = case.queue.save_state()
    assert (state.credit, state.quotas["default"].running) == (2, 2)
    assert state.next_ticket == (2 if policy == "fair" else 0)
