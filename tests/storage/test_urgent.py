"""Urgent documents go before the others of their customer, and other customers are not affected."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storekit import (
    CRASHED,
    DONE,
    Clock,
    RulesInForce,
    StoreFactory,
    StoreUnderTest,
    customers_of,
    fresh_store,
    histories,
    ids,
    must_claim,
    new_document,
    submit,
    submit_one,
    work_off,
)

from fairlead.model.documents import Submission
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.retry import RetryRule
from fairlead.policy.rules import Rules
from fairlead.storage import Store

CUSTOMERS = ("acme", "globex", "initech")
RULES = Rules(
    thresholds=(-1, -2, -4),
    lane=OverdueLane(after=3.0, share=2),
    retry=RetryRule(1000, 2.0, 2.0),  # the same for all documents, whichever was tried how often
    lease=30.0,
)


def test_urgent_documents_go_before_the_others_of_their_customer(store: Store) -> None:
    ordinary = submit(store, "acme", 4)
    urgent = submit(store, "acme", 2, urgent=True)
    assert ids(work_off(store)) == ids(urgent + ordinary)


def test_an_urgent_document_passes_nobody_elses(store: Store) -> None:
    first = submit(store, "globex", 2)
    urgent = submit(store, "acme", urgent=True)
    assert ids(work_off(store)) == ids(first + urgent)


def test_an_urgent_document_takes_the_best_place_of_its_customer(store: Store) -> None:
    submit(store, "acme", 5)
    submit(store, "globex", 3)
    submit(store, "acme", urgent=True)
    places = ["acme"] * 3 + ["globex"] * 3 + ["acme"] * 3
    assert customers_of(work_off(store)) == places


def test_a_displaced_document_gains_nothing_by_being_cancelled_and_queued_again(
    store: Store,
) -> None:
    displaced, *_ = submit(store, "acme", 3)
    submit(store, "acme", 2, urgent=True)  # of priority 2
    submit(store, "globex", 3)
    must_claim(store)  # an urgent one, in the place of the first
    store.cancel(displaced.id)
    store.retry(displaced.id)
    places = ["acme"] * 2 + ["globex"] * 3 + ["acme"] * 2
    assert customers_of(work_off(store)) == places


def test_a_document_displaced_by_the_claim_that_takes_it_stays_displaced(store: Store) -> None:
    """It has the slot of the urgent one, behind that of a later document, and still goes first."""
    documents = submit(store, "acme", 3)
    submit_one(store, "acme", urgent=True)
    claims = store.claim_for(["worker"] * 4)
    assert ids(claims[1:]) == ids(documents)
    store.finish_all([(claim, DONE) for claim in claims[:3]])
    store.release(claims[3:])
    store.reset("acme")
    assert submit_one(store, "acme").priority == 1
    assert must_claim(store).id == documents[2].id


def test_a_document_that_got_a_better_slot_through_the_lane_passes_nobody(
    store: Store, rules: RulesInForce, clock: Clock
) -> None:
    """The lane uses up the oldest slot, and its holder gets that of a displaced document."""
    rules.change(lane=OverdueLane(after=3.0, share=2))
    oldest, *others, later = submit(store, "acme", 4)
    for document in others:
        store.cancel(document.id)
    store.reset("acme")
    urgent = submit_one(store, "acme", urgent=True)
    first = submit_one(store, "acme")
    assert (oldest.priority, later.priority, first.priority) == (1, 2, 1)
    assert must_claim(store).id == urgent.id
    clock.advance(10)
    assert must_claim(store).id == oldest.id
    assert [must_claim(store).id for _ in range(2)] == [first.id, later.id]


def test_an_urgent_document_that_is_released_loses_no_place(store: Store) -> None:
    submit(store, "acme", 3)
    submit(store, "acme", urgent=True)
    submit(store, "globex", 3)
    store.release([must_claim(store)])
    assert customers_of(work_off(store)) == ["acme"] * 3 + ["globex"] * 3 + ["acme"]


class Submit(NamedTuple):
    customer: str
    urgent: tuple[bool, ...]


class Work(NamedTuple):
    outcome: str


class Wait(NamedTuple):
    seconds: float


Step = Submit | Work | Wait

steps = st.lists(
    st.one_of(
        st.builds(
            Submit,
            st.sampled_from(CUSTOMERS),
            st.lists(st.booleans(), min_size=1, max_size=4).map(tuple),
        ),
        st.builds(Work, st.sampled_from(["done", "broken", "released", "kept"])),
        st.builds(Wait, st.sampled_from([0.5, 2.0, 5.0])),
    ),
    min_size=5,
    max_size=40,
)


@pytest.mark.hypothesis
def test_nobody_else_is_affected(store_factory: StoreFactory) -> None:
    """The customers served are the same, in the same order, as with no document urgent."""

    @settings(max_examples=histories(store_factory, 120))
    @given(history=steps, cap=st.sampled_from([None, 1, 2]))
    def agree(history: list[Step], cap: int | None) -> None:
        with (
            fresh_store(store_factory, RULES) as with_urgent,
            fresh_store(store_factory, RULES) as without,
        ):
            assert run(with_urgent, history, cap, urgent=True) == run(
                without, history, cap, urgent=False
            )

    agree()


def run(
    fresh: StoreUnderTest, history: list[Step], cap: int | None, *, urgent: bool
) -> list[str | None]:
    fresh.store.add_customer("acme", processing_cap=cap)
    served = [name for step in history for name in take(fresh, step, urgent=urgent)]
    fresh.clock.advance(1000)
    return served + list(customers_of(work_off(fresh.store)))


def take(fresh: StoreUnderTest, step: Step, *, urgent: bool) -> list[str | None]:
    fresh.clock.advance(0.001)  # of customers that wait since the same moment, the arrival decides
    match step:
        case Submit(customer, flags):
            documents = tuple(new_document(urgent=urgent and flag) for flag in flags)
            fresh.store.submit(Submission(customer, documents))
        case Wait(seconds):
            fresh.clock.advance(seconds)
        case Work(outcome):
            return [work(fresh.store, outcome)]
    return []


def work(store: Store, outcome: str) -> str | None:
    claim = store.claim("worker")
    if claim is None:
        return None
    if outcome == "released":
        store.release([claim])
    elif outcome != "kept":
        store.finish(claim, DONE if outcome == "done" else CRASHED)
    return claim.customer


def test_urgent_keeps_its_meaning_across_a_retry(store: Store) -> None:
    ordinary = submit_one(store, "acme")
    urgent = submit_one(store, "acme", urgent=True)
    store.release([must_claim(store)])
    assert ids(work_off(store)) == [urgent.id, ordinary.id]
