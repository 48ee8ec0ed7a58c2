"""Every row of the golden vectors through the pure queue."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import pytest
from policy_queue import PolicyQueue
from queue_model import QueueSettings
from trace_driver import TraceDriver, vector_trace

VECTORS = Path(__file__).parents[1] / "vectors"
TOLERANCE = 0.000002
Rows = list[dict[str, str]]


def cases(name: str) -> dict[str, Rows]:
    with (VECTORS / name).open(newline="", encoding="utf-8") as file:
        return {case: list(rows) for case, rows in groupby(csv.DictReader(file), _case)}


def _case(row: dict[str, str]) -> str:
    return row["case"]


CLASSIC, FAIR = cases("classic.csv"), cases("fair2.csv")


@pytest.mark.parametrize("case", CLASSIC)
def test_counts_and_priorities_are_those_of_the_classic_vectors(case: str) -> None:
    queue = PolicyQueue(QueueSettings(policy="classic"))
    for row in CLASSIC[case]:
        _, *checked = queue.submit(row["customer"], now=float(row["at"]))
        assert checked == [int(row["count"]), int(row["priority"])]


@pytest.mark.parametrize("case", FAIR)
def test_every_row_is_that_of_the_fair_vectors(case: str) -> None:
    settings, workers, events = vector_trace(FAIR[case])
    run = TraceDriver(PolicyQueue(settings), settings, workers, events).run_all()
    expected = [row for row in FAIR[case] if row["what"] == "submit"]
    assert len(run.submissions) == len(expected)
    for row, submission in zip(expected, run.submissions, strict=True):
        assert (submission.count, submission.priority) == (int(row["count"]), int(row["priority"]))
        assert submission.debt_after == pytest.approx(float(row["debt_after"]), abs=TOLERANCE)
        start = run.first_start(submission.document)
        assert (start is None) == (row["started"] == "")
        if start is not None:
            assert start.at == pytest.approx(float(row["started"]), abs=TOLERANCE)
            assert start.start is not None
            assert start.start.lane == (row["lane"] == "1")
