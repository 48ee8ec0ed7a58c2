from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.errors import InvalidSetting
from fairlead.model.customers import Tags
from fairlead.policy.fair import Clock, FairRule, Placed

RULE = FairRule()
numbers = st.fractions(-1000, 1000, max_denominator=12)
amounts = st.fractions(0, 1000, max_denominator=12)
weights = st.fractions(Fraction(1, 12), 12, max_denominator=12)


def exact_rule() -> FairRule:
    unit: Any = Fraction(6)
    theta: Any = Fraction(1, 2)
    return FairRule(unit=unit, theta=theta)


def submit(
    tags: Tags | None,
    clock: Clock,
    now: float = 0.0,
    *,
    cost: float = 6.0,
    weight: float = 1.0,
    pending: bool = False,
    rule: FairRule = RULE,
) -> Placed:
    return rule.submit(tags, clock, cost=cost, weight=weight, now=now, has_pending=pending)


def test_a_newcomer_is_tagged_with_the_clock() -> None:
    placed = submit(None, Clock(100.0, 7.0), 7.0, cost=12.0, weight=4.0)
    assert placed == Placed(100.0, 0, 1, Tags(103.0, 100.0, 7.0))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 7, 1e9 + 0.3])
@pytest.mark.parametrize("unit", [6.0, 0.1, 1 / 3])
def test_a_burst_of_unit_costs_shows_the_classic_counts(value: float, unit: float) -> None:
    """Also where the sums of floats end a hair below."""
    rule, tags, counts = FairRule(unit=unit), None, []
    for _ in range(30):
        placed = submit(tags, Clock(value, 0.0), cost=unit, pending=tags is not None, rule=rule)
        tags = placed.tags
        counts.append(placed.count)
    assert counts == [-number for number in range(30)]


@pytest.mark.parametrize(
    ("pause", "pending", "tag"),
    [(1500.0, False, 90.0), (1500.5, False, 40.0), (1500.5, True, 90.0), (-5.0, False, 90.0)],
)
def test_a_pause_of_more_than_the_interval_with_nothing_pending_starts_over(
    pause: float, pending: bool, tag: float
) -> None:
    tags = Tags(finish=90.0, last=84.0, submitted_at=10.0)
    placed = submit(tags, Clock(40.0, 10.0 + pause), 10.0 + pause, pending=pending)
    assert placed.tag == tag
    assert placed.tags.finish == tag + 6.0


def test_after_a_pause_a_finish_tag_behind_the_clock_stays_there() -> None:
    tags = Tags(finish=30.0, last=24.0, submitted_at=0.0)
    assert submit(tags, Clock(40.0, 2000.0), 2000.0).tag == 40.0


def test_the_time_of_the_last_submission_never_goes_back() -> None:
    tags = Tags(0.0, 0.0, submitted_at=50.0)
    assert submit(tags, Clock(0.0, 50.0), 20.0).tags.submitted_at == 50.0


def test_the_clock_grows_with_workers_and_against_weights_while_somebody_waits() -> None:
    clock = Clock(100.0, 10.0)
    assert RULE.advanced(clock, now=18.0, workers=3, backlog=2.0) == Clock(106.0, 18.0)
    assert RULE.advanced(clock, now=18.0, workers=3, backlog=0.0) == Clock(100.0, 18.0)
    assert RULE.advanced(clock, now=5.0, workers=3, backlog=2.0) == clock


@given(numbers, numbers)
def test_claims_and_rest_never_turn_the_clock_back(value: Any, tag: Any) -> None:
    clock = Clock(value, 0)
    assert RULE.claimed(clock, tag) == Clock(max(value, tag), 0)
    assert RULE.when_idle(clock, tag) == Clock(max(value, tag), 0)


@given(numbers, amounts, amounts, amounts, weights)
def test_a_correction_puts_the_true_cost_in_place_of_the_estimate(
    start: Any, cost: Any, actual: Any, more: Any, weight: Any
) -> None:
    """As if it had been known, but never below the last tag."""
    rule, clock = exact_rule(), Clock(start, 0)
    first = submit(None, clock, cost=cost, weight=weight, rule=rule).tags
    second = submit(first, clock, cost=more, weight=weight, pending=True, rule=rule).tags
    after = rule.corrected(second, estimate=cost, actual=actual, weight=weight)
    assert after == replace(second, finish=max(second.last, start + (actual + more) / weight))
    assert isinstance(after.finish, Fraction)


@given(st.lists(amounts, min_size=1, max_size=8), weights)
def test_all_cancelled_is_as_if_never_submitted(costs: list[Any], weight: Any) -> None:
    rule, tags, given_out = exact_rule(), None, []
    start: Any = Fraction(5)
    for cost in costs:
        placed = submit(tags, Clock(start, 0), cost=cost, weight=weight, pending=True, rule=rule)
        tags = placed.tags
        given_out.append(placed.tag)
    for cost in reversed(costs):
        given_out.pop()
        assert tags is not None
        tags = rule.given_back(
            tags, estimate=cost, weight=weight, last_waiting=max(given_out, default=None)
        )
    assert tags == Tags(start, start, 0.0)


@given(st.lists(amounts, min_size=2, max_size=8), st.data())
def test_after_a_cancellation_nothing_overtakes_what_still_waits(
    costs: list[Any], data: st.DataObject
) -> None:
    rule, tags, waiting = exact_rule(), None, []
    clock = Clock(0, 0)
    for cost in costs:
        placed = submit(tags, clock, cost=cost, pending=True, rule=rule)
        tags = placed.tags
        waiting.append((placed.tag, cost))
    gone = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
    assert tags is not None
    highest = max(tag for tag, _ in waiting)
    tags = rule.given_back(tags, estimate=gone[1], weight=1, last_waiting=highest)
    assert submit(tags, clock, pending=True, rule=rule).tag >= highest


@pytest.mark.parametrize(
    ("tag", "count"), [(-3.0, 0), (10.0, 0), (15.9, 0), (16.0, -1), (21.9, -1), (22.0, -2)]
)
def test_the_count_is_the_lead_in_whole_units(tag: float, count: int) -> None:
    assert RULE.shown_count(tag, Clock(10.0, 0.0)) == count


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_what_must_be_above_zero_is_checked(value: float) -> None:
    with pytest.raises(InvalidSetting, match="unit must be a number above 0"):
        FairRule(unit=value)
    with pytest.raises(InvalidSetting, match="weight must be a number above 0"):
        submit(None, Clock(0, 0), weight=value)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_what_must_not_be_negative_is_checked(value: float) -> None:
    with pytest.raises(InvalidSetting, match="theta must be"):
        FairRule(theta=value)
    with pytest.raises(InvalidSetting, match="cost must be"):
        submit(None, Clock(0, 0), cost=value)
    with pytest.raises(InvalidSetting, match="reset_interval must be"):
        FairRule(reset_interval=value)


def test_thresholds_are_checked() -> None:
    with pytest.raises(InvalidSetting, match="thresholds must decrease"):
        FairRule(thresholds=[-4, -2])
