from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InvalidSetting
from fairlead.model.customers import check_thresholds
from fairlead.policy.classic import DEFAULT_THRESHOLDS, lowest_bound_passed, priority

falling = st.sets(st.integers(-200, 0), min_size=1, max_size=12).map(
    lambda bounds: tuple(sorted(bounds, reverse=True))
)
counts = st.integers(-250, 50)

# The burst of MISSION: the documents 1–3 have priority 1, 4–5 have 2, and so on.
STAIRCASE = [1] * 3 + [2] * 2 + [3] * 2 + [4] * 2 + [5] * 2 + [6] * 2 + [7] * 2 + [8] * 6 + [9] * 9


def test_a_burst_climbs_the_staircase() -> None:
    assert [priority(-place, DEFAULT_THRESHOLDS) for place in range(len(STAIRCASE))] == STAIRCASE


@given(counts, falling)
def test_the_priority_lies_between_the_first_and_the_last_level(
    count: int, bounds: tuple[int, ...]
) -> None:
    assert 1 <= priority(count, bounds) <= len(bounds) + 1


@given(counts, falling)
def test_a_lower_count_never_goes_earlier(count: int, bounds: tuple[int, ...]) -> None:
    assert priority(count - 1, bounds) >= priority(count, bounds)


@given(falling)
def test_each_threshold_itself_is_not_below_it(bounds: tuple[int, ...]) -> None:
    for place, bound in enumerate(bounds):
        assert priority(bound, bounds) == 1 + place
        assert priority(bound - 1, bounds) > 1 + place


@given(counts, falling)
def test_the_bound_passed_is_the_one_that_decided(count: int, bounds: tuple[int, ...]) -> None:
    bound = lowest_bound_passed(count, bounds)
    level = priority(count, bounds)
    assert bound == (None if level == 1 else bounds[level - 2])


@given(falling)
def test_falling_thresholds_are_taken_as_they_are(bounds: tuple[int, ...]) -> None:
    assert check_thresholds(list(bounds)) == bounds


@given(st.lists(st.integers(-50, 50), max_size=8))
def test_thresholds_are_taken_only_when_they_fall_from_zero_or_less(bounds: list[int]) -> None:
    good = (
        bounds != []
        and max(bounds) <= 0
        and bounds == sorted(bounds, reverse=True)
        and len(set(bounds)) == len(bounds)
    )
    if good:
        assert check_thresholds(bounds) == tuple(bounds)
    else:
        with pytest.raises(InvalidSetting, match="thresholds must"):
            check_thresholds(bounds)


@pytest.mark.parametrize("bad", [[-2.0], ["-2"], [True], [None], [-2, False]])
def test_thresholds_of_another_type_are_refused(bad: list[int]) -> None:
    with pytest.raises(InvalidSetting, match="whole numbers"):
        check_thresholds(bad)
