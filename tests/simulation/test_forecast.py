"""The forecast against the simulator: its range holds, and is narrow enough to be useful.

The constants of the forecast were fitted on the traffic of the seeds 7, 101 and 202, and the
spread of each policy on the recorded traces. These seeds are others: who changes a constant to
please them must choose new ones here.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from bench.forecast import POLICIES, coverage, judged, judged_traces, traffic

WIDEST = 2.6
"""Of a range over the wait, in the median of all forecasts of a case."""


class Case(NamedTuple):
    """Random traffic: how much of it, for how many workers, how long."""

    seed: int
    load: float
    workers: int
    hours: float


CASES = [
    Case(303, 0.6, 2, 1.0),
    Case(303, 0.9, 1, 1.5),
    Case(303, 1.2, 2, 1.0),
    Case(404, 0.9, 4, 1.0),
    Case(404, 0.75, 8, 0.5),
]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [0.0, 0.8])
@pytest.mark.parametrize(
    "case",
    [*CASES[:2], *(pytest.param(case, marks=pytest.mark.full) for case in CASES[2:])],
    ids=str,
)
def test_three_of_four_starts_lie_in_the_range(policy: str, noise: float, case: Case) -> None:
    rows = traffic(case.seed, load=case.load, workers=case.workers, noise=noise, hours=case.hours)
    judgement = judged(POLICIES[policy], rows, case.workers, seed=case.seed + 1)
    print(f"{policy} {case} noise {noise}: {judgement}")
    assert judgement.number > 100
    assert judgement.hits >= 0.75
    assert judgement.width <= WIDEST


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_range_holds_about_four_of_five_starts_of_recorded_traces(policy: str) -> None:
    """Regression: it held 66 % under classic, then more than 90 %: too wide to be useful."""
    results = judged_traces(policy)
    assert len(results) == 5
    assert 0.75 <= coverage(results.values()) <= 0.9
    assert min(result.hits for result in results.values()) >= 0.7
