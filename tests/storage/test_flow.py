"""The recent work that the store gives to the forecast."""

from __future__ import annotations

import pytest
from storekit import DONE, LEASE, Clock, RulesInForce, must_claim, new_document, submit

from fairlead.model.documents import Moved, Submission
from fairlead.model.engines import EngineReport, StepUse
from fairlead.model.results import Interim
from fairlead.model.states import State
from fairlead.policy.forecast import Outlook
from fairlead.policy.serving import SharedPlaces
from fairlead.storage import Store

FOUND = Interim(("read", "pull:vision"), 1, kind="pdf", facts={"pages": 2})

pytestmark = pytest.mark.postgres_differs


def last_outlook(store: Store) -> Outlook:
    outlook = store.outlook(store.documents(state=State.WAITING)[0].id)
    assert outlook is not None
    return outlook


def test_it_tells_of_capacity_arrivals_and_claims(store: Store, clock: Clock) -> None:
    submit(store, "acme", 4)
    assert last_outlook(store).flow.serving.served == frozenset()
    store.attend("engine", 3)
    claim = must_claim(store)
    clock.advance(7)
    store.finish(claim, DONE._replace(seconds=7.0))
    must_claim(store)
    clock.advance(5)
    outlook = last_outlook(store)
    assert outlook.flow.serving.servers == (SharedPlaces(3, frozenset(["default"])),)
    assert [(hold.began, hold.ended, hold.waited) for hold in outlook.flow.holds[:2]] == [
        (-5.0, None, 7.0),
        (-12.0, -5.0, 0.0),
    ]
    arrivals = [(arrival.age, arrival.behind) for arrival in outlook.flow.arrived]
    assert arrivals == [(12.0, 2.0), (12.0, 1.0), (12.0, 1.0), (12.0, 1.0)]
    assert [document.queue for document in outlook.before] == ["default"]


def test_a_document_that_moves_on_is_measured_in_each_queue(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    claim = must_claim(store)
    clock.advance(2)
    store.finish(claim, Moved("default/pull:vision", FOUND, 2.0))
    clock.advance(10)
    claim = must_claim(store)
    clock.advance(3)
    store.finish(claim, DONE._replace(seconds=5.0))
    submit(store, "acme")
    holds = last_outlook(store).flow.holds[:2]
    assert [(hold.queue, hold.began, hold.ended, hold.waited) for hold in holds] == [
        ("default/pull:vision", -3.0, 0.0, 10.0),
        ("default", -15.0, -13.0, 0.0),
    ]


def test_those_that_a_cap_holds_back_count_for_the_forecast_only(store: Store) -> None:
    store.attend("engine", 2)
    submit(store, "acme", 3)
    store.set_customer("acme", processing_cap=1)
    must_claim(store)
    submit(store, "globex", 7)
    outlook = last_outlook(store)
    assert (outlook.place.other_documents, outlook.place.own_documents) == (0, 6)
    assert len(outlook.before) == 8, "the two of acme have a better priority"
    assert outlook.flow.caps == {outlook.before[0].customer: 1}


def test_arrivals_of_paused_customers_do_not_count(store: Store) -> None:
    submit(store, "acme", 3)
    submit(store, "globex")
    store.pause("acme")
    assert len(last_outlook(store).flow.arrived) == 1


def test_arrivals_are_expected_at_the_priorities_they_would_get_now(
    store: Store, clock: Clock
) -> None:
    """Regression: the first documents of a customer that keeps submitting counted as urgent."""
    submit(store, "acme", 20)
    submit(store, "globex")
    store.set_customer("globex", thresholds=(0, -20))
    clock.advance(400)
    submit(store, "acme")
    submit(store, "globex")
    behind = [arrival.behind for arrival in last_outlook(store).flow.arrived]
    assert behind == [2.0, 9.0, 2.0, *[9.0] * 20]


def test_under_fair_arrivals_lie_ahead_of_the_clock(store: Store, rules: RulesInForce) -> None:
    rules.change(policy="fair", unit=0.001)
    submit(store, "acme", 3)
    outlook = last_outlook(store)
    behind = [arrival.behind for arrival in outlook.flow.arrived]
    assert behind[0] > behind[1] > behind[2] == 0.0
    assert outlook.place.own_seconds == outlook.place.seconds > 0


def test_the_last_document_of_each_queue_is_the_last_in_its_order(
    store: Store, clock: Clock
) -> None:
    ninth = submit(store, "acme", 30)[-1]
    clock.advance(10_000)
    submit(store, "acme")  # priority 1 again
    invoice = new_document()._replace(pipeline="invoices")
    (other,) = store.submit(Submission("acme", (invoice,)))
    assert set(store.last_waiting("acme")) == {other.id, ninth.id}


def test_engines_report_their_steps_until_their_attendance_ends(store: Store, clock: Clock) -> None:
    uses = (StepUse("read", 4, 1), StepUse("crm:post", 0, 0, "there is no module crm"))
    store.attend("engine", 4, ["default"], uses)
    assert store.engines() == [EngineReport("engine", 4, ("default",), uses)]
    store.attend("engine", 2, ["default", "crm"])
    assert store.engines() == [EngineReport("engine", 2, ("default", "crm"))]
    clock.advance(LEASE + 1)
    assert store.engines() == []
