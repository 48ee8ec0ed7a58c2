"""The golden vectors through `Fairlead.submit`: the whole way that a document takes."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import pytest

from fairlead import Fairlead

VECTORS = Path(__file__).parents[1] / "vectors" / "classic.csv"


def cases() -> dict[str, list[dict[str, str]]]:
    with VECTORS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {case: list(case_rows) for case, case_rows in groupby(rows, lambda row: row["case"])}


@pytest.mark.parametrize("case", cases())
def test_counts_and_priorities_are_exact(case: str, tmp_path: Path) -> None:
    rows = cases()[case]
    now = [0.0]
    with Fairlead(tmp_path, clock=lambda: now[0]) as fairlead:
        results = []
        for row in rows:
            now[0] = float(row["at"])
            document = fairlead.submit(row["customer"], b"x", name="x.txt")
            results.append((str(document.count), str(document.priority)))
    assert results == [(row["count"], row["priority"]) for row in rows]
