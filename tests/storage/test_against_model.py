"""Random histories: every store agrees with the plain model, and wrong stores are found out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from storekit import StoreFactory, histories, postgres_store, sqlite_store
from storemachine import check_against_model

from fairlead.policy.classic import ClassicPolicy, Counter
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.storage.sql.queries import statements


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


WRONG = {
    "last come, first served among customers": changed_sql(
        "first_in_line", "head_seq LIMIT", "head_seq DESC LIMIT"
    ),
    "arrival before priority": changed_sql(
        "first_in_line", "head_rank, head_seq LIMIT", "head_seq LIMIT"
    ),
    "the lane ignores its credit": lane_without_credit,
    "the lane takes the best document": changed_sql(
        "oldest_of_customer", "ORDER BY slot_seq", "ORDER BY slot_rank, slot_seq"
    ),
    "the lane takes the shortest wait": changed_sql(
        "most_overdue", "waits_since, id", "waits_since DESC, id"
    ),
    "the processing cap is ignored": changed_sql(
        "refresh_customer", "customers.processing + ?3 < customers.processing_cap", "TRUE"
    ),
    "a pause is ignored": changed_sql("refresh_customer", "NOT customers.paused", "TRUE"),
    "the pending cap is ignored": changed_sql("select_for_check", "pending_cap,", "NULL,"),
    "a late worker is believed": changed_sql("held_claim", "fence = ?", "? > 0"),
    "a release costs an attempt": changed_sql(
        "requeue_document", "attempts = attempts - ?2", "attempts = attempts - 0 * ?2"
    ),
    "what lay ready costs an attempt": changed_sql(
        "claim_document", "ready = ?4", "ready = ?4 AND FALSE"
    ),
    "suspects lie ready": changed_sql("claim_document", "(attempts = 0 AND NOT suspect)", "TRUE"),
    "nobody is a suspect by a rescue": changed_sql(
        "suspect_document", "suspect = TRUE", "suspect = FALSE"
    ),
    "once a suspect, always a suspect": changed_sql("again_document", "suspect = FALSE, ", ""),
    "urgent documents wait": changed_sql("first_in_line", "ahead IS NOT NULL", "ahead = 1"),
    "a jumper leaves its place to nobody": changed_sql(
        "give_slot", "slot_rank = ?, slot_seq = ?", "slot_rank = ? + 0 * slot_rank, ahead = ?"
    ),
    "a reset comes at the interval": reset_at_the_interval,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_store_is_found_out(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    WRONG[wrong](monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)):
        check_against_model(sqlite_store, max_examples=600, stateful_step_count=50, shrink=False)
