"""Compares classic, fifo and fair where classic hurts: `python -m bench.policies`.

Prints one table in Markdown, and how much its first part depends on chance. The traces are
random with fixed seeds, so each run prints the same. Waits run from submission to start. The share
is that of the worker seconds which the other side got, from its first submission to its last start.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fairlead.policy.classic import ClassicPolicy, FifoPolicy, Policy
from fairlead.policy.fair import FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.simulate import Run, simulate
from fairlead.simulation.summary import percentile
from fairlead.simulation.trace import Arrival

HOUR = 3600
TRACES = 30
POLICIES: dict[str, tuple[Policy | FairRule, OverdueLane | None]] = {
    "classic": (ClassicPolicy(), OverdueLane()),
    "fifo": (FifoPolicy(), None),
    "fair": (FairRule(), OverdueLane()),
}


class Scenario(NamedTuple):
    """A trace, and how to tell the victims and the other side by their names."""

    title: str
    workers: int
    rows: list[Arrival]
    victim: str
    other: str


class Outcome(NamedTuple):
    """One line of the table."""

    victims: list[float]
    others: list[float]
    share: float


def main() -> None:
    head = ("scenario", "policy", "victims: p50", "p99", "max", "other: p50", "p99", "share")
    print(line(head))
    print(line(["---", "---", *["---:"] * (len(head) - 2)]))
    for make in SCENARIOS:
        scenario = make()
        for name, outcome in outcomes(scenario):
            print(line([scenario.title, name, *cells(outcome)]))
    print()
    print_spread()


def print_spread() -> None:
    """One random trace proves little: the first two scenarios once more, on thirty of each."""
    for times in (1, 4):
        percentiles: dict[str, list[float]] = {name: [] for name in POLICIES}
        for seed in range(TRACES):
            for name, outcome in outcomes(one_large_twenty_small(seed, times)):
                percentiles[name].append(percentile(outcome.victims, 99))
        for name, several in percentiles.items():
            above = sum(value > 3 * 6.0 for value in several)
            print(
                f"p99 of 20 customers with {times} × 3 in {TRACES} traces, {name}: "
                f"{min(several):,.1f} to {max(several):,.1f} s; "
                f"above three times the longest document in {above}"
            )


def outcomes(scenario: Scenario) -> Iterator[tuple[str, Outcome]]:
    for name, (policy, lane) in POLICIES.items():
        yield name, measured(scenario, simulate(scenario.rows, policy, scenario.workers, lane))


def measured(scenario: Scenario, runs: Sequence[Run]) -> Outcome:
    pairs = list(zip(scenario.rows, runs, strict=True))
    return Outcome(
        waits(pair for pair in pairs if pair[0].customer.startswith(scenario.victim)),
        waits(pair for pair in pairs if pair[0].customer.startswith(scenario.other)),
        share([pair for pair in pairs if pair[0].customer.startswith(scenario.other)], scenario),
    )


def waits(pairs: Iterator[tuple[Arrival, Run]]) -> list[float]:
    return sorted(run.started - row.at for row, run in pairs)


def share(pairs: list[tuple[Arrival, Run]], scenario: Scenario) -> float:
    first = min(row.at for row, _ in pairs)
    last = max(run.started for _, run in pairs)
    worked = sum(min(run.finished, last) - run.started for _, run in pairs)
    return worked / (scenario.workers * (last - first))


def cells(outcome: Outcome) -> list[str]:
    victims, others = outcome.victims, outcome.others
    seconds = (
        percentile(victims, 50),
        percentile(victims, 99),
        victims[-1],
        percentile(others, 50),
        percentile(others, 99),
    )
    return [*(f"{value:,.1f}" for value in seconds), f"{outcome.share:.0%}"]


def line(values: Sequence[str]) -> str:
    return "| " + " | ".join(values) + " |"


def one_large_twenty_small(seed: int = 1, times: int = 1) -> Scenario:
    """2,000 documents at once; and 20 customers who send three in the meantime, so many times."""
    chance = random.Random(seed)
    rows = [Arrival(0.0, "large", 6.0)] * 2_000
    for customer in range(20):
        for at in sorted(chance.uniform(0, 2_500) for _ in range(times)):
            rows += [Arrival(at, f"small {customer}", 6.0)] * 3
    title = f"2,000 documents beside 20 customers with {times} × 3"
    return Scenario(title, 4, rows, "small", "large")


def crowd(chance: random.Random, hours: int, load: float) -> list[Arrival]:
    """Customers who send three documents and then pause for longer than the reset interval."""
    rows, customers, pause = [], 120, 2_400.0
    seconds = load * pause / (3 * customers)
    for customer in range(customers):
        at = chance.uniform(0, pause)
        while at < hours * HOUR:
            rows += [Arrival(at, f"crowd {customer}", seconds)] * 3
            at += chance.uniform(1_600, 2 * pause - 1_600)
    return rows


def every(seconds: float, hours: int, customer: str, number: int = 1) -> list[Arrival]:
    moments = range(int(hours * HOUR / seconds))
    return [Arrival(60 + n * seconds, customer, 6.0) for n in moments for _ in range(number)]


def steady() -> Scenario:
    """One document every 20 minutes, beside a crowd that keeps two workers busy."""
    rows = crowd(random.Random(2), 24, load=2.02) + every(1_200, 24, "steady")
    return Scenario("one document every 20 minutes", 2, rows, "steady", "crowd")


def gaming() -> Scenario:
    """Three documents every 1,501 s, and the same number with even spaces between."""
    rows = crowd(random.Random(3), 24, load=2.02)
    rows += every(1_501, 24, "gamer", 3) + every(1_501 / 3, 24, "even")
    return Scenario("even spaces beside three every 1,501 s", 2, rows, "even", "gamer")


def fifty_ids(ids: int, documents: int) -> Scenario:
    """2,000 documents under many ids or one, beside five customers with fewer documents."""
    rows = [Arrival(0.0, f"sender {n % ids}", 6.0) for n in range(2_000)]
    rows += [Arrival(1.0, f"honest {n % 5}", 6.0) for n in range(5 * documents)]
    title = f"2,000 documents under {ids} id{'s'[: ids - 1]} beside five times {documents}"
    return Scenario(title, 4, rows, "honest", "sender")


def three_hundred_pages() -> Scenario:
    """Bursts of 40 long documents, and ten customers who send one page every half minute."""
    page, rows = 0.2, []
    for burst in range(6):
        rows += [Arrival(burst * 3_000.0, "long", 300 * page)] * 40
    for customer in range(10):
        rows += [Arrival(customer + 30.0 * n, f"page {customer}", page) for n in range(600)]
    return Scenario("one page beside documents of 300 pages", 2, rows, "page", "long")


SCENARIOS: list[Callable[[], Scenario]] = [
    one_large_twenty_small,
    lambda: one_large_twenty_small(times=4),
    steady,
    gaming,
    lambda: fifty_ids(50, documents=20),
    lambda: fifty_ids(1, documents=20),
    lambda: fifty_ids(50, documents=100),
    lambda: fifty_ids(1, documents=100),
    three_hundred_pages,
]

if __name__ == "__main__":
    main()
