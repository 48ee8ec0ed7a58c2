"""The recent work that the store gives to the forecast."""

from __future__ import annotations

import pytest
from storekit import DONE, LEASE, Clock, RulesInForce, must_claim, submit

from fairlead.model.engines import EngineReport, StepUse
from fairlead.policy.forecast import FinishedDocument
from fairlead.storage import Store

pytestmark = pytest.mark.postgres_differs


def test_it_tells_of_workers_arrivals_and_costs(store: Store, clock: Clock) -> None:
    assert store.flow().workers == 0
    store.attend("engine", 3)
    submit(store, "acme", 4)
    store.finish(must_claim(store), DONE._replace(seconds=7.0))
    must_claim(store)
    clock.advance(5)
    flow = store.flow()
    assert flow.workers == 3
    assert [running.elapsed for running in flow.running] == [5.0]
    assert [(arrival.age, arrival.behind) for arrival in flow.arrived] == [
        *((5.0, 2.0), (5.0, 1.0), (5.0, 1.0), (5.0, 1.0))
    ]
    estimate = store.documents()[-1].estimate
    assert flow.finished == (FinishedDocument(estimate, 7.0),)


def test_under_fair_arrivals_lie_ahead_of_the_clock(store: Store, rules: RulesInForce) -> None:
    rules.change(policy="fair", unit=0.001)
    submit(store, "acme", 3)
    behind = [arrival.behind for arrival in store.flow().arrived]
    assert behind[0] > behind[1] > behind[2] == 0.0
    place = store.place(store.documents()[0].id)
    assert place is not None
    assert place.own_seconds == place.seconds > 0


def test_engines_report_their_steps_until_their_attendance_ends(store: Store, clock: Clock) -> None:
    uses = (StepUse("read", 4, 1), StepUse("crm:post", 0, 0, "there is no module crm"))
    store.attend("engine", 4, ["default"], uses)
    assert store.engines() == [EngineReport("engine", 4, ("default",), uses)]
    store.attend("engine", 2, ["default", "crm"])
    assert store.engines() == [EngineReport("engine", 2, ("default", "crm"))]
    clock.advance(LEASE + 1)
    assert store.engines() == []
