"""Measures the PostgreSQL store: claims with few and very many documents pending, and at once.

It starts a server of its own, as the tests do, with a data folder of its own.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import psycopg

from bench.filling import BATCH, fill, fill_behind_a_paused_head, new_documents
from fairlead.model.documents import Done, Submission
from fairlead.policy.rules import Rules
from fairlead.storage.postgres import PostgresStore

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from postgreskit import Server

ROUNDS = 30
CLAIMS_A_ROUND = 20
MOMENT = 0.25
"""Seconds of work that a worker claims beforehand, as the local engine does."""


@click.command()
@click.option("--documents", default=1_000_000, show_default=True, help="Pending, where many are.")
@click.option("--customers", default=10_000, show_default=True)
@click.option("--seconds", default=8.0, show_default=True, help="For each number of workers.")
def main(documents: int, customers: int, seconds: float) -> None:
    """Print the cost of a claim, and the rates of many workers at once."""
    with served() as server:
        stores = {
            "1,000 pending": opened(server, "small"),
            f"{documents:,} pending": opened(server, "large"),
            f"{documents:,} pending, 90 % of them a paused head's": opened(server, "paused"),
        }
        small, large, paused = stores.values()
        fill(small, 1_000, 10)
        rate = fill(large, documents, customers)
        print(f"bulk submission in batches of {BATCH}, durable: {rate:,.0f} documents/s")
        fill_behind_a_paused_head(paused, documents, customers)
        tidy(server)
        compare_claims(stores)
        for store in stores.values():
            store.close()
        compare_workers(server, seconds)


@contextmanager
def served() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        server = Server(Path(folder), durable=True)
        try:
            yield server
        finally:
            server.stop()


def tidy(server: Server) -> None:
    """Run the server's maintenance now, not during the measurement."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
    with server.as_superuser() as connection:
        connection.execute("CHECKPOINT")


def opened(server: Server, schema: str) -> PostgresStore:
    return PostgresStore(server.url_of(schema), rules=Rules)


def compare_claims(stores: dict[str, PostgresStore]) -> None:
    """Claims one by one and by fifty, in turns between the stores: noise affects all alike."""
    for number in (1, 50):
        costs: dict[str, list[float]] = {name: [] for name in stores}
        for _ in range(ROUNDS):
            for name, store in stores.items():
                costs[name].append(cost(store, number))
        base = statistics.median(next(iter(costs.values())))
        for name, values in costs.items():
            median = statistics.median(values)
            print(
                f"claimed by {number}, {name}: {median * 1e6:,.0f} µs a document, "
                f"ratio {median / base:.2f}"
            )


def cost(store: PostgresStore, number: int) -> float:
    """Seconds of a claim; the claims are released afterwards."""
    rounds = max(1, CLAIMS_A_ROUND // number)
    began = time.perf_counter()
    claims = [claim for _ in range(rounds) for claim in store.claim_for(["bench"] * number)]
    spent = time.perf_counter() - began
    store.release(claims)
    return spent / len(claims)


def compare_workers(server: Server, seconds: float) -> None:
    """Worker processes that wait for so many milliseconds per document."""
    for length in (0.005, 0.02):
        rates = {}
        for workers in (1, 8):
            rates[workers] = rate_of(server, workers, length, seconds)
        print(
            f"documents of {length * 1000:.0f} ms: 1 worker {rates[1]:,.0f}/s, 8 workers "
            f"{rates[8]:,.0f}/s, {rates[8] / rates[1]:.1f} times as many"
        )


def rate_of(server: Server, workers: int, length: float, seconds: float) -> float:
    schema = f"at_once_{workers}_{length * 1000:.0f}"
    store = opened(server, schema)
    for customer in range(50):
        store.submit(Submission(f"customer {customer}", new_documents(400)))
    store.close()
    command = [sys.executable, "-m", "bench.postgres", "--as-worker"]
    own = [server.url_of(schema), str(length), str(seconds)]
    children = [
        subprocess.Popen([*command, *own], stdout=subprocess.PIPE, text=True)
        for _ in range(workers)
    ]
    return sum(float(child.communicate()[0]) for child in children)


def work(url: str, length: float, seconds: float) -> None:
    """Claim the work of a moment at once, do it, and save it together."""
    store = PostgresStore(url, rules=Rules)
    number, name, done = max(1, int(MOMENT / length)), f"worker {time.time_ns()}", 0
    store.claim_for([])
    began = time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        claims = store.claim_for([name] * number)
        for _ in claims:
            time.sleep(length)
        store.finish_all([(claim, Done("text/plain", {}, "key", "0" * 64)) for claim in claims])
        done += len(claims)
    print(done / spent)
    store.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-worker"]:
        work(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
