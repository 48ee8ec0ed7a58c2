"""The simulator under the fair rule against an exact model, written from the text of the rule."""

from __future__ import annotations

from typing import Any

from fairkit import arrivals_of, lane_of, rule_of, traces, worlds
from fairmodel import Model, Row, World
from hypothesis import given, settings

from fairlead.core.fair import FairRule
from fairlead.core.lane import OverdueLane
from fairlead.sim import Run, simulate


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


@settings(max_examples=500, deadline=None)
@given(traces(), worlds)
def test_simulator_and_exact_model_agree(rows: list[Row], world: World) -> None:
    assert product(rows, world) == model(rows, world)
