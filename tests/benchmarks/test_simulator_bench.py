"""The bare loop beside which the simulator is measured does the same as the simulator."""

from __future__ import annotations

from bench.policies import POLICIES
from bench.simulator import bare_loop, trace

from fairlead.simulation.simulate import simulate


def test_the_bare_loop_starts_documents_as_first_come_first_served_does() -> None:
    arrivals = trace(500, 20)
    policy, lane = POLICIES["fifo"]
    runs = simulate(arrivals, policy, 3, lane)
    assert bare_loop(arrivals, 3) == [run.started for run in runs]
