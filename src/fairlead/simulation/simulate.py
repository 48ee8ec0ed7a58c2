"""The simulation: a trace, a policy and some workers give each document its start and its end."""

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
    """What became of one document. `lane` says whether the overdue lane started it."""

    count: int
    priority: int
    started: float
    finished: float
    lane: bool


class Place(NamedTuple):
    """A row of the trace in order of arrival: the moment it is accepted, and its number."""

    moment: float
    row: int


def simulate(
    arrivals: Sequence[Arrival],
    policy: Policy | FairRule,
    workers: int,
    lane: OverdueLane | None = None,
) -> list[Run]:
    """Run the trace under a policy; one `Run` per row, in the trace's order.

    Within one customer, documents arrive in the order of their rows, also where `at` goes back:
    such a document is accepted at the latest time its customer has reached, while its check is
    given `at` as written, just as a clock that jumps back would do it. At any one moment, workers
    that are done are freed first, then documents are accepted, then free workers start documents.
    """
    if workers < 1:
        raise InvalidSetting(f"workers must be a whole number from 1; got {workers!r}")
    return run_at(policy_for(policy, workers, lane), arrivals, workers)


def run_at(policy: SimulatedPolicy, arrivals: Sequence[Arrival], workers: int) -> list[Run]:
    """Run the trace at a desk of one's own, as `simulate` does."""
    floor = _Workers(arrivals, policy, workers)
    for place in arrival_order(arrivals):
        floor.work_until(place.moment)
        floor.accept(place)
    floor.work_until(float("inf"))
    return floor.runs(len(arrivals))


def arrival_order(arrivals: Sequence[Arrival]) -> list[Place]:
    """All rows in the order in which they are accepted: by moment, then by row."""
    latest: dict[str, float] = {}
    places = []
    for row, arrival in enumerate(arrivals):
        moment = max(arrival.at, latest.get(arrival.customer, arrival.at))
        latest[arrival.customer] = moment
        places.append(Place(moment, row))
    return sorted(places)


class _Workers:
    """The workers, and the desk that tells them what to start."""

    def __init__(self, arrivals: Sequence[Arrival], policy: SimulatedPolicy, workers: int) -> None:
        self._arrivals = arrivals
        self._policy = policy
        self._free = workers
        self._busy: list[tuple[float, int]] = []
        self._accepted: list[tuple[int, Placement]] = []
        self._runs: dict[int, Run] = {}
        self._now = float("-inf")

    def accept(self, place: Place) -> None:
        """Bring a document to the desk."""
        placement = self._policy.accept(self._arrivals[place.row], place.moment)
        self._accepted.append((place.row, placement))
        self._now = place.moment

    def work_until(self, moment: float) -> None:
        """Start and finish documents up to `moment`; at `moment` itself, only finish them.

        What starts at `moment` is decided after all that arrives then was accepted.
        """
        while self._now < moment:
            self._fill()
            if not self._busy or self._busy[0][0] > moment:
                return
            self._now = self._busy[0][0]
            self._release()

    def runs(self, count: int) -> list[Run]:
        """What became of each of the trace's rows."""
        return [self._runs[row] for row in range(count)]

    def _fill(self) -> None:
        while self._free and (turn := self._policy.take(self._now)):
            row, placement = self._accepted[turn.arrival]
            finished = self._now + self._arrivals[row].seconds
            count, level = placement.count, placement.priority
            self._runs[row] = Run(count, level, self._now, finished, turn.lane)
            heappush(self._busy, (finished, turn.arrival))
            self._free -= 1

    def _release(self) -> None:
        while self._busy and self._busy[0][0] <= self._now:
            _, document = heappop(self._busy)
            row, _ = self._accepted[document]
            self._policy.done(document, self._arrivals[row].seconds, self._now)
            self._free += 1
