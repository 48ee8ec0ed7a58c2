from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InvalidSetting
from fairlead.model.documents import WORKER_LOST
from fairlead.policy.retry import RetryRule, is_last_break, pause_until_later

rules = st.builds(
    RetryRule,
    max_attempts=st.integers(1, 40),
    first_delay=st.floats(0, 300),
    longest_delay=st.floats(300, 10_000),
)


@given(rules)
def test_attempts_are_bounded(rule: RetryRule) -> None:
    delays = [rule.delay(attempts) for attempts in range(1, rule.max_attempts + 5)]
    assert [delay is None for delay in delays] == [False] * (rule.max_attempts - 1) + [True] * 5


@given(rules)
def test_delays_double_up_to_the_longest(rule: RetryRule) -> None:
    expected = rule.first_delay
    for attempts in range(1, rule.max_attempts):
        assert rule.delay(attempts) == min(expected, rule.longest_delay)
        expected = min(expected * 2, rule.longest_delay)


def test_the_default_tries_three_times() -> None:
    assert [RetryRule().delay(attempts) for attempts in (1, 2, 3, 4)] == [2.0, 4.0, None, None]


def test_many_attempts_do_not_overflow() -> None:
    assert RetryRule(max_attempts=10_000).delay(1_000) == 300.0


@pytest.mark.parametrize("number", [0, -1])
def test_fewer_than_one_attempt_is_refused(number: int) -> None:
    with pytest.raises(InvalidSetting, match="max_attempts must be 1 or more"):
        RetryRule(max_attempts=number)


@pytest.mark.parametrize("delay", [-1, 301, math.nan, math.inf])
def test_a_delay_out_of_bounds_is_refused(delay: float) -> None:
    with pytest.raises(InvalidSetting, match="retry_delay must be"):
        RetryRule(first_delay=delay)


@pytest.mark.parametrize(
    ("code", "broke_before", "is_last"),
    [
        ("crashed", False, False),
        ("crashed", True, True),
        ("memory-limit", True, True),
        (WORKER_LOST, True, False),
    ],
)
def test_the_second_break_is_the_last_unless_the_worker_was_lost(
    code: str, broke_before: bool, is_last: bool
) -> None:
    assert is_last_break(code, broke_before=broke_before) is is_last


@pytest.mark.parametrize(
    ("asked", "waited", "pause"),
    [(0.0, 0.0, 1.0), (1e-9, 50.0, 1.0), (0.0, 1_000.0, 10.0), (60.0, 1_000.0, 60.0)],
)
def test_a_step_that_always_asks_for_a_later_call_gets_growing_pauses(
    asked: float, waited: float, pause: float
) -> None:
    assert pause_until_later(asked, waited) == pause


def test_a_step_is_called_about_a_thousand_times_in_a_day_at_most() -> None:
    calls, waited = 0, 0.0
    while waited < 86_400:
        waited += pause_until_later(0.0, waited)
        calls += 1
    assert calls < 1_000
