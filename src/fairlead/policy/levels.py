"""Levels: how a count becomes a priority. 1 goes first, the highest number last."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import neg

DEFAULT_THRESHOLDS = (-2, -4, -6, -8, -10, -12, -14, -20)


def priority(count: int, thresholds: Sequence[int]) -> int:
    """1 for the first documents of a burst, one more for each threshold the count fell below.

    The thresholds fall, so those above the count stand first.
    """
    return 1 + bisect_left(thresholds, -count, key=neg)


def lowest_bound_passed(count: int, thresholds: Sequence[int]) -> int | None:
    """The threshold that decided the priority: the lowest one the count is below, if any."""
    return min((bound for bound in thresholds if count < bound), default=None)
