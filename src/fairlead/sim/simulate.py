"""The simulation: a trace, a policy and some workers give each document its start and its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from fairlead.core.classic import Check, Counter, Policy
from fairlead.core.lane import OverdueLane
from fairlead.errors import InvalidSetting
from fairlead.sim.line import Line
from fairlead.sim.trace import Arrival


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
    arrivals: Sequence[Arrival], policy: Policy, workers: int, lane: OverdueLane | None = None
) -> list[Run]:
    """Run the trace; one `Run` per row, in the trace's order.

    Within one customer, documents arrive in the order of their rows, also where `at` goes back:
    such a document is accepted at the latest time its customer has reached, while its check is
    given `at` as written, just as a clock that jumps back would do it. At any one moment, workers
    that are done are freed first, then documents are accepted, then free workers start documents.
    """
    if workers < 1:
        raise InvalidSetting(f"workers must be a whole number from 1; got {workers!r}")
    checks = _checks(arrivals, policy)
    floor = _Floor(arrivals, checks, Line(lane), workers)
    order = arrival_order(arrivals)
    for place in order:
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


def _checks(arrivals: Sequence[Arrival], policy: Policy) -> list[Check]:
    # A check depends on its customer's earlier ones alone, and those stand in earlier rows.
    counters: dict[str, Counter] = {}
    checks = []
    for arrival in arrivals:
        check = policy.check(counters.get(arrival.customer), now=arrival.at)
        counters[arrival.customer] = check.counter
        checks.append(check)
    return checks


class _Floor:
    """The workers and the line before them."""

    def __init__(
        self, arrivals: Sequence[Arrival], checks: Sequence[Check], line: Line, workers: int
    ) -> None:
        self._arrivals = arrivals
        self._checks = checks
        self._line = line
        self._free = workers
        self._busy_until: list[float] = []
        self._rows: list[int] = []
        self._runs: dict[int, Run] = {}
        self._now = float("-inf")

    def accept(self, place: Place) -> None:
        """Put a document in the line."""
        customer = self._arrivals[place.row].customer
        self._line.add(customer, self._checks[place.row].rank, place.moment)
        self._rows.append(place.row)
        self._now = place.moment

    def work_until(self, moment: float) -> None:
        """Start and finish documents up to `moment`; at `moment` itself, only finish them.

        What starts at `moment` is decided after all that arrives then is in the line.
        """
        while self._now < moment:
            self._fill()
            if not self._busy_until or self._busy_until[0] > moment:
                return
            self._now = self._busy_until[0]
            self._release()

    def runs(self, count: int) -> list[Run]:
        """What became of each of the trace's rows."""
        return [self._runs[row] for row in range(count)]

    def _fill(self) -> None:
        while self._free and (turn := self._line.take(self._now)):
            row = self._rows[turn.arrival]
            check = self._checks[row]
            finished = self._now + self._arrivals[row].seconds
            self._runs[row] = Run(check.count, check.priority, self._now, finished, turn.lane)
            heappush(self._busy_until, finished)
            self._free -= 1

    def _release(self) -> None:
        while self._busy_until and self._busy_until[0] <= self._now:
            heappop(self._busy_until)
            self._free += 1
