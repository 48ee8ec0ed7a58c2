"""The simulator with a forecast for documents as they arrive, against when they really start."""

from __future__ import annotations

import math
import random
from collections import deque
from typing import NamedTuple

from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.fair import FairRule
from fairlead.policy.forecast import (
    Ahead,
    FinishedDocument,
    Flow,
    Range,
    RecentArrival,
    RunningDocument,
    forecast,
)
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.policies import Placement, SimulatedFair, policy_for
from fairlead.simulation.queue import SimulatedClaim
from fairlead.simulation.simulate import run_trace
from fairlead.simulation.trace import Arrival


class MadeForecast(NamedTuple):
    """A forecast for the document of this number, made at `now`."""

    document: int
    now: float
    forecast: Range


class ForecastingPolicy:
    """A simulated policy that forecasts the start of some of its documents."""

    def __init__(
        self,
        policy: ClassicPolicy | FairRule,
        workers: int,
        lane: OverdueLane | None,
        chance: random.Random,
    ) -> None:
        self.forecasts: list[MadeForecast] = []
        self._policy = policy_for(policy, workers, lane)
        self._unit = policy.unit if isinstance(policy, FairRule) else 0.0
        self._workers = workers
        self._lane = lane
        self._random = chance
        self._rows: list[Arrival] = []
        self._keys: dict[int, tuple[float, int]] = {}
        self._running: dict[int, float] = {}
        self._arrived: deque[tuple[float, float, float]] = deque(maxlen=1000)
        self._pairs: deque[FinishedDocument] = deque(maxlen=200)

    def accept(self, arrival: Arrival, now: float) -> Placement:
        placed = self._policy.accept(arrival, now)
        number = len(self._rows)
        self._rows.append(arrival)
        is_fair = isinstance(self._policy, SimulatedFair)
        rank = self._policy.documents[number].tag if is_fair else float(placed.priority)  # type: ignore[attr-defined]
        behind = -placed.count * self._unit if is_fair else float(placed.priority)
        self._keys[number] = (rank, number)
        self._arrived.appendleft((now, behind, cost(arrival)))
        if self._random.random() < 0.3:
            self._forecast(number, now)
            self._forecast(self._random.choice(list(self._keys)), now)
        return placed

    def claim(self, now: float) -> SimulatedClaim | None:
        claim = self._policy.claim(now)
        if claim is not None:
            del self._keys[claim.document]
            self._running[claim.document] = now
        return claim

    def finish(self, document: int, actual: float, now: float) -> None:
        self._policy.finish(document, actual, now)
        del self._running[document]
        self._pairs.append(FinishedDocument(cost(self._rows[document]), actual))

    def _forecast(self, number: int, now: float) -> None:
        if len(self._running) < self._workers:
            return  # it starts at once: no forecast is needed
        key = self._keys[number]
        before = [other for other, place in self._keys.items() if place < key]
        is_fair = isinstance(self._policy, SimulatedFair)
        behind = key[0] - self._policy.clock.value if is_fair else key[0]  # type: ignore[attr-defined]
        ahead = Ahead(len(before), sum(cost(self._rows[each]) for each in before), behind, is_fair)
        flow = Flow(
            self._workers,
            tuple(
                RunningDocument(now - since, cost(self._rows[each]))
                for each, since in self._running.items()
            ),
            tuple(RecentArrival(now - at, far, work) for at, far, work in self._arrived),
            tuple(self._pairs),
        )
        result = forecast(ahead, flow)
        assert result is not None
        self.forecasts.append(MadeForecast(number, now, result))


def cost(arrival: Arrival) -> float:
    return arrival.seconds if arrival.estimate is None else arrival.estimate


def traffic(
    seed: int, *, load: float, workers: int, noise: float, hours: float = 1.5
) -> list[Arrival]:
    """Customers of all sizes that send bursts, and estimates that are off by `noise`."""
    chance = random.Random(seed)
    rows: list[Arrival] = []
    mean_cost, end = 6.0, hours * 3600
    sizes = [1, 1, 2, 3, 5, 20]
    mean_burst = sum(sizes) / len(sizes)
    at = 0.0
    while at < end:
        at += chance.expovariate(load * workers / (mean_cost * mean_burst))
        customer = f"c{int(chance.paretovariate(0.7)) % 15}"
        for _ in range(chance.choice(sizes)):
            seconds = mean_cost * chance.lognormvariate(-0.32, 0.8)
            off = chance.lognormvariate(-noise * noise / 2, noise)
            rows.append(Arrival(at, customer, seconds, 1.0, seconds * off))
    return rows


class Result(NamedTuple):
    """How good the forecasts of a run were."""

    number: int
    hits: float
    below: float
    above: float
    width: float  # median of the range over the wait


def judged(
    policy: ClassicPolicy | FairRule, rows: list[Arrival], workers: int, seed: int
) -> Result:
    unit = policy.unit if isinstance(policy, FairRule) else 1.0
    forecaster = ForecastingPolicy(policy, workers, OverdueLane(unit=unit), random.Random(seed))
    runs = run_trace(forecaster, rows, workers)
    order = sorted(range(len(rows)), key=lambda row: (rows[row].at, row))
    started = [runs[row].started for row in order]
    below = above = 0
    widths = []
    for document, now, (_, low, high) in forecaster.forecasts:
        wait = started[document] - now
        below += wait < low
        above += wait > high
        widths.append((high - low) / wait if wait > 0 else math.inf)
    number = len(forecaster.forecasts)
    return Result(
        number,
        1 - (below + above) / number,
        below / number,
        above / number,
        sorted(widths)[number // 2],
    )
