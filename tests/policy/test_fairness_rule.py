"""Fairness figures: Jain's index and the bound on starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.customers import Share
from fairlead.policy.fairness import jain_index, start_bound
from fairlead.policy.overdue_lane import OverdueLane

works = st.lists(st.floats(0.1, 1e6), min_size=2, max_size=20)


def share(name: str, done: float, due: float) -> Share:
    return Share(name, done, due, due - done)


@given(works)
def test_equal_parts_of_the_due_give_one(dues: list[float]) -> None:
    shares = [share(str(n), due / 3, due) for n, due in enumerate(dues)]
    assert jain_index(shares, least_due=0.0) == pytest.approx(1.0)


@given(st.integers(2, 50))
def test_one_who_gets_all_gives_one_in_n(number: int) -> None:
    shares = [share(str(n), 10.0 * (n == 0), 10.0) for n in range(number)]
    assert jain_index(shares, least_due=0.0) == pytest.approx(1 / number)


@given(works, works)
def test_the_index_lies_between(done: list[float], due: list[float]) -> None:
    shares = [share("", *pair) for pair in zip(done, due, strict=False)]
    index = jain_index(shares, least_due=0.0)
    assert index is None or 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9


def test_who_has_only_begun_to_wait_does_not_count() -> None:
    shares = [share("a", 10.0, 10.0), share("b", 9.0, 10.0), share("new", 0.0, 0.5)]
    index = jain_index(shares, least_due=1.0)
    assert index is not None
    assert index > 0.99
    assert jain_index(shares[1:], least_due=1.0) is None


def test_the_bound_grows_with_customers_and_falls_with_workers() -> None:
    lane = OverdueLane(after=100.0, share=4)
    assert start_bound(lane, customers=3, longest=2.0, workers=1) == 100.0 + 16 * 2.0 + 2.0
    assert start_bound(lane, customers=3, longest=2.0, workers=4) == 100.0 + 4 * 2.0 + 2.0
    assert start_bound(None, customers=3, longest=2.0, workers=4) is None
    assert start_bound(lane, customers=3, longest=2.0, workers=0) is None
