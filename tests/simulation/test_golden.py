"""The facts of tests/vectors/classic.csv hold for the policy and for the command."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead import ClassicPolicy, Counter
from fairlead.cli import main

VECTORS = Path(__file__).parents[1] / "vectors" / "classic.csv"


def cases() -> dict[str, list[dict[str, str]]]:
    grouped: dict[str, list[dict[str, str]]] = {}
    with VECTORS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            grouped.setdefault(row["case"], []).append(row)
    return grouped


CASES = cases()


def test_all_cases_are_there() -> None:
    assert len(CASES) == 7
    assert sum(map(len, CASES.values())) == 103
    assert "a clock that goes back does not reset" in CASES


@pytest.mark.parametrize("case", CASES)
def test_the_policy_gives_count_and_priority(case: str) -> None:
    policy, counters = ClassicPolicy(), dict[str, Counter]()
    for row in CASES[case]:
        check = policy.check(counters.get(row["customer"]), now=float(row["at"]))
        counters[row["customer"]] = check.counter
        assert (check.count, check.priority) == (int(row["count"]), int(row["priority"])), row


@pytest.mark.parametrize("flags", [[], ["--no-overdue-lane"], ["--workers", "4"]])
@pytest.mark.parametrize("case", CASES)
def test_the_command_gives_count_and_priority(case: str, flags: list[str]) -> None:
    trace = "at,customer,seconds\n" + "".join(
        f"{row['at']},{row['customer']},7\n" for row in CASES[case]
    )
    result = CliRunner().invoke(
        main, ["simulate", "-", "--output", "-", *flags], input=trace, catch_exceptions=False
    )
    columns = ("at", "customer", "count", "priority")
    checks = [
        tuple(row[name] for name in columns) for row in csv.DictReader(io.StringIO(result.stdout))
    ]
    assert checks == [tuple(row[name] for name in columns) for row in CASES[case]]
