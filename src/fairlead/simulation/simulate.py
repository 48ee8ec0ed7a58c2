"""Runs a trace under a policy with some workers: when each document starts and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from fairlead.errors import InvalidSetting
from fairlead.policy.classic import Policy
from fairlead.policy.fair import FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.policies import Placement, SimulatedPolicy, policy_for
from fairlead.simulation.trace import Arrival


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one document. `lane` says whether the overdue lane started it."""

    count: int
    priority: int
    started: float
    finished: float
    lane: bool


class Acceptance(NamedTuple):
    """When a row of the trace is accepted."""

    at: float
    row: int


def simulate(
    arrivals: Sequence[Arrival],
    policy: Policy | FairRule,
    workers: int,
    lane: OverdueLane | None = None,
) -> list[Run]:
    """Run the trace under a policy; one `Run` per row, in the trace's order.

    Documents of one customer arrive in the order of their rows, also where `at` goes back: such a
    document is accepted at the latest time of its customer, while its check is given `at` as
    written, as a clock that jumps back would do. At any time, workers that are done become free
    first, then documents are accepted, then free workers start documents.
    """
    if workers < 1:
        raise InvalidSetting(f"workers must be a whole number from 1; got {workers!r}")
    return run_trace(policy_for(policy, workers, lane), arrivals, workers)


def run_trace(policy: SimulatedPolicy, arrivals: Sequence[Arrival], workers: int) -> list[Run]:
    simulated = _Workers(arrivals, policy, workers)
    for acceptance in acceptances(arrivals):
        simulated.work_until(acceptance.at)
        simulated.accept(acceptance)
    simulated.work_until(float("inf"))
    return [simulated.runs[row] for row in range(len(arrivals))]


def acceptances(arrivals: Sequence[Arrival]) -> list[Acceptance]:
    """All rows in the order in which they are accepted: by time, then by row."""
    latest: dict[str, float] = {}
    accepted = []
    for row, arrival in enumerate(arrivals):
        latest[arrival.customer] = max(arrival.at, latest.get(arrival.customer, arrival.at))
        accepted.append(Acceptance(latest[arrival.customer], row))
    return sorted(accepted)


class _Workers:
    def __init__(self, arrivals: Sequence[Arrival], policy: SimulatedPolicy, workers: int) -> None:
        self.runs: dict[int, Run] = {}
        self._arrivals = arrivals
        self._policy = policy
        self._free = workers
        self._busy: list[tuple[float, int]] = []
        self._accepted: list[tuple[int, Placement]] = []
        self._now = float("-inf")

    def accept(self, acceptance: Acceptance) -> None:
        self._now = acceptance.at
        placement = self._policy.accept(self._arrivals[acceptance.row], self._now)
        self._accepted.append((acceptance.row, placement))

    def work_until(self, end: float) -> None:
        """Start and finish documents up to `end`; at `end` itself, only finish them.

        Which documents start at `end` depends on all that arrive then.
        """
        while self._now < end:
            self._start_documents()
            if not self._busy or self._busy[0][0] > end:
                return
            self._now = self._busy[0][0]
            self._finish_documents()

    def _start_documents(self) -> None:
        while self._free and (claim := self._policy.claim(self._now)):
            row, placed = self._accepted[claim.document]
            finished = self._now + self._arrivals[row].seconds
            self.runs[row] = Run(placed.count, placed.priority, self._now, finished, claim.lane)
            heappush(self._busy, (finished, claim.document))
            self._free -= 1

    def _finish_documents(self) -> None:
        while self._busy and self._busy[0][0] <= self._now:
            _, document = heappop(self._busy)
            row, _ = self._accepted[document]
            self._policy.finish(document, self._arrivals[row].seconds, self._now)
            self._free += 1
