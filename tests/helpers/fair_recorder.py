"""The simulated fair policy with exact numbers, and a record of everything that happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from fairmodel import Row, World
from hypothesis import strategies as st

from fairlead.policy.fair import FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.policies import Placement, SimulatedFair
from fairlead.simulation.queue import SimulatedClaim
from fairlead.simulation.simulate import Run, run_trace
from fairlead.simulation.trace import Arrival

# The product's types say float; fractions behave alike and are exact.
Exact = Any


def rule_of(world: World, kind: type[FairRule] = FairRule) -> FairRule:
    unit: Exact = world.unit
    theta: Exact = world.theta
    return kind(unit=unit, theta=theta, reset_interval=float(world.interval))


def lane_of(world: World, kind: type[OverdueLane] = OverdueLane) -> OverdueLane | None:
    after: Exact = world.after
    unit: Exact = world.unit
    return None if after is None else kind(after=after, share=world.share, unit=unit)


def arrivals_of(rows: list[Row]) -> list[Arrival]:
    exact: Exact = rows
    return [Arrival(row.at, row.customer, row.seconds, row.weight, row.estimate) for row in exact]


class Taken(NamedTuple):
    """A claim: which document, when, and whether through the lane."""

    document: int
    at: Fraction
    lane: bool


class Point(NamedTuple):
    """The virtual clock after something happened, and how fast it goes from there."""

    at: Fraction
    value: Fraction
    pace: Fraction

    def meets(self, tag: Fraction) -> Fraction | None:
        """When the clock would reach the tag if nothing else happened."""
        if self.value >= tag:
            return self.at
        return self.at + (tag - self.value) / self.pace if self.pace else None


@dataclass
class Accepted:
    """A document as it was accepted. `clock` is the virtual clock at that moment."""

    number: int
    row: int
    customer: str
    at: Fraction
    seconds: Fraction
    cost: Fraction
    weight: Fraction
    tag: Fraction
    clock: Fraction
    point: int  # the place in `points` from which its wait runs
    started: Fraction = Fraction(0)
    finished: Fraction = Fraction(0)
    lane: bool = False


@dataclass
class History:
    """All that happened in one run, in order."""

    world: World
    accepted: list[Accepted] = field(default_factory=list)
    events: list[Accepted | Taken] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def claims(self) -> list[Taken]:
        return [event for event in self.events if isinstance(event, Taken)]

    def reaches(self, document: Accepted) -> Fraction | None:
        """When the virtual clock reached the document's tag; None: it started before that."""
        following = [*self.points[document.point + 1 :], None]
        for point, after in zip(self.points[document.point :], following, strict=True):
            time = point.meets(document.tag)
            if point.at > document.started:
                return None
            if time is not None and (after is None or time <= after.at):
                return time if time <= document.started else None
        return None

    def unfinished(self, at: Fraction) -> Fraction:
        """Q: the seconds of work that all documents accepted by `at` still need then."""
        return sum((rest(doc, at) for doc in self.accepted if doc.at <= at), Fraction(0))


def rest(doc: Accepted, at: Fraction) -> Fraction:
    return min(doc.seconds, max(Fraction(0), doc.finished - at))


class RecordingFair(SimulatedFair):
    """The simulated fair policy; records what it does."""

    def __init__(self, world: World, kind: type[FairRule] = FairRule) -> None:
        super().__init__(rule_of(world, kind), world.workers, lane_of(world))
        self.history = History(world)

    def accept(self, arrival: Arrival, now: Exact) -> Placement:
        self.advance_clock(now)
        placement = super().accept(arrival, now)
        tagged: Exact = self.documents[-1]
        seconds: Exact = arrival.seconds
        clock: Exact = self.clock.value
        number = len(self.documents) - 1
        self.point(now)
        where = len(self.history.points) - 1
        document = Accepted(
            number, -1, arrival.customer, now, seconds, tagged.cost, tagged.weight, tagged.tag,
            clock, where,
        )  # fmt: skip
        self.history.accepted.append(document)
        self.history.events.append(document)
        return placement

    def claim(self, now: Exact) -> SimulatedClaim | None:
        claim = super().claim(now)
        if claim is not None:
            document = self.history.accepted[claim.document]
            document.started, document.lane = now, claim.lane
            document.finished = now + document.seconds
            self.history.events.append(Taken(claim.document, now, claim.lane))
            self.point(now)
        return claim

    def finish(self, document: int, actual: float, now: Exact) -> None:
        super().finish(document, actual, now)
        self.point(now)

    def point(self, now: Exact) -> None:
        world, value, backlog = self.history.world, Fraction(self.clock.value), self.backlog
        pace = world.theta * world.workers / Fraction(backlog) if backlog else Fraction(0)
        self.history.points.append(Point(Fraction(now), value, pace))


def watched(rows: list[Row], world: World, kind: type[FairRule] = FairRule) -> History:
    """The history of a run."""
    policy = RecordingFair(world, kind)
    policy.history.runs = run_trace(policy, arrivals_of(rows), world.workers)
    return policy.history


def _fractions(*values: str | int) -> st.SearchStrategy[Fraction]:
    return st.sampled_from([Fraction(value) for value in values])


weights = _fractions(1, 1, 2, 3, "1/2", "1/3")
times = st.integers(0, 60).map(lambda halves: Fraction(halves, 2))
lengths = st.integers(0, 6).map(Fraction)
estimates = st.none() | st.integers(0, 9).map(Fraction)


def traces(
    estimate: st.SearchStrategy[Fraction | None] = estimates,
    length: st.SearchStrategy[Fraction] = lengths,
    *,
    most: int = 40,
) -> st.SearchStrategy[list[Row]]:
    """Single documents and bursts, mixed; a weight may change from row to row."""
    row = st.builds(Row, times, st.sampled_from("abcd"), length, weights, estimate)
    burst = st.tuples(row, st.integers(1, 9)).map(lambda pair: [pair[0]] * pair[1])
    mixed = st.lists(burst | row.map(lambda one: [one]), min_size=1, max_size=12)
    return mixed.map(lambda several: [row for some in several for row in some][:most])


worlds = st.builds(
    World,
    workers=st.integers(1, 4),
    unit=_fractions(1, 2, 6, "3/2"),
    theta=_fractions("1/2", "1/2", 0, 1),
    interval=_fractions(0, 1, 5, 1500),
    after=st.none() | _fractions(0, 1, 4, 12),
    share=st.sampled_from([2, 3, 4]),
)
