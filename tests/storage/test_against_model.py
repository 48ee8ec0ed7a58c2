"""Random histories: every store agrees with the plain model, and wrong stores are found out.

Each wrong store comes with the shortest history that finds it. `make test` replays that history;
`make faults` searches for one again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from storekit import DONE, StoreFactory, histories, postgres_store, sqlite_store
from storemachine import Step, check_against_model, replay

from fairlead.model.customers import Counter
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.storage.sql.queries import statements


@pytest.mark.hypothesis
def test_a_store_agrees_with_the_model(store_factory: StoreFactory) -> None:
    number = histories(store_factory, 120)
    check_against_model(store_factory, max_examples=number, stateful_step_count=50)


@pytest.mark.faults
def test_the_store_on_a_server_agrees_with_the_model_in_many_histories() -> None:
    check_against_model(postgres_store, max_examples=120, stateful_step_count=50)


Mutation = Callable[[pytest.MonkeyPatch], None]


def changed_sql(name: str, old: str, new: str) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        right = statements()[name]
        assert old in right, f"the statement {name} has no {old!r}: this test needs a new one"
        patch.setitem(statements(), name, right.replace(old, new))

    return mutate


def lane_without_credit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OverdueLane, "is_open", lambda self, credit, cost=1.0: True)


def reset_at_the_interval(patch: pytest.MonkeyPatch) -> None:
    def is_reset(self: ClassicPolicy, counter: Counter, *, now: float) -> bool:
        return now - counter.updated_at >= self.reset_interval

    patch.setattr(ClassicPolicy, "is_reset", is_reset)


class Wrong(NamedTuple):
    """What makes a store wrong, and the shortest history that shows it."""

    mutate: Mutation
    history: list[Step]


def step(name: str, **arguments: Any) -> Step:
    return name, arguments


def submit(customer: str, number: int = 1, urgent: int = 0) -> Step:
    """So many documents, and so many urgent ones after them."""
    return step("submit", customer=customer, flags=[False] * number + [True] * urgent)


def claim() -> Step:
    return step("claim", worker="anna")


def ahead(worker: str, free: int = 0) -> Step:
    """Claims for free slots, and one beforehand."""
    return step("claim_ahead", worker=worker, free=free, ahead=1)


def advance(seconds: float) -> Step:
    return step("advance", seconds=seconds)


def own(customer: str, **settings: Any) -> Step:
    return step("set_customer", customer=customer, changes=settings)


COME_LATE = step("come_late", outcome=DONE)

WRONG = {
    "last come, first served among customers": Wrong(
        changed_sql("first_in_line", "head_seq LIMIT", "head_seq DESC LIMIT"),
        [submit("globex"), submit("acme"), step("work_off_some", times=1)],
    ),
    "arrival before priority": Wrong(
        changed_sql("first_in_line", "head_rank, head_seq LIMIT", "head_seq LIMIT"),
        [submit("acme", 3), submit("globex"), step("work_off_some", times=3)],
    ),
    "the lane ignores its credit": Wrong(
        lane_without_credit,
        [submit("acme", 2, urgent=1), ahead("anna"), *[advance(2.0)] * 3, claim()],
    ),
    "the lane takes the best document": Wrong(
        changed_sql("oldest_of_customer", "ORDER BY slot_seq", "ORDER BY slot_rank, slot_seq"),
        [
            submit("initech", 3),
            step("reset", customer="initech"),
            step("work_off_some", times=2),
            submit("initech"),
            COME_LATE,
        ],
    ),
    "the lane takes the shortest wait": Wrong(
        changed_sql("most_overdue", "waits_since, id", "waits_since DESC, id"),
        [submit("globex"), ahead("anna"), submit("acme"), advance(2.0), COME_LATE],
    ),
    "the processing cap is ignored": Wrong(
        changed_sql(
            "refresh_customer", "customers.processing + ?3 < customers.processing_cap", "TRUE"
        ),
        [own("acme", processing_cap=1), submit("acme"), claim(), submit("acme"), claim()],
    ),
    "a pause is ignored": Wrong(
        changed_sql("refresh_customer", "NOT customers.paused", "TRUE"),
        [
            submit("acme"),
            submit("globex"),
            step("pause_or_resume", customer="acme", paused=True),
            claim(),
        ],
    ),
    "the pending cap is ignored": Wrong(
        changed_sql("select_for_check", "pending_cap,", "NULL,"),
        [own("initech", pending_cap=3), submit("initech", 4)],
    ),
    "a late worker is believed": Wrong(
        changed_sql("held_claim", "fence = ?", "? > 0"),
        [submit("acme", 4), ahead("anna", free=2), COME_LATE, step("release", back=4)],
    ),
    "a release costs an attempt": Wrong(
        changed_sql("requeue_document", "attempts = attempts - ?2", "attempts = attempts - 0 * ?2"),
        [submit("acme"), claim(), step("release", back=0)],
    ),
    "what lay ready costs an attempt": Wrong(
        changed_sql("claim_document", "ready = ?4", "ready = ?4 AND FALSE"),
        [submit("acme"), ahead("bert"), step("rescue_from", worker="bert")],
    ),
    "suspects lie ready": Wrong(
        changed_sql("claim_document", "(attempts = 0 AND NOT suspect)", "TRUE"),
        [submit("acme"), claim(), step("rescue_from", worker="anna"), ahead("anna")],
    ),
    "nobody is a suspect by a rescue": Wrong(
        changed_sql("suspect_document", "suspect = TRUE", "suspect = FALSE"),
        [submit("acme"), ahead("anna"), COME_LATE],
    ),
    "once a suspect, always a suspect": Wrong(
        changed_sql("retry_document", "suspect = FALSE, ", ""),
        [
            submit("acme"),
            claim(),
            step("rescue_from", worker="anna"),
            step("cancel", back=0),
            step("retry", back=0),
            ahead("anna"),
        ],
    ),
    "urgent documents wait": Wrong(
        changed_sql("first_in_line", "ahead IS NOT NULL", "ahead = 1"),
        [submit("acme", urgent=1), claim()],
    ),
    "a jumper leaves its place to nobody": Wrong(
        changed_sql(
            "give_slot", "slot_rank = ?, slot_seq = ?", "slot_rank = ? + 0 * slot_rank, ahead = ?"
        ),
        [submit("acme", urgent=1), claim(), COME_LATE],
    ),
    "a reset comes at the interval": Wrong(
        reset_at_the_interval, [submit("acme"), advance(10.0), submit("acme")]
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_right_store_passes_the_history_that_finds_a_wrong_one(
    store_factory: StoreFactory, name: str
) -> None:
    replay(store_factory, WRONG[name].history)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_store_is_found_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    WRONG[name].mutate(monkeypatch)
    with pytest.raises(AssertionError):
        replay(sqlite_store, WRONG[name].history)


@pytest.mark.faults
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_store_is_found_by_search(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    WRONG[name].mutate(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)):
        check_against_model(sqlite_store, max_examples=600, stateful_step_count=50, shrink=False)
