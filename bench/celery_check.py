"""A check on Redis beside a one-line INCR script, through the same client in the same run."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import redis

from fairlead.integrations.counters.redis import RedisCounters

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))  # starts a Redis

INCR = "return redis.call('INCR', KEYS[1])"
AIM = 0.8


@click.command()
@click.option("--rounds", default=400, show_default=True)
@click.option("--checks", default=50, show_default=True, help="In each round.")
@click.option("--counters", help="A Redis that runs already; without, one is started.")
def main(rounds: int, checks: int, counters: str | None) -> None:
    """Print the rates of both and their ratio; exit 1 if it is below the aim."""
    if counters is not None:
        sys.exit(compare(counters, rounds, checks))
    import servers  # noqa: PLC0415

    with servers.redis() as server:
        sys.exit(compare(server.url, rounds, checks))


def compare(url: str, rounds: int, checks: int) -> int:
    """Both in short turns, so that noise affects them alike."""
    client = redis.Redis.from_url(url)
    script = client.register_script(INCR)
    counters = RedisCounters(client, "bench")
    kinds: dict[str, Callable[[str], object]] = {
        "INCR script": lambda customer: script([f"bench:{customer}"]),
        "check": lambda customer: counters.check(customer, 1500),
    }
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(rounds + 1):
        for name, ask in kinds.items():
            rate = measure(ask, checks)
            if number:  # the first round warms up
                rates[name].append(rate)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, rate in medians.items():
        print(f"{name}: {rate:,.0f} a second (middle of {rounds} rounds of {checks})")
    ratio = medians["check"] / medians["INCR script"]
    print(f"a check has {ratio:.0%} of the rate of the INCR script (aim: {AIM:.0%})")
    client.close()
    return 0 if ratio >= AIM else 1


def measure(ask: Callable[[str], object], checks: int) -> float:
    began = time.perf_counter()
    for number in range(checks):
        ask(f"customer {number % 100}")
    return checks / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
