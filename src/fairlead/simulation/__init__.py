"""The simulator: the rules of the queue, run over a trace in virtual time.

Nothing here reads a clock, and only `trace` and `report` touch files.
"""

from fairlead.simulation.policies import (
    LevelPolicy,
    Placement,
    SimulatedFair,
    SimulatedPolicy,
    policy_for,
)
from fairlead.simulation.queue import SimulatedQueue, Turn
from fairlead.simulation.report import Report, render
from fairlead.simulation.simulate import Run, arrival_order, run_at, simulate
from fairlead.simulation.summary import Summary, Waits, percentile, summarise
from fairlead.simulation.trace import Arrival, read_trace, write_outcome

__all__ = [
    "Arrival",
    "LevelPolicy",
    "Placement",
    "Report",
    "Run",
    "SimulatedFair",
    "SimulatedPolicy",
    "SimulatedQueue",
    "Summary",
    "Turn",
    "Waits",
    "arrival_order",
    "percentile",
    "policy_for",
    "read_trace",
    "render",
    "run_at",
    "simulate",
    "summarise",
    "write_outcome",
]
