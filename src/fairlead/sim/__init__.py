"""The simulator: the rules of the queue, run over a trace in virtual time.

Nothing here reads a clock, and only `trace` and `report` touch files.
"""

from fairlead.sim.desk import Desk, FairDesk, LevelDesk, Placement, desk_for
from fairlead.sim.line import Line, Turn
from fairlead.sim.report import Report, render
from fairlead.sim.simulate import Run, arrival_order, run_at, simulate
from fairlead.sim.summary import Summary, Waits, percentile, summarise
from fairlead.sim.trace import Arrival, read_trace, write_outcome

__all__ = [
    "Arrival",
    "Desk",
    "FairDesk",
    "LevelDesk",
    "Line",
    "Placement",
    "Report",
    "Run",
    "Summary",
    "Turn",
    "Waits",
    "arrival_order",
    "desk_for",
    "percentile",
    "read_trace",
    "render",
    "run_at",
    "simulate",
    "summarise",
    "write_outcome",
]
