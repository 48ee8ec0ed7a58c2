"""What the tests of counter stores share; importable by the processes that they start."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

from fairlead.integrations.counters import open_counters

VECTORS = Path(__file__).parents[1] / "vectors" / "classic.csv"
PATIENT = 60.0
"""Seconds for a check that must succeed, however busy the machine is."""


def cases() -> dict[str, list[dict[str, str]]]:
    """The golden vectors, by case."""
    with VECTORS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {case: list(steps) for case, steps in groupby(rows, lambda row: row["case"])}


def counts(url: str, customer: str, number: int) -> list[int]:
    """Checks in sequence; several processes run this at once."""
    counters = open_counters(url, timeout=PATIENT)
    try:
        return [counters.check(customer, 1500) for _ in range(number)]
    finally:
        counters.close()
