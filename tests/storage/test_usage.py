"""Usage per customer and day: written with acceptance and end, and kept when documents go."""

from __future__ import annotations

import pytest
from storekit import CRASHED, DAMAGED, DONE, Clock, must_claim, submit, submit_one

from fairlead.model.documents import Delayed
from fairlead.model.results import Interim
from fairlead.model.usage import DAY, day_name
from fairlead.storage import Store
from fairlead.storage.sql import store as module


def amounts(store: Store, customer: str | None = None) -> list[tuple[object, ...]]:
    return [
        (
            row.customer,
            row.documents,
            row.pages,
            row.ocr_pages,
            row.bytes,
            row.seconds,
            row.failures,
        )
        for row in store.usage(customer)
    ]


def test_each_document_counts_once_at_acceptance_and_once_at_its_end(store: Store) -> None:
    submit(store, "acme", 2)
    submit_one(store, "bolt")
    assert amounts(store) == [("acme", 2, 0, 0, 20, 0.0, 0), ("bolt", 1, 0, 0, 10, 0.0, 0)]
    facts = {"pages": 7, "ocr_pages": 2}
    claims = store.claim_for(["a", "b", "c"])
    store.finish_all(
        [
            (claims[0], DONE._replace(facts=facts, seconds=1.5)),
            (claims[1], DAMAGED._replace(seconds=0.5)),
            (claims[2], CRASHED._replace(seconds=0.25)),
        ]
    )
    by_customer = {row[0]: row for row in amounts(store)}
    assert sum(row[5] for row in by_customer.values()) == 2.25  # type: ignore[misc]
    assert sum(row[6] for row in by_customer.values()) == 1  # type: ignore[misc]
    assert by_customer["acme"][2:4] == (7, 2) or by_customer["bolt"][2:4] == (7, 2)
    assert amounts(store, "bolt") == [by_customer["bolt"]]


def test_seconds_are_told_to_the_millisecond(store: Store) -> None:
    for seconds in (0.1, 0.2):
        submit_one(store, "acme")
        store.finish(must_claim(store), DONE._replace(seconds=seconds))
    assert [row.seconds for row in store.usage("acme")] == [0.3]


def test_failed_attempts_of_steps_are_included(store: Store, clock: Clock) -> None:
    submit_one(store, "acme")
    interim = Interim(("fields",), 0, settled=1)
    store.finish(must_claim(store), Delayed(1.0, interim, "step-failed", "It failed.", seconds=0.5))
    clock.advance(2)
    store.finish(must_claim(store), DONE._replace(seconds=0.25))
    assert [row.seconds for row in store.usage("acme")] == [0.75]


def test_facts_that_are_no_numbers_count_nothing(store: Store) -> None:
    submit_one(store, "acme")
    store.finish(must_claim(store), DONE._replace(facts={"pages": "many", "ocr_pages": -3}))
    assert amounts(store) == [("acme", 1, 0, 0, 10, 0.0, 0)]


def test_days_are_apart_and_usage_outlives_documents(store: Store, clock: Clock) -> None:
    document = submit_one(store, "acme")
    first = int(clock.now // DAY)
    clock.advance(DAY)
    store.delete(document.id)
    submit_one(store, "acme")
    days = [(row.day, row.documents) for row in store.usage("acme")]
    assert days == [(day_name(first), 1), (day_name(first + 1), 1)]
    assert [row.day for row in store.usage(first=first + 1)] == [day_name(first + 1)]
    assert [row.day for row in store.usage(last=first)] == [day_name(first)]


def test_rows_are_added_up_without_a_change_of_the_sums(store: Store, clock: Clock) -> None:
    for _ in range(3):
        submit_one(store, "acme")
        submit_one(store, "bolt")
        store.finish(must_claim(store), DONE._replace(seconds=1.0))
    clock.advance(DAY)
    submit_one(store, "acme")
    before = store.usage()
    assert store.add_up_usage() > 2
    assert store.usage() == before
    assert store.add_up_usage() == 0, "one row of each day is left"


def test_many_rows_are_added_up_in_portions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SUMMED", 3)
    for _ in range(3):
        for customer in ("acme", "bolt", "cobalt", "delta"):
            submit_one(store, customer)
    before = store.usage()
    assert store.add_up_usage() >= 12
    assert store.usage() == before
    assert store.add_up_usage() == 0
