"""The overdue lane: no customer starves, and the lane takes at most its share."""

from __future__ import annotations

import pytest
from storekit import DONE, Clock, RulesInForce, customers_of, must_claim, submit, submit_one

from fairlead.model.documents import Claim
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.storage import Store

AFTER = 100.0


@pytest.fixture(autouse=True)
def a_lane_of_one_in_four(rules: RulesInForce) -> None:
    rules.change(lane=OverdueLane(after=AFTER, share=4))


def earn_credit(store: Store, claims: int = 3) -> None:
    """Claims outside the lane, by a customer that has nothing left afterwards."""
    submit(store, "saver", claims)
    for _ in range(claims):
        store.finish(must_claim(store), DONE)


def steady(store: Store, clock: Clock, rounds: int) -> list[Claim]:
    """Every second another customer sends a document of priority 1, and one is claimed."""
    claims = []
    for number in range(rounds):
        submit(store, f"steady {number}")
        claims.append(must_claim(store))
        store.finish(claims[-1], DONE)
        clock.advance(1)
    return claims


def sunk(store: Store, customer: str, number: int) -> None:
    """Documents of the last priority only."""
    store.add_customer(customer, thresholds=(0, -1, -2, -3, -4, -5))
    submit(store, customer, 7 + number)
    for document in store.documents(customer=customer)[number:]:
        store.cancel(document.id)


def test_a_sunk_customer_goes_first_once_it_is_overdue(store: Store, clock: Clock) -> None:
    sunk(store, "acme", 50)
    assert "acme" not in customers_of(steady(store, clock, int(AFTER) + 1))
    assert customers_of(steady(store, clock, 1)) == ["acme"]


def test_a_lane_that_is_always_wanted_takes_one_in_four(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    rules.change(lane=OverdueLane(after=3.5, share=4))
    sunk(store, "acme", 50)
    clock.advance(1)
    served: list[str] = []
    for _ in range(40):
        if served[-1:] != ["acme"]:  # otherwise the last one still waits
            submit(store, f"steady {len(served)}")
        claim = must_claim(store)
        store.finish(claim, DONE)
        served.append(claim.customer)
        clock.advance(1)
    assert [place for place, name in enumerate(served) if name == "acme"] == [*range(3, 40, 4)]


def test_without_credit_the_lane_is_closed(store: Store, clock: Clock) -> None:
    sunk(store, "acme", 5)
    clock.advance(AFTER + 1)
    submit(store, "globex", 3)
    served = [must_claim(store).customer for _ in range(4)]
    assert served == ["globex", "globex", "globex", "acme"]


def test_credit_never_exceeds_one_document(store: Store, clock: Clock) -> None:
    earn_credit(store, 20)
    sunk(store, "acme", 5)
    clock.advance(AFTER + 1)
    submit(store, "globex", 3)
    assert [must_claim(store).customer for _ in range(3)] == ["acme", "globex", "globex"]


def test_exactly_the_time_is_not_overdue(store: Store, clock: Clock) -> None:
    earn_credit(store)
    sunk(store, "acme", 2)
    clock.advance(AFTER)
    submit(store, "globex", 2)
    assert must_claim(store).customer == "globex"
    clock.advance(0.001)
    assert must_claim(store).customer == "acme"


def test_the_oldest_document_goes_and_not_the_best(store: Store, clock: Clock) -> None:
    sunk(store, "acme", 1)
    (oldest,) = store.documents(customer="acme", state=None, limit=1)
    store.reset("acme")
    best = submit_one(store, "acme")
    earn_credit(store)
    assert best.priority < oldest.priority
    clock.advance(AFTER + 1)
    assert must_claim(store).id == oldest.id
    assert store.events()[-1].data["lane"] is True


def test_the_longest_wait_goes_first(store: Store, clock: Clock) -> None:
    earn_credit(store)
    sunk(store, "later in line", 2)
    clock.advance(1)
    sunk(store, "acme", 2)
    clock.advance(AFTER + 1)
    submit(store, "globex")
    assert must_claim(store).customer == "later in line"


def test_a_start_ends_the_wait(store: Store, clock: Clock) -> None:
    earn_credit(store)
    sunk(store, "acme", 5)
    clock.advance(AFTER + 1)
    assert must_claim(store).customer == "acme"
    earn_credit(store)
    clock.advance(AFTER)
    submit(store, "globex")
    assert must_claim(store).customer == "globex"


@pytest.mark.parametrize("hindrance", ["pause", "cap"])
def test_a_customer_that_may_not_run_is_not_overdue(
    store: Store, clock: Clock, hindrance: str
) -> None:
    submit(store, "acme", 2)
    claim = must_claim(store)
    if hindrance == "pause":
        store.pause("acme")
    else:
        store.set_customer("acme", processing_cap=1)
    earn_credit(store)
    clock.advance(AFTER * 3)
    store.renew([claim])
    submit(store, "globex", 2)
    assert must_claim(store).customer == "globex"
    assert must_claim(store).customer == "globex"
    assert store.claim("worker") is None


def test_without_the_lane_a_sunk_customer_waits(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    rules.change(lane=None)
    sunk(store, "acme", 2)
    clock.advance(AFTER * 100)
    assert "acme" not in customers_of(steady(store, clock, 20))
