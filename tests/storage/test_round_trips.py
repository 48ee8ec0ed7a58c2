"""How often a call waits for PostgreSQL: on a distant server each round trip costs its latency."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import postgreskit
import pytest
from storekit import DONE, Clock, RulesInForce, new_document, postgres_store, submit

from fairlead.model.documents import Claim, Submission
from fairlead.storage import Store
from fairlead.storage.postgres.pipeline import StatementPipeline

pytestmark = pytest.mark.services

Counted = Callable[[Callable[[], object]], int]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with postgreskit.lent(tmp_path):
        store = postgres_store(tmp_path, RulesInForce(), Clock())
        yield store
        store.close()


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """The round trips of a call whose connections are open and whose statements are prepared."""
    trips, receive = [0], StatementPipeline.receive

    def counted(pipeline: StatementPipeline) -> None:
        trips[0] += pipeline.is_awaited
        receive(pipeline)

    monkeypatch.setattr(StatementPipeline, "receive", counted)

    def of_call(call: Callable[[], object]) -> int:
        before = trips[0]
        call()
        return trips[0] - before

    return of_call


def claimed(store: Store, number: int) -> list[Claim]:
    claims = store.claim_for([f"worker {each}" for each in range(number)])
    assert len(claims) == number
    return claims


def test_an_engine_waits_for_few_round_trips(store: Store, round_trips: Counted) -> None:
    for customer in range(4):
        submit(store, f"customer {customer}", 20)
    for _ in range(2):  # a claim learns how many documents to read at once
        first = claimed(store, 20)
        store.finish_all([(claim, DONE) for claim in first])
    store.lost(first)
    claims: list[Claim] = []
    assert round_trips(lambda: claims.extend(claimed(store, 20))) <= 4
    assert round_trips(lambda: store.renew(claims)) <= 3
    assert round_trips(lambda: store.lost(claims)) <= 2
    assert round_trips(lambda: store.finish_all([(claim, DONE) for claim in claims])) <= 4


def test_the_ends_of_many_batches_wait_no_longer_than_of_one(
    store: Store, round_trips: Counted
) -> None:
    for number in range(42):
        document = new_document()._replace(batch=f"b{number}")
        store.submit(Submission("acme", (document,), new_batch=f"b{number}"))
    one, two, *many = claimed(store, 42)
    store.finish(one, DONE)
    alone = round_trips(lambda: store.finish(two, DONE))
    assert round_trips(lambda: store.finish_all([(claim, DONE) for claim in many])) <= alone + 1
    assert {event.kind for event in store.events(limit=500)} >= {"batch-done"}


def test_a_read_does_not_wait_for_its_end(store: Store, round_trips: Counted) -> None:
    store.add_customer("acme")
    store.lost([])
    assert round_trips(store.lease_holders) <= 2, "with the end of the read before it"
    reader = store._readers  # type: ignore[attr-defined]
    [session] = reader._idle
    assert session._pipeline.is_awaited
    assert store.lease_holders() == []
    assert len(reader._idle) == 1
