"""The golden vectors of the fair policy through the simulator, as far as a trace can say them."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import pytest

from fairlead.policy.fair import FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.simulate import simulate
from fairlead.simulation.trace import Arrival

VECTORS = Path(__file__).parents[1] / "vectors" / "fair2.csv"
Rows = list[dict[str, str]]


def cases() -> dict[str, Rows]:
    with VECTORS.open(newline="", encoding="utf-8") as file:
        rows = groupby(csv.DictReader(file), lambda row: row["case"])
        return {case: list(lines) for case, lines in rows}


def is_trace(rows: Rows) -> bool:
    """Traces have no cancellations, pauses, caps and urgent documents."""
    return all(row["what"] == "submit" and not row["cap"] and row["urgent"] == "0" for row in rows)


TRACES = {case: rows for case, rows in cases().items() if is_trace(rows)}


def test_most_cases_are_traces() -> None:
    assert len(TRACES) >= 20


@pytest.mark.parametrize("case", TRACES)
def test_every_row_is_that_of_the_fair_vectors(case: str) -> None:
    rows = TRACES[case]
    interval, share = float(rows[0]["interval"]), int(rows[0]["share"])
    rule = FairRule(float(rows[0]["unit"]), float(rows[0]["allowance"]), interval)
    lane = OverdueLane(interval, share) if share else None
    arrivals = [
        Arrival(
            float(row["at"]),
            row["account"],
            float(row["seconds"]),
            float(row["weight"]),
            float(row["estimate"]),
        )
        for row in rows
    ]
    for row, run in zip(rows, simulate(arrivals, rule, int(rows[0]["workers"]), lane), strict=True):
        assert (run.count, run.priority) == (int(row["count"]), int(row["priority"]))
        assert run.started == pytest.approx(float(row["started"]), abs=0.000002)
        assert run.lane == (row["lane"] == "1")
