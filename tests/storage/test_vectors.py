"""Every row of the golden vectors through the stores, by a clock in the test's hand."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import pytest
from store_queue import GroupClaimDriver, StoreQueue, rules_of
from storekit import STORES, fresh_store, submit_one
from trace_driver import TraceDriver, vector_trace

from fairlead.policy.rules import Rules

pytestmark = pytest.mark.postgres_differs

VECTORS = Path(__file__).parents[1] / "vectors"
TOLERANCE = 0.000002
DRIVERS = {"one by one": TraceDriver, "together": GroupClaimDriver}
TELLING = (
    *("a cap of 1", "cancelled ones cost nothing", "lane also when first", "lane spends credit"),
    *("forward on a refund", "tag starts at V on entry", "urgent"),
)
"""The cases that `make test` runs in every way: each has another kind of event."""

Rows = list[dict[str, str]]


def cases(name: str) -> dict[str, Rows]:
    with (VECTORS / name).open(newline="", encoding="utf-8") as file:
        return {case: list(rows) for case, rows in groupby(csv.DictReader(file), _case)}


def _case(row: dict[str, str]) -> str:
    return row["case"]


CLASSIC, FAIR = cases("classic.csv"), cases("fair2.csv")


def fair_cases() -> list[object]:
    """`make test` runs all of them in one way, and the telling ones in the others."""
    return [
        pytest.param(kind, driver, case, marks=() if is_short else pytest.mark.full)
        for kind in STORES
        for driver in DRIVERS
        for case in FAIR
        for is_short in [(kind, driver) == ("sqlite", "together") or case in TELLING]
    ]


@pytest.mark.parametrize("case", CLASSIC)
@pytest.mark.parametrize("kind", STORES)
def test_counts_and_priorities_are_those_of_the_classic_vectors(kind: str, case: str) -> None:
    with fresh_store(STORES[kind], Rules()) as (store, clock, _):
        for row in CLASSIC[case]:
            clock.now = float(row["at"])
            document = submit_one(store, row["customer"])
            expected = (int(row["count"]), int(row["priority"]))
            assert (document.count, document.priority) == expected
        assert store.problems() == []


@pytest.mark.parametrize(("kind", "driver", "case"), fair_cases())
def test_every_row_of_the_fair_vectors_holds(kind: str, driver: str, case: str) -> None:
    settings, workers, events = vector_trace(FAIR[case])
    expected = [row for row in FAIR[case] if row["what"] == "submit"]
    with fresh_store(STORES[kind], rules_of(settings)) as fresh:
        queue = StoreQueue(fresh, [float(row["estimate"]) for row in expected])
        run = DRIVERS[driver](queue, settings, workers, events).run_all()
        assert fresh.store.problems() == []
    assert len(expected) == len(run.submissions)
    for row, submission in zip(expected, run.submissions, strict=True):
        assert (submission.count, submission.priority) == (int(row["count"]), int(row["priority"]))
        assert submission.debt_after == pytest.approx(float(row["debt_after"]), abs=TOLERANCE)
        start = run.first_start(submission.document)
        if start is None or start.start is None:
            assert row["started"] == ""
            continue
        assert start.at == pytest.approx(float(row["started"]), abs=TOLERANCE)
        assert start.start.lane == (row["lane"] == "1")
