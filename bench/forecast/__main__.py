"""The share of starts within the range of their forecast, which is meant for four of five.

Usage: python -m bench.forecast [--real] [--virtual]

Scenarios run in virtual time, on traffic of seeds on which the constants of the forecast were
fitted and of others; so do recorded traces. Real workers run own steps, with caps, quotas, a pause
and a resume. A start counts if its document had to wait. `width` is the range over the wait.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from bench.forecast.real import REAL, real_outcome
from bench.forecast.scenarios import (
    HELD_OUT,
    POLICIES,
    SCENARIOS,
    TUNED_ON,
    Outcome,
    judged,
    judged_traces,
    together,
)

OFTEN = 0.03
"""The share of submissions at which two starts are forecast."""
REAL_SEEDS = (1, 2)


def main() -> None:
    options = set(sys.argv[1:]) or {"--virtual", "--real"}
    if "--virtual" in options:
        for title, seeds in (("tuned on", TUNED_ON), ("held out", HELD_OUT)):
            for policy in POLICIES:
                _print_table(f"{policy}, virtual time, seeds {title}", _virtual(policy, seeds))
        for policy in POLICIES:
            _print_table(f"{policy}, recorded traces", judged_traces(policy).items())
    if "--real" in options:
        _print_table("real workers, own steps", _real())


def _virtual(policy: str, seeds: Iterable[int]) -> Iterable[tuple[str, Outcome]]:
    for name, make in SCENARIOS.items():
        outcomes = [judged(POLICIES[policy], make(seed), seed + 1, OFTEN) for seed in seeds]
        yield name, together(outcomes)


def _real() -> Iterable[tuple[str, Outcome]]:
    for name, scenario in REAL.items():
        yield name, together(real_outcome(scenario, seed) for seed in REAL_SEEDS)


def _print_table(title: str, rows: Iterable[tuple[str, Outcome]]) -> None:
    print(f"\n{title:50}  starts  in range  before  after  width")
    outcomes = []
    for name, outcome in rows:
        _print_row(name, outcome)
        outcomes.append(outcome)
    _print_row("all", together(outcomes))


def _print_row(name: str, outcome: Outcome) -> None:
    shares = f"{outcome.hits:8.0%}  {outcome.below:6.0%}  {outcome.above:5.0%}"
    print(f"{name:50}  {outcome.number:6}  {shares}  {outcome.width:5.1f}", flush=True)


if __name__ == "__main__":
    main()
