"""The classic rule against MISSION's table, written here a second time and in another way."""

from __future__ import annotations

import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InvalidSetting
from fairlead.model.customers import LONGEST_RESET_INTERVAL, Check, Counter, check_interval
from fairlead.policy.classic import ClassicPolicy, FifoPolicy, check_reset

times = st.integers(-5_000, 5_000).map(float)
intervals = st.sampled_from([0.0, 1.0, 10.0, 1500.0])


def run(policy: ClassicPolicy | FifoPolicy, moments: list[float]) -> list[Check]:
    counter: Counter | None = None
    checks = []
    for now in moments:
        checks.append(policy.check(counter, now=now))
        counter = checks[-1].counter
    return checks


def table(count: int) -> int:
    """MISSION's table by the counts that each priority holds; all further down have 9."""
    priorities = {
        0: 1, -1: 1, -2: 1,
        -3: 2, -4: 2,
        -5: 3, -6: 3,
        -7: 4, -8: 4,
        -9: 5, -10: 5,
        -11: 6, -12: 6,
        -13: 7, -14: 7,
        -15: 8, -16: 8, -17: 8, -18: 8, -19: 8, -20: 8,
    }  # fmt: skip
    return priorities.get(count, 9)


def idle_counts(moments: list[float], interval: float) -> list[int]:
    """Closed form: the checks since the last gap of more than the interval to the latest time."""
    counts = []
    for here in range(len(moments)):
        back = 0
        while here - back > 0 and moments[here - back] - max(moments[: here - back]) <= interval:
            back += 1
        counts.append(-back)
    return counts


def window_counts(moments: list[float], interval: float) -> list[int]:
    """The checks since the one that opened the present window."""
    counts, opened, since = [], None, 0
    for now in moments:
        if opened is None or now > opened + interval:
            opened, since = now, 0
        else:
            since += 1
        counts.append(-since)
    return counts


@given(st.lists(times, max_size=60), intervals)
def test_idle_counts_follow_the_closed_form(moments: list[float], interval: float) -> None:
    checks = run(ClassicPolicy(interval), moments)
    assert [check.count for check in checks] == idle_counts(moments, interval)


@given(st.lists(times, max_size=60), intervals)
def test_window_counts_follow_the_closed_form(moments: list[float], interval: float) -> None:
    checks = run(ClassicPolicy(interval, reset="window"), moments)
    assert [check.count for check in checks] == window_counts(moments, interval)


@given(st.lists(times, max_size=60), intervals, st.sampled_from(["idle", "window"]))
def test_priority_and_rank_follow_the_table(
    moments: list[float], interval: float, reset: Literal["idle", "window"]
) -> None:
    for check in run(ClassicPolicy(interval, reset=reset), moments):
        assert check.priority == table(check.count)
        assert check.rank == check.priority
        assert check.counter.count == check.count <= 0


@given(st.lists(times, min_size=1, max_size=60), intervals)
def test_the_stored_time_never_goes_back(moments: list[float], interval: float) -> None:
    stored = [check.counter.updated_at for check in run(ClassicPolicy(interval), moments)]
    assert stored == [max(moments[: place + 1]) for place in range(len(moments))]


@given(st.integers(0, 10_000), times)
def test_a_burst_counts_down_by_one(length: int, now: float) -> None:
    length %= 200
    checks = run(ClassicPolicy(), [now] * length)
    assert [check.count for check in checks] == [-place for place in range(length)]


@given(st.integers(-100, 0), times, intervals)
def test_exactly_the_interval_is_no_reset(count: int, then: float, interval: float) -> None:
    counter = Counter(count, then)
    policy = ClassicPolicy(interval)
    assert policy.check(counter, now=then + interval).count == count - 1
    assert policy.check(counter, now=math.nextafter(then + interval, math.inf) + 1).count == 0


@given(st.lists(times, max_size=30))
def test_a_check_changes_nothing_but_what_it_returns(moments: list[float]) -> None:
    policy = ClassicPolicy()
    assert run(policy, moments) == run(policy, moments)


@given(st.lists(times, max_size=30))
def test_fifo_ranks_all_alike(moments: list[float]) -> None:
    for check in run(FifoPolicy(), moments):
        assert (check.count, check.priority, check.rank) == (0, 1, 1.0)


@pytest.mark.parametrize(
    "bad",
    [
        *(-1, -0.001, math.nan, math.inf, -math.inf, "1500", None),
        *(LONGEST_RESET_INTERVAL + 1, 1e300, 10**400),
    ],
)
def test_an_interval_that_is_no_length_of_time_is_refused(bad: float) -> None:
    with pytest.raises(InvalidSetting, match="reset_interval must be"):
        check_interval(bad)


@pytest.mark.parametrize("good", [0, 1, 1500, 0.5, LONGEST_RESET_INTERVAL])
def test_an_interval_becomes_a_float(good: float) -> None:
    assert check_interval(good) == good
    assert type(check_interval(good)) is float


@pytest.mark.parametrize("bad", ["", "Idle", "never", "windows"])
def test_a_reset_of_another_word_is_refused(bad: str) -> None:
    with pytest.raises(InvalidSetting, match="reset must be"):
        check_reset(bad)
