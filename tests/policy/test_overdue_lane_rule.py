from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InvalidSetting
from fairlead.policy.overdue_lane import OverdueLane, waits_since

shares = st.integers(2, 9)
wishes = st.lists(st.booleans(), max_size=120)


def play(lane: OverdueLane, wants: list[bool]) -> list[tuple[bool, int]]:
    """For each claim, whether the lane took it and the credit after it; wants: someone is due."""
    credit, history = 0, []
    for due in wants:
        taken = due and lane.is_open(credit)
        credit = lane.after_claim(credit, through_lane=taken)
        history.append((taken, credit))
    return history


@given(shares, wishes)
def test_of_every_prefix_the_lane_gets_at_most_its_share(share: int, wants: list[bool]) -> None:
    lane_claims = 0
    for number, (taken, _) in enumerate(play(OverdueLane(share=share), wants), start=1):
        lane_claims += taken
        assert lane_claims * share <= number


@given(shares, wishes)
def test_credit_stays_between_nothing_and_one_lane_claim(share: int, wants: list[bool]) -> None:
    for _, credit in play(OverdueLane(share=share), wants):
        assert 0 <= credit <= share - 1


@given(shares, st.integers(1, 300))
def test_a_lane_that_is_always_wanted_gets_its_whole_share(share: int, claims: int) -> None:
    history = play(OverdueLane(share=share), [True] * claims)
    assert sum(taken for taken, _ in history) == claims // share


@given(st.none() | st.integers(0, 99), st.integers(0, 99))
def test_a_wait_begins_at_the_later_of_both(last: int | None, oldest: int) -> None:
    assert waits_since(last, oldest) == max(oldest, -1 if last is None else last)


@pytest.mark.parametrize("share", [1, 0, -4])
def test_a_share_below_two_is_refused(share: int) -> None:
    with pytest.raises(InvalidSetting, match="lane_share must be"):
        OverdueLane(share=share)


@pytest.mark.parametrize("after", [-1, -0.1, math.nan])
def test_a_time_that_is_none_is_refused(after: float) -> None:
    with pytest.raises(InvalidSetting, match="overdue_after must be"):
        OverdueLane(after=after)
