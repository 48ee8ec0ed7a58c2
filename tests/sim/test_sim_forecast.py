"""The forecast against the simulator: its range holds, and is no wider than it has to be."""

from __future__ import annotations

import pytest
from forecastkit import judged, traffic

from fairlead.core.classic import ClassicPolicy
from fairlead.core.fair import FairRule

POLICIES: dict[str, ClassicPolicy | FairRule] = {"classic": ClassicPolicy(), "fair": FairRule()}
WIDEST = 1.7
"""Of a range over the wait, in the median of all forecasts."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [0.0, 0.5, 0.8])
@pytest.mark.parametrize(("load", "workers"), [(0.6, 2), (0.9, 4), (1.2, 2)])
def test_three_of_four_starts_lie_in_the_range(
    policy: str, noise: float, load: float, workers: int
) -> None:
    rows = traffic(7, load=load, workers=workers, noise=noise, hours=1.0)
    found = judged(POLICIES[policy], rows, workers, seed=3)
    print(policy, load, workers, noise, found)
    assert found.number > 100
    assert found.hits >= 0.75
    assert found.width <= WIDEST
