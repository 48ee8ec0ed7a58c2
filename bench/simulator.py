"""The simulator beside a bare heap loop on the same trace: `python -m bench.simulator`.

The loop pushes and pops each document once, with a key like that of the queue, and keeps the
workers' end times in a second heap: the least that a simulator can do in Python. Each runs in a
process of its own, so that peak memory is its own. Reading and writing CSV is not in it.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace

import click

from bench.policies import POLICIES
from fairlead.simulation.simulate import simulate
from fairlead.simulation.trace import Arrival

WORKERS = 8
BARE = "bare heap loop"
SECONDS = 6.0
LOAD = 1.1
"""The arriving work over the capacity of the workers: a queue builds up."""


@click.command()
@click.option("--documents", default=1_000_000, show_default=True)
@click.option("--customers", default=10_000, show_default=True)
@click.option("--rounds", default=1, show_default=True, help="Of each policy; the loop runs more.")
@click.option("--child", hidden=True, help="Measure this one, in this process.")
def main(documents: int, customers: int, rounds: int, child: str | None) -> None:
    """Print the CPU time and the peak memory of classic and fair, and the ratio to the loop."""
    if child is not None:
        print(json.dumps(measure(child, trace(documents, customers))))
        return
    figures: dict[str, list[tuple[float, float]]] = {BARE: [], "classic": [], "fair": []}
    for _ in range(rounds):
        for name in (BARE, "classic", BARE, "fair", BARE):  # in turns, so that noise affects all
            figures[name].append(in_a_child(name, documents, customers))
    base = statistics.median(seconds for seconds, _ in figures[BARE])
    print(f"{documents:,} documents of {customers:,} customers, {WORKERS} workers")
    for name, values in figures.items():
        seconds = statistics.median(second for second, _ in values)
        memory = max(used for _, used in values)
        print(
            f"{name}: {seconds:.2f} s of CPU, {seconds / base:.1f} times the loop, "
            f"{seconds / documents * 1e6:.1f} µs a document, peak memory {memory:,.0f} MB"
        )


def in_a_child(name: str, documents: int, customers: int) -> tuple[float, float]:
    """CPU seconds, and peak memory in megabytes."""
    command = [sys.executable, "-m", "bench.simulator", "--child", name]
    command += ["--documents", str(documents), "--customers", str(customers)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    seconds, memory = json.loads(output)
    return seconds, memory


def measure(name: str, arrivals: Sequence[Arrival]) -> tuple[float, float]:
    began = time.process_time()
    if name == BARE:
        bare_loop(arrivals, WORKERS)
    else:
        policy, lane = POLICIES[name]
        simulate(arrivals, policy, WORKERS, lane)
    seconds = time.process_time() - began
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def trace(documents: int, customers: int) -> list[Arrival]:
    """Random customers, all equally often; the same in each run."""
    chance = random.Random(18)
    names = [f"customer {number}" for number in range(customers)]
    between = SECONDS / WORKERS / LOAD
    arrivals, now = [], 0.0
    for _ in range(documents):
        now += chance.expovariate(1 / between)
        arrivals.append(Arrival(now, chance.choice(names), SECONDS * (0.5 + chance.random())))
    return arrivals


def bare_loop(arrivals: Sequence[Arrival], workers: int) -> list[float]:
    """When each document starts: first come, first served."""
    waiting: list[tuple[int, float, int]] = []
    ends = [0.0] * workers
    started = [0.0] * len(arrivals)
    times = [arrival.at for arrival in arrivals]
    accepted = 0
    for _ in arrivals:
        now = ends[0] if waiting else max(ends[0], times[accepted])
        while accepted < len(times) and times[accepted] <= now:
            heappush(waiting, (1, times[accepted], accepted))
            accepted += 1
        row = heappop(waiting)[2]
        started[row] = now
        heapreplace(ends, now + arrivals[row].seconds)
    return started


if __name__ == "__main__":
    main()
