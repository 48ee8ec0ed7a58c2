from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.simulation.simulate import Run
from fairlead.simulation.summary import percentile, summarise
from fairlead.simulation.trace import Arrival

values = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=60).map(sorted)


@given(values, st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    ordered: list[float], percent: int
) -> None:
    value = percentile(ordered, percent)

    def reached(value: float) -> bool:
        return sum(other <= value for other in ordered) * 100 >= percent * len(ordered)

    assert value == min(other for other in ordered if reached(other))


@pytest.mark.parametrize(
    ("percent", "expected"), [(5, 15), (30, 20), (40, 20), (50, 35), (100, 50)]
)
def test_percentiles_of_a_known_list(percent: int, expected: int) -> None:
    assert percentile([15, 20, 35, 40, 50], percent) == expected


def run(started: float, *, lane: bool = False) -> Run:
    return Run(0, 1, started, started + 1, lane)


def test_waits_are_counted_from_at_for_each_customer_and_the_whole() -> None:
    arrivals = [Arrival(0, "a", 1), Arrival(1, "b", 1), Arrival(2, "b", 1), Arrival(3, "c", 1)]
    summary = summarise(arrivals, [run(4), run(1), run(8, lane=True), run(3)])
    assert list(summary.customers) == ["b", "a", "c"]
    assert summary.customers["b"] == (2, 3.0, 0.0, 6.0, 6.0)
    assert summary.customers["a"] == (1, 4.0, 4.0, 4.0, 4.0)
    assert summary.whole == (4, 2.5, 0.0, 6.0, 6.0)
    assert summary.lane == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), min_size=1))
def test_the_whole_is_made_of_all(rows: list[tuple[str, int]]) -> None:
    arrivals = [Arrival(0.0, name, 1.0) for name, _ in rows]
    summary = summarise(arrivals, [run(float(wait)) for _, wait in rows])
    waits = [wait for _, wait in rows]
    assert summary.whole.documents == len(rows)
    assert sum(waits.documents for waits in summary.customers.values()) == len(rows)
    assert summary.whole.mean == pytest.approx(statistics.mean(waits))
    assert summary.whole.max == max(waits.max for waits in summary.customers.values())
