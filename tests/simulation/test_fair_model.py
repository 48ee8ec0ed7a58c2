"""The simulator under the fair rule against an exact model, written from the text of the rule."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pytest
from fair_recorder import arrivals_of, lane_of, rule_of, traces, worlds
from fairmodel import Model, Row, World
from hypothesis import given, settings
from hypothesis_profiles import examples
from msgspec.structs import replace

from fairlead.model.customers import Tags
from fairlead.policy.fair import Clock, FairRule, Placed
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.policies import SimulatedFair
from fairlead.simulation.queue import SimulatedClaim
from fairlead.simulation.simulate import Run, run_trace, simulate
from fairlead.simulation.trace import Arrival


def product(
    rows: list[Row],
    world: World,
    rule: type[FairRule] = FairRule,
    lane: type[OverdueLane] = OverdueLane,
) -> list[Run]:
    return simulate(arrivals_of(rows), rule_of(world, rule), world.workers, lane_of(world, lane))


def model(rows: list[Row], world: World) -> list[Run]:
    docs: list[Any] = Model(world).run(rows)
    return [Run(doc.count, doc.priority, doc.started, doc.finished, doc.lane) for doc in docs]


@settings(max_examples=examples(500))
@given(traces(), worlds)
def test_simulator_and_exact_model_agree(rows: list[Row], world: World) -> None:
    assert product(rows, world) == model(rows, world)


class ResetsAtTheInterval(FairRule):
    def is_reset(self, tags: Tags, *, now: float, has_pending: bool) -> bool:
        return not has_pending and now - tags.submitted_at >= self.reset_interval


class ResetsThePending(FairRule):
    def is_reset(self, tags: Tags, *, now: float, has_pending: bool) -> bool:
        return super().is_reset(tags, now=now, has_pending=False)


class NeverResets(FairRule):
    def is_reset(self, tags: Tags, *, now: float, has_pending: bool) -> bool:
        return False


class StandingClock(FairRule):
    def advanced(self, clock: Clock, *, now: float, workers: int, backlog: float) -> Clock:
        return super().advanced(clock, now=now, workers=workers, backlog=0)


class OneWorkersClock(FairRule):
    def advanced(self, clock: Clock, *, now: float, workers: int, backlog: float) -> Clock:
        return super().advanced(clock, now=now, workers=1, backlog=backlog)


class ClockWithoutWeights(FairRule):
    def advanced(self, clock: Clock, *, now: float, workers: int, backlog: float) -> Clock:
        return super().advanced(clock, now=now, workers=workers, backlog=min(1, backlog))


class ClockThatForgetsPauses(FairRule):
    def advanced(self, clock: Clock, *, now: float, workers: int, backlog: float) -> Clock:
        return (
            super().advanced(clock, now=now, workers=workers, backlog=backlog) if backlog else clock
        )


class NoRest(FairRule):
    def when_idle(self, clock: Clock, highest_finish: float) -> Clock:
        return clock


class RestGoesBack(FairRule):
    def when_idle(self, clock: Clock, highest_finish: float) -> Clock:
        return replace(clock, value=highest_finish)


class ClaimsDoNotMove(FairRule):
    def claimed(self, clock: Clock, tag: float) -> Clock:
        return clock


class ClaimsGoBack(FairRule):
    def claimed(self, clock: Clock, tag: float) -> Clock:
        return replace(clock, value=tag)


class Submits(FairRule):
    """A base for wrong submissions: what is submitted is changed on the way."""

    def submit(
        self,
        tags: Tags | None,
        clock: Clock,
        *,
        cost: float,
        weight: float,
        now: float,
        has_pending: bool,
    ) -> Placed:
        tags, cost, weight = self.changed(tags, clock, cost, weight)
        return super().submit(
            tags, clock, cost=cost, weight=weight, now=now, has_pending=has_pending
        )

    def changed(
        self, tags: Tags | None, clock: Clock, cost: float, weight: float
    ) -> tuple[Tags | None, float, float]:
        raise NotImplementedError


class ForgetsCustomers(Submits):
    def changed(
        self, tags: Tags | None, clock: Clock, cost: float, weight: float
    ) -> tuple[Tags | None, float, float]:
        return None, cost, weight


class AllWeighOne(Submits):
    def changed(
        self, tags: Tags | None, clock: Clock, cost: float, weight: float
    ) -> tuple[Tags | None, float, float]:
        return tags, cost, 1


class AllCostAUnit(Submits):
    def changed(
        self, tags: Tags | None, clock: Clock, cost: float, weight: float
    ) -> tuple[Tags | None, float, float]:
        return tags, self.unit, weight


class KeepsOldTime(Submits):
    def changed(
        self, tags: Tags | None, clock: Clock, cost: float, weight: float
    ) -> tuple[Tags | None, float, float]:
        return tags and replace(tags, submitted_at=-100), cost, weight


class SavesUpTime(FairRule):
    """Who was away gets all that it missed: its tag lies behind the clock."""

    def submit(
        self,
        tags: Tags | None,
        clock: Clock,
        *,
        cost: float,
        weight: float,
        now: float,
        has_pending: bool,
    ) -> Placed:
        behind = clock if tags is None else replace(clock, value=min(clock.value, tags.finish))
        return super().submit(
            tags, behind, cost=cost, weight=weight, now=now, has_pending=has_pending
        )


class NoCorrection(FairRule):
    def corrected(self, tags: Tags, *, estimate: float, actual: float, weight: float) -> Tags:
        return tags


class CorrectionWithoutWeight(FairRule):
    def corrected(self, tags: Tags, *, estimate: float, actual: float, weight: float) -> Tags:
        return super().corrected(tags, estimate=estimate, actual=actual, weight=1)


class CorrectionWithoutFloor(FairRule):
    def corrected(self, tags: Tags, *, estimate: float, actual: float, weight: float) -> Tags:
        return replace(tags, finish=tags.finish + (actual - estimate) / weight)


class RoundsUp(FairRule):
    def shown_count(self, tag: float, clock: Clock) -> int:
        return -math.ceil(max(0, tag - clock.value) / self.unit)


class FreeLane(OverdueLane):
    def is_open(self, credit: float, cost: float = 1.0) -> bool:
        return True


class LaneThatNeedsTheWholeCost(OverdueLane):
    def is_open(self, credit: float, cost: float = 1.0) -> bool:
        return credit >= (self.share - 1) * cost


class LaneWithoutCosts(OverdueLane):
    def earn(self, credit: float, cost: float = 1.0) -> float:
        return super().earn(credit, self.unit)

    def spend(self, credit: float, cost: float = 1.0) -> float:
        return super().spend(credit, self.unit)


class BoundlessLane(OverdueLane):
    def earn(self, credit: float, cost: float = 1.0) -> float:
        return credit + cost


class LaneThatForgives(OverdueLane):
    def spend(self, credit: float, cost: float = 1.0) -> float:
        return max(0, super().spend(credit, cost))


class EarlyLane(OverdueLane):
    def overdue_before(self, now: float) -> float:
        return super().overdue_before(now) + Fraction(1, 1000)


class LaneMovesTheClock(SimulatedFair):
    def claim(self, now: float) -> SimulatedClaim | None:
        claim = super().claim(now)
        if claim is not None and claim.lane:
            self.clock = self._rule.claimed(self.clock, self.documents[claim.document].tag)
        return claim


class OnlyWaitingIsPending(SimulatedFair):
    def claim(self, now: float) -> SimulatedClaim | None:
        claim = super().claim(now)
        if claim is not None:
            self.documents[claim.document].account.processing -= 1
        return claim

    def finish(self, document: int, actual: float, now: float) -> None:
        self.documents[document].account.processing += 1
        super().finish(document, actual, now)


class WorkingCountsAsBacklog(SimulatedFair):
    def claim(self, now: float) -> SimulatedClaim | None:
        before = self.backlog
        claim = super().claim(now)
        self.backlog = before
        return claim


BROKEN: list[type[FairRule] | type[OverdueLane] | type[SimulatedFair]] = [
    ResetsAtTheInterval,
    ResetsThePending,
    NeverResets,
    StandingClock,
    OneWorkersClock,
    ClockWithoutWeights,
    ClockThatForgetsPauses,
    NoRest,
    RestGoesBack,
    ClaimsDoNotMove,
    ClaimsGoBack,
    ForgetsCustomers,
    AllWeighOne,
    AllCostAUnit,
    KeepsOldTime,
    SavesUpTime,
    NoCorrection,
    CorrectionWithoutWeight,
    CorrectionWithoutFloor,
    RoundsUp,
    FreeLane,
    LaneThatNeedsTheWholeCost,
    LaneWithoutCosts,
    BoundlessLane,
    LaneThatForgives,
    EarlyLane,
    LaneMovesTheClock,
    OnlyWaitingIsPending,
    WorkingCountsAsBacklog,
]


def telling_rows(seed: int) -> list[Row]:
    """Bursts, long documents, wrong estimates, pauses and weights, by chance."""
    chance = random.Random(seed)
    rows = []
    for _ in range(chance.randint(3, 9)):
        one = Row(
            Fraction(chance.randint(0, 60)),
            chance.choice("abcd"),
            Fraction(chance.randint(0, 8)),
            chance.choice([Fraction(1), Fraction(1), Fraction(2), Fraction(1, 3)]),
            chance.choice([None, None, Fraction(0), Fraction(2), Fraction(12)]),
        )
        rows += [one] * chance.choice([1, 1, 2, 6])
    return rows


def telling_world(seed: int) -> World:
    chance = random.Random(-1 - seed)
    return World(
        workers=chance.randint(1, 3),
        unit=Fraction(chance.choice([2, 3, 6])),
        interval=Fraction(chance.choice([4, 10, 20])),
        after=Fraction(chance.choice([3, 8, 25])),
        share=chance.choice([2, 4]),
    )


@pytest.fixture(scope="module")
def truth() -> list[tuple[list[Row], World, list[Run]]]:
    cases = [(telling_rows(seed), telling_world(seed)) for seed in range(250)]
    return [(rows, world, model(rows, world)) for rows, world in cases]


def outcome(rows: list[Row], world: World, kind: type[Any]) -> list[Run]:
    if issubclass(kind, FairRule):
        return product(rows, world, rule=kind)
    if issubclass(kind, OverdueLane):
        return product(rows, world, lane=kind)
    return run_trace(
        kind(rule_of(world), world.workers, lane_of(world)), arrivals_of(rows), world.workers
    )


@pytest.mark.parametrize("kind", [FairRule, OverdueLane, SimulatedFair])
def test_the_true_rules_agree_on_all_telling_traces(kind: type[Any], truth: list[Any]) -> None:
    assert all(outcome(rows, world, kind) == runs for rows, world, runs in truth)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_rule_is_caught(kind: type[Any], truth: list[Any]) -> None:
    assert any(outcome(rows, world, kind) != runs for rows, world, runs in truth)


@pytest.mark.slow
def test_a_hundred_thousand_rows_take_seconds_not_minutes() -> None:
    rows = [Arrival(float(n // 7), f"c{n * n % 401}", 0.3, 1.0 + n % 3) for n in range(100_000)]
    assert len(simulate(rows, FairRule(), 2, OverdueLane(unit=6.0))) == len(rows)
