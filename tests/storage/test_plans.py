"""The claim stays flat: no statement of it looks at more rows when more documents wait."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import pytest
from storekit import (
    DAMAGED,
    DONE,
    LEASE,
    Clock,
    RulesInForce,
    busy_day,
    fast_folder,
    must_claim,
    new_document,
    submission,
    submit,
)

from fairlead.model.documents import NewDocument, Submission
from fairlead.model.pipelines import DEFAULT_PIPELINE, Pipeline
from fairlead.model.states import State
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName
from fairlead.policy.rules import Rules
from fairlead.storage.sql import reads
from fairlead.storage.sql.queries import sql
from fairlead.storage.sqlite import SqliteStore

MILLION, MANY, FEW = 1_000_000, 5_000, 100
GROWS = re.compile(
    r"SCAN (documents|customers|waiting|delayed|running|originals|results|events|queue_\w+s)"
    r"|SCAN [acdemrwy]\b"
    r"|TEMP B-TREE"
)


POLICIES: list[PolicyName] = ["classic", "fair"]


@contextmanager
def filled(
    number: int,
    *,
    customers: int = 50,
    urgent: int = 0,
    policy: PolicyName = "classic",
    pipeline: str = DEFAULT_PIPELINE,
) -> Iterator[SqliteStore]:
    """A store with this number of waiting documents, some of them urgent."""

    def documents(number: int) -> tuple[NewDocument, ...]:
        new = (new_document(urgent=n < urgent) for n in range(number))
        return tuple(document._replace(pipeline=pipeline) for document in new)

    lane = OverdueLane(after=5.0, share=2)
    rules = RulesInForce(Rules(policy=policy, unit=0.01, lease=LEASE, lane=lane))
    with fast_folder() as folder:
        store = SqliteStore(folder / "fairlead.db", rules=rules, clock=Clock())
        at_once = max(1, customers * MANY // number)
        for first in range(0, customers, at_once):
            store.submit_each(
                [
                    Submission(f"customer {index}", documents(number // customers))
                    for index in range(first, min(customers, first + at_once))
                ]
            )
        yield store
        store.close()


@pytest.fixture(
    scope="module",
    params=[
        *((policy, MANY) for policy in POLICIES),
        *(pytest.param((policy, MILLION), marks=pytest.mark.faults) for policy in POLICIES),
    ],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def large(request: pytest.FixtureRequest) -> Iterator[SqliteStore]:
    policy, number = request.param
    with filled(number, urgent=10, policy=policy) as store:
        yield store


def a_day(store: SqliteStore) -> None:
    assert isinstance(store._clock, Clock)
    busy_day(store, store._clock)


def plans_of(store: SqliteStore, action: Callable[[SqliteStore], None]) -> dict[str, list[str]]:
    """The plan of each statement that the store's writer runs for the action."""
    seen: dict[str, Any] = {}

    def note(_: apsw.Cursor, statement: str, bindings: Any) -> bool:
        seen[statement] = bindings
        return True

    writer = store._writer._connection
    writer.exec_trace = note
    try:
        action(store)
    finally:
        writer.exec_trace = None
    return {text: plan(writer, text, bindings) for text, bindings in seen.items()}


def plan(connection: apsw.Connection, statement: str, bindings: Any = None) -> list[str]:
    return [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + statement, bindings)]


def is_bounded(statement: str) -> bool:
    """Lists of values are short; events are folded; a broken bound is rare and counted once."""
    rare = (sql("unfolded_events"), sql("number_of_entries"), sql("delete_queue_events"))
    return "json_each" in statement or statement in rare


def test_no_statement_of_claim_settle_and_submit_grows(large: SqliteStore) -> None:
    plans = plans_of(large, a_day)
    growing = {
        statement
        for statement, lines in plans.items()
        if any(map(GROWS.search, lines)) and not is_bounded(statement)
    }
    assert growing == set()
    assert len(plans) >= 25, "the day was not busy enough to show all statements"


def test_the_watch_for_growing_plans_can_see_one(large: SqliteStore) -> None:
    lines = plan(large._writer._connection, "SELECT * FROM documents ORDER BY sha256")
    assert any(map(GROWS.search, lines))


def steps(store: SqliteStore, action: Callable[[], object]) -> int:
    """How many steps SQLite's machine makes for the action: the same on every computer."""
    number = 0

    def step() -> bool:
        nonlocal number
        number += 1
        return False

    writer = store._writer._connection
    writer.set_progress_handler(step, 1)
    try:
        action()
    finally:
        writer.set_progress_handler(None)
    assert number > 50, "these steps were not counted"
    return number


def steps_of_work(store: SqliteStore) -> int:
    must_claim(store)  # statements are prepared and the lane has credit
    return steps(store, lambda: store.finish(must_claim(store), DONE))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("urgent", [0, 1])
def test_a_claim_takes_the_same_steps_with_few_and_many(urgent: int, policy: PolicyName) -> None:
    with (
        filled(FEW, urgent=urgent, policy=policy) as few,
        filled(MANY, urgent=urgent, policy=policy) as many,
    ):
        assert steps_of_work(many) <= steps_of_work(few) * 1.1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_claim_takes_the_same_steps_with_few_and_many_customers(policy: PolicyName) -> None:
    with (
        filled(FEW, customers=10, policy=policy) as few,
        filled(MANY, customers=5000, policy=policy) as many,
    ):
        assert steps_of_work(many) <= steps_of_work(few) * 1.1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_paused_customer_with_nearly_all_documents_costs_nothing(policy: PolicyName) -> None:
    with filled(FEW, policy=policy) as few, filled(MANY, customers=1, policy=policy) as many:
        many.pause("customer 0")
        submit(many, "somebody", 2)
        submit(many, "somebody else", 2)
        assert steps_of_work(many) <= steps_of_work(few) * 1.1


@pytest.mark.parametrize("policy", POLICIES)
def test_submitting_takes_the_same_steps_with_few_and_many(policy: PolicyName) -> None:
    with filled(FEW, policy=policy) as few, filled(MANY, policy=policy) as many:
        costs = [
            steps(store, lambda store=store: submit(store, "customer 3"))  # type: ignore[misc]
            for store in (few, many)
        ]
        assert costs[1] <= costs[0] * 1.1


@pytest.mark.parametrize("policy", POLICIES)
def test_an_overdue_claim_takes_the_same_steps_with_few_and_many(policy: PolicyName) -> None:
    costs = []
    for number in (FEW, MANY):
        with filled(number, policy=policy) as store:
            must_claim(store)
            store._clock.advance(10)  # type: ignore[attr-defined]  # the tests' clock
            costs.append(steps(store, lambda store=store: must_claim(store)))  # type: ignore[misc]
            assert store.events(after=store.last_event() - 1)[0].data["lane"] is True
    assert costs[1] <= costs[0] * 1.2


def test_resuming_takes_the_same_steps_with_few_and_many() -> None:
    """Under fair it lifts all the customer's tags."""
    costs = []
    for number in (FEW, MANY):
        with filled(number, customers=2, policy="fair") as store:
            store.pause("customer 0")
            for _ in range(10):
                must_claim(store)
            costs.append(steps(store, lambda store=store: store.resume("customer 0")))  # type: ignore[misc]
    assert costs[1] <= costs[0] * 1.1


@contextmanager
def one_of_each_state(number: int, later: State) -> Iterator[SqliteStore]:
    """A store with an old document in each state, and later ones in another state."""
    with filled(FEW, customers=1) as store:
        writer = store._writer._connection
        for outcome in (DONE, DAMAGED):
            store.finish(must_claim(store), outcome)
        store.cancel(must_claim(store).id)
        must_claim(store)
        old = writer.execute("SELECT max(seq) FROM documents").get
        store.submit(submission("customer 0", number))
        if later is not State.WAITING:  # as if they had been worked off
            writer.execute("UPDATE documents SET state = ? WHERE seq > ?", (later.value, old))
            writer.execute("DELETE FROM waiting WHERE document > ?", (old,))
        yield store


UNASKED = ("priority", "pipeline", "parent", "id_prefix", "name", "reference", "batch", "before")
"""Other conditions of a list."""


def steps_of_list(store: SqliteStore, **filters: object) -> int:
    """The steps of reading the newest document that matches."""
    wanted: dict[str, Any] = dict.fromkeys(UNASKED) | {"metadata": {}, "limit": 1} | filters

    def read() -> None:
        (document,) = reads.documents(store._writer._connection, Rules(), **wanted)
        for name, value in filters.items():
            assert value in (None, getattr(document, name))

    return steps(store, read)


@pytest.mark.parametrize("later", [State.WAITING, State.DONE])
def test_a_list_of_one_state_takes_the_same_steps_with_few_and_many(later: State) -> None:
    """Regression: `?state=failed` walked over all documents, and so did other states."""
    with one_of_each_state(1, later) as few, one_of_each_state(MANY, later) as many:
        for state in State:
            for customer in (None, "customer 0"):
                costs = [
                    steps_of_list(store, state=state, customer=customer) for store in (few, many)
                ]
                assert costs[1] <= costs[0] * 1.2, (state, customer)


@pytest.mark.parametrize("state", [None, State.DONE])
@pytest.mark.parametrize("customer", [None, "customer 0"])
def test_a_list_of_one_pipeline_takes_the_same_steps_with_few_and_many(
    state: State | None, customer: str | None
) -> None:
    """With documents of the default pipeline after it, and of another customer."""
    costs = []
    for number in (FEW, MANY):
        with filled(FEW, customers=1, pipeline="held") as store:
            store.finish(must_claim(store), DONE)
            store.submit(submission("customer 0", number))
            others = (new_document()._replace(pipeline="held") for _ in range(number))
            if customer is not None:
                store.submit(Submission("another", tuple(others)))
            store._writer._connection.execute("UPDATE documents SET state = 'done'")
            costs.append(steps_of_list(store, pipeline="held", state=state, customer=customer))
    assert costs[1] <= costs[0] * 1.2


def test_the_database_uses_every_index_it_keeps(large: SqliteStore) -> None:
    """An index that nothing uses would cost every submission."""
    used = " ".join(line for lines in plans_of(large, a_day).values() for line in lines)
    ahead = () if large.policy() == "fair" else ("waiting_ahead",)
    for index in (
        *("queue_places", "queue_waits", "waiting_by_age", *ahead),
        *("leases_by_end", "delayed_by_due"),
    ):
        assert re.search(rf"INDEX {index}\b", used), index


@pytest.mark.parametrize("policy", POLICIES)
def test_documents_behind_an_exhausted_quota_cost_nothing(policy: PolicyName) -> None:
    costs = []
    for number in (FEW, MANY):
        with filled(number, policy=policy, pipeline="held") as store:
            store.use_quotas([Pipeline("held", limit="1/h")])
            must_claim(store)
            submit(store, "somebody", 2)
            submit(store, "somebody else", 2)
            costs.append(steps_of_work(store))
    assert costs[1] <= costs[0] * 1.1
