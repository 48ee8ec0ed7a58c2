"""Small wrong versions of the queue, the rule, the lane and the quotas: each is found.

Scripts by lot find most of them, against the naive model. Those that concern a queue of which only
a part is loaded are found beside one that is wholly in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappush
from typing import Any, NamedTuple

import pytest
import random_histories
from model_scripts import Script, expected, play, script_by_lot
from policy_queue import PolicyQueue
from random_histories import InMemory, PartlyLoaded, dense_history, world_by_lot

from fairlead.policy import queue
from fairlead.policy.fair import BEYOND_ALLOWANCE, Charge, FairClock, FairRule, FairShare
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import Queue
from fairlead.policy.queue_entry import Entry, Member, QueuedDocument
from fairlead.policy.quotas import Quota

SCRIPTS = 40
"""Of each policy."""
HISTORIES = 40


class Mutant(NamedTuple):
    """What is replaced, and by what."""

    owner: Any
    name: str
    wrong: Any


def truth(owner: Any, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = vars(owner)[name]
    return function


faded, claim, correct = (
    truth(FairRule, "faded"),
    truth(FairClock, "claim"),
    truth(FairClock, "correct"),
)


def fades_without_the_unit(self: FairRule, debt: float, seconds: float, interval: float) -> float:
    return debt * math.exp(-seconds / interval) if seconds > 0 and interval else debt


def fades_beyond_the_allowance(self: FairClock, share: FairShare, now: float) -> None:
    if now > share.debt_at:
        interval = self.rule.reset_interval
        share.debt = self.rule.faded(share.debt, now - share.debt_at, interval)
        share.debt_at = now


def the_lane_moves_the_clock(
    self: FairClock, share: FairShare, estimate: float, now: float, *, through_lane: bool
) -> Any:
    return claim(self, share, estimate, now, through_lane=False)


def charges_without_weight(
    self: FairClock, share: FairShare, estimate: float, now: float, *, through_lane: bool
) -> Any:
    weight, share.weight = share.weight, 1.0
    charge = claim(self, share, estimate, now, through_lane=through_lane)
    share.weight = weight
    return charge


def no_correction(
    self: FairClock, share: FairShare, charge: Charge, actual: float | None, now: float
) -> None:
    correct(self, share, charge, None, now)


def corrects_by_the_present_weight(
    self: FairClock, share: FairShare, charge: Charge, actual: float | None, now: float
) -> None:
    correct(self, share, charge._replace(weight=share.weight), actual, now)


def tag_does_not_follow_the_clock(self: FairClock, share: FairShare, now: float) -> None:
    if share.debt < self.rule.allowed_debt:
        rank = self.rule.faded_at(share.debt, now, self.rule.reset_interval)
        share.place = (0, rank, self.tickets[0])
    else:
        share.place = (BEYOND_ALLOWANCE, share.tag, self.tickets[0])
    self.tickets[0] += 1


def an_end_moves_back(self: FairClock, share: FairShare, now: float) -> None:
    if share.place is not None:
        self.enter(share, now)


def urgent_gains_a_place(self: Entry, best: QueuedDocument, jumping: QueuedDocument) -> None:
    best.is_displaced = True
    heappush(self.ahead, (best.turn, best))


def first_pipeline(self: Queue, member: Member, pipelines: Any) -> Entry:
    entries = (member.entries[name] for name in pipelines if name in member.entries)
    return next(entry for entry in entries if entry.waiting)


def first_customer(self: Queue, account: Member, pipelines: Any) -> Member:
    return min(
        (
            member
            for member in account.inner.values()
            if member.share.place is not None
            and any(member.entries[name].waiting for name in pipelines if name in member.entries)
        ),
        key=lambda member: member.id,
    )


def only_what_waits_first_counts(self: Entry, documents: int, head: Any, oldest: Any) -> bool:
    is_first = not self.waiting
    self.waiting += documents
    if is_first:
        self.head, self.oldest = head, oldest
    return is_first


def never_raised(self: Quota, now: float) -> float:
    burst = max(1.0, self.rate or 0.0)
    return burst if self.tokens is None else self.tokens


MUTANTS = {
    "debt does not fade": Mutant(FairRule, "faded", lambda self, debt, *_: debt),
    "debt fades without the unit": Mutant(FairRule, "faded", fades_without_the_unit),
    "debt does not delay": Mutant(FairRule, "faded_at", lambda self, debt, now, interval: now),
    "the count leaves out what waits": Mutant(
        FairRule, "count", lambda self, debt, queued, weight: -math.floor(debt / self.unit + 1e-6)
    ),
    "the allowance is in seconds": Mutant(
        FairRule, "allowed_debt", property(lambda self: self.allowance)
    ),
    "debt fades beyond the allowance": Mutant(FairClock, "fade", fades_beyond_the_allowance),
    "the lane moves the clock": Mutant(FairClock, "claim", the_lane_moves_the_clock),
    "charges ignore the weight": Mutant(FairClock, "claim", charges_without_weight),
    "an end corrects nothing": Mutant(FairClock, "correct", no_correction),
    "an end uses the present weight": Mutant(FairClock, "correct", corrects_by_the_present_weight),
    "who comes back has saved up": Mutant(FairClock, "_place", tag_does_not_follow_the_clock),
    "a place never improves": Mutant(FairClock, "improve", lambda self, share, now: None),
    "an end moves an account back": Mutant(FairClock, "improve", an_end_moves_back),
    "the lane is always open": Mutant(OverdueLane, "is_open", lambda self, credit: True),
    "the lane costs nothing": Mutant(
        OverdueLane,
        "after_claim",
        lambda self, credit, through_lane: min(self.share - 1, credit + 1),
    ),
    "credit has no limit": Mutant(
        OverdueLane,
        "after_claim",
        lambda self, credit, through_lane: credit + (1 - self.share if through_lane else 1),
    ),
    "a start does not end the wait": Mutant(queue, "waits_since", lambda last, oldest: oldest),
    "only a start ends the wait": Mutant(
        queue, "waits_since", lambda last, oldest: oldest if last is None else last
    ),
    "urgent is ignored": Mutant(
        QueuedDocument, "turn", property(lambda self: (True, self.priority, self.number))
    ),
    "an urgent document gains a place": Mutant(Entry, "swap", urgent_gains_a_place),
    "the lane leaves the oldest slot": Mutant(Entry, "oldest_slot", lambda self: None),
    "only the first arrival moves an entry": Mutant(Entry, "add", only_what_waits_first_counts),
    "paused customers start": Mutant(
        Member,
        "may_start_more",
        property(lambda self: self.cap is None or self.processing < self.cap),
    ),
    "caps are ignored": Mutant(Member, "may_start_more", property(lambda self: not self.is_paused)),
    "one more than the cap": Mutant(
        Member,
        "may_start_more",
        property(
            lambda self: not self.is_paused and (self.cap is None or self.processing <= self.cap)
        ),
    ),
    "the first pipeline goes first": Mutant(Queue, "_fair_entry", first_pipeline),
    "the first customer of an account goes first": Mutant(Queue, "_inner_member", first_customer),
    "a full pipeline is open": Mutant(
        Quota, "is_open", lambda self, now: self.rate is None or self._filled(now) >= 1.0
    ),
    "an end frees no place in a pipeline": Mutant(Quota, "end", lambda self: None),
    "tokens do not come back": Mutant(Quota, "_filled", never_raised),
}

BEST, MOST_OVERDUE = truth(PartlyLoaded, "_best"), truth(PartlyLoaded, "_most_overdue")
LOADING = {
    "slots beyond the loaded ones": Mutant(
        Entry, "best", lambda self: self.slots[0][2] if self.slots else None
    ),
    "places beyond the loaded ones": Mutant(
        PartlyLoaded,
        "_best",
        lambda self, queue, *args: with_no_bounds(queue, BEST(self, queue, *args)),
    ),
    "waits beyond the loaded ones": Mutant(
        PartlyLoaded,
        "_most_overdue",
        lambda self, queue, *args: with_no_bounds(queue, MOST_OVERDUE(self, queue, *args)),
    ),
}


def with_no_bounds(of: Queue, chosen: set[int]) -> set[int]:
    of.loaded_up_to.clear()
    of.overdue_loaded_up_to.clear()
    return chosen


@pytest.fixture(scope="module")
def scripts() -> list[tuple[Script, list[Any]]]:
    all_scripts = [
        script_by_lot(seed, policy)
        for seed in range(SCRIPTS)
        for policy in random_histories.POLICIES
    ]
    return [(script, expected(script)) for script in all_scripts]


def agrees(script: Script, shown: list[Any]) -> bool:
    try:
        return play(PolicyQueue(script.settings), script) == shown
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError):
        return False  # a wrong version may break its own state


def test_the_queue_and_the_model_agree(scripts: list[tuple[Script, list[Any]]]) -> None:
    assert all(agrees(script, shown) for script, shown in scripts)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_version_is_found(
    name: str, scripts: list[tuple[Script, list[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    assert not all(agrees(script, shown) for script, shown in scripts)


def loads_well(seed: int) -> bool:
    world, operations = world_by_lot(seed), dense_history(seed)
    whole = random_histories.play(operations, world, InMemory(world))
    width, depth, overdue = 1 + seed % 2, 1 + seed // 2 % 2, 1
    partly = PartlyLoaded(world, width, depth, overdue)
    try:
        return random_histories.play(operations, world, partly) == whole
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError):
        return False


def test_portions_and_the_whole_agree() -> None:
    assert all(loads_well(seed) for seed in range(HISTORIES))


@pytest.mark.parametrize("name", LOADING)
def test_a_wrong_bound_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*LOADING[name])
    assert not all(loads_well(seed) for seed in range(HISTORIES))
