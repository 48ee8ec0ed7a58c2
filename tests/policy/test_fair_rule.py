"""The fair rule, account by account: debt, fading, places, charges and corrections."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InvalidSetting
from fairlead.policy.fair import (
    BEYOND_ALLOWANCE,
    WITHIN_ALLOWANCE,
    FairClock,
    FairRule,
    FairShare,
)

RULE = FairRule()
debts = st.floats(0, 1e5)
spans = st.floats(0, 1e5)


def account(
    clock: FairClock, debt: float = 0.0, *, now: float = 0.0, weight: float = 1.0
) -> FairShare:
    """A waiting account with this debt."""
    share = FairShare(weight=weight, debt=debt, debt_at=now)
    clock.enter(share, now)
    return share


@pytest.mark.parametrize("unit", [6.0, 0.1, 1 / 3])
def test_a_burst_of_unit_costs_shows_the_classic_counts(unit: float) -> None:
    """Also where the sums of floats end a hair below."""
    clock, share, counts = FairClock(FairRule(unit=unit)), FairShare(), []
    for _ in range(30):
        counts.append(clock.count(share, 0.0))
        share.queued += unit
    assert counts == [-number for number in range(30)]


def test_the_count_has_what_was_started_and_what_waits() -> None:
    assert RULE.count(11.9, 0.0, 1.0) == -1
    assert RULE.count(6.0, 12.0, 2.0) == -2


@given(debts, spans, spans)
def test_fading_in_two_parts_is_fading_at_once(debt: float, first: float, second: float) -> None:
    interval = RULE.reset_interval
    parts = RULE.faded(RULE.faded(debt, first, interval), second, interval)
    assert parts == pytest.approx(RULE.faded(debt, first + second, interval), abs=1e-6)


@given(debts)
def test_a_debt_has_faded_when_the_rule_says(debt: float) -> None:
    at = RULE.faded_at(debt, 0.0, RULE.reset_interval)
    assert RULE.faded(debt, at, RULE.reset_interval) == pytest.approx(0.0, abs=1e-6)
    assert debt < 0.01 or RULE.faded(debt, 0.9 * at, RULE.reset_interval) > 0


def test_a_clock_that_goes_back_changes_nothing() -> None:
    assert RULE.faded(30.0, -5.0, 1500.0) == 30.0
    clock, share = FairClock(RULE), FairShare(debt=30.0, debt_at=100.0)
    clock.fade(share, 50.0)
    assert (share.debt, share.debt_at) == (30.0, 100.0)


def test_within_the_allowance_the_rank_is_when_the_debt_has_faded() -> None:
    clock = FairClock(RULE)
    assert account(clock, now=7.0).place == (WITHIN_ALLOWANCE, 7.0, 0)
    place = account(clock, 12.0, now=7.0).place
    assert place is not None
    assert (place[0], place[2]) == (WITHIN_ALLOWANCE, 1)
    assert place[1] == pytest.approx(7.0 + 1500.0 * math.log1p(2.0))


def test_at_the_allowance_one_is_beyond_it_and_level_with_the_clock() -> None:
    clock = FairClock(RULE, value=50.0)
    assert account(clock, RULE.allowed_debt).place == (BEYOND_ALLOWANCE, 50.0, 0)
    just_within = account(clock, RULE.allowed_debt - 0.001).place
    assert just_within is not None
    assert just_within[0] == WITHIN_ALLOWANCE


def test_a_debt_stands_still_beyond_the_allowance() -> None:
    clock = FairClock(RULE)
    share = account(clock, 300.0)
    clock.fade(share, 1000.0)
    assert share.debt == 300.0
    clock.leave(share, 1000.0)
    clock.fade(share, 2000.0)
    assert share.debt < 300.0


def test_a_claim_charges_the_debt_by_weight() -> None:
    clock = FairClock(RULE)
    share = account(clock, weight=2.0)
    share.queued = 12.0
    charge = clock.claim(share, 12.0, 0.0, through_lane=False)
    assert (charge.seconds, charge.weight, charge.to_tag) == (6.0, 2.0, False)
    assert (share.debt, share.queued, clock.value) == (6.0, 0.0, 0.0)


@pytest.mark.parametrize(("through_lane", "value"), [(False, 40.0), (True, 0.0)])
def test_beyond_the_allowance_a_claim_charges_the_tag(through_lane: bool, value: float) -> None:
    clock = FairClock(RULE)
    share = account(clock, 300.0)
    share.tag = 40.0
    share.place = (BEYOND_ALLOWANCE, 40.0, 0)
    charge = clock.claim(share, 6.0, 0.0, through_lane=through_lane)
    assert charge.to_tag
    assert (share.tag, share.debt, share.tagged) == (46.0, 300.0, 1)
    assert clock.value == value  # the lane does not move the others


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0.1, 10))
def test_a_correction_puts_the_true_time_in_place_of_the_estimate(
    estimate: float, actual: float, weight: float
) -> None:
    clock = FairClock(RULE)
    share = account(clock, weight=weight)
    charge = clock.claim(share, estimate, 0.0, through_lane=False)
    clock.leave(share, 0.0)
    clock.correct(share, charge, actual, 0.0)
    assert share.debt == pytest.approx(actual / weight)


def test_an_unknown_time_leaves_the_estimate() -> None:
    clock = FairClock(RULE)
    share = account(clock)
    charge = clock.claim(share, 9.0, 0.0, through_lane=False)
    clock.correct(share, charge, None, 0.0)
    assert share.debt == 9.0


@given(debts, st.floats(0, 100), st.floats(0, 100), spans)
def test_an_account_never_moves_back_while_it_waits(
    debt: float, estimate: float, actual: float, later: float
) -> None:
    clock = FairClock(RULE)
    share = account(clock, debt)
    charge = clock.claim(share, estimate, 0.0, through_lane=False)
    clock.enter(share, 0.0)
    before = share.place
    assert before is not None
    clock.correct(share, charge, actual, later)
    assert share.place is not None
    assert share.place[:2] <= before[:2]


def test_what_was_forgiven_is_forgotten_and_placed_anew() -> None:
    clock = FairClock(RULE)
    share = account(clock, 300.0)
    clock.forgive(share, 5.0)
    assert (share.debt, share.place) == (0.0, (WITHIN_ALLOWANCE, 5.0, 1))


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_what_must_be_above_zero_is_checked(value: float) -> None:
    with pytest.raises(InvalidSetting, match="unit must be a number above 0"):
        FairRule(unit=value)
    with pytest.raises(InvalidSetting, match="allowance must be a number above 0"):
        FairRule(allowance=value)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_the_interval_is_checked(value: float) -> None:
    with pytest.raises(InvalidSetting, match="reset_interval must be"):
        FairRule(reset_interval=value)


def test_without_an_interval_nothing_is_remembered() -> None:
    assert RULE.faded(100.0, 0.001, 0.0) == 0.0


def test_thresholds_are_checked() -> None:
    with pytest.raises(InvalidSetting, match="thresholds must decrease"):
        FairRule(thresholds=[-4, -2])
