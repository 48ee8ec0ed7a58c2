"""Measures submission and claim, with few and with very many documents pending."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from bench.filling import BATCH, fill, fill_behind_a_paused_head
from fairlead import Fairlead
from fairlead.model.documents import Claim, Done
from fairlead.policy.queue import PolicyName
from fairlead.policy.rules import Rules
from fairlead.storage.sqlite import SqliteStore

ROUNDS = 40
CLAIMS_A_ROUND = 50


@click.command()
@click.option(
    "--documents", default=1_000_000, show_default=True, help="Pending in the large store."
)
@click.option("--customers", default=10_000, show_default=True)
def main(documents: int, customers: int) -> None:
    """Print the cost of submission and claim."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        root = Path(folder)
        with (
            opened(root / "small.db") as small,
            opened(root / "large.db") as large,
            opened(root / "paused.db") as paused,
            opened(root / "fair-small.db", "fair") as fair_small,
            opened(root / "fair-large.db", "fair") as fair_large,
        ):
            fill(small, 1_000, 10)
            rate = fill(large, documents, customers)
            print(
                f"bulk submission, {documents:,} documents of {customers:,} customers, in batches "
                f"of {BATCH}, synchronous=FULL: {rate:,.0f} documents/s"
            )
            fill_behind_a_paused_head(paused, documents, customers)
            compare_claims(
                {
                    "1,000 pending": small,
                    f"{documents:,} pending": large,
                    f"{documents:,} pending, 90 % of them a paused head's": paused,
                }
            )
            fill(fair_small, 1_000, 10)
            rate = fill(fair_large, documents, customers)
            print(f"bulk submission under fair: {rate:,.0f} documents/s")
            compare_claims(
                {
                    "1,000 pending": small,
                    "1,000 pending, fair": fair_small,
                    f"{documents:,} pending, fair": fair_large,
                }
            )
            compare_groups({"1,000 pending": small, f"{documents:,} pending": large})
        measure_files(root / "files")
        measure_engine(root / "engine")


@contextmanager
def opened(path: Path, policy: PolicyName = "classic") -> Iterator[SqliteStore]:
    rules = Rules(policy=policy)
    store = SqliteStore(path, rules=lambda: rules, clock=time.time)
    try:
        yield store
    finally:
        store.close()


def compare_claims(stores: dict[str, SqliteStore]) -> None:
    """Claims one by one, in turns between the stores, so that noise affects all alike."""
    costs: dict[str, list[float]] = {name: [] for name in stores}
    for _ in range(ROUNDS):
        for name, store in stores.items():
            costs[name].append(cost(store) / CLAIMS_A_ROUND)
    print_ratios("CPU of a claim", costs)


def compare_groups(stores: dict[str, SqliteStore]) -> None:
    """Claims and results in groups of fifty, as in the engine and its result writer."""
    costs: dict[str, list[float]] = {name: [] for name in stores}
    for _ in range(5):
        for name, store in stores.items():
            began = time.perf_counter()
            claims = store.claim_for(["bench"] * CLAIMS_A_ROUND)
            store.finish_all([(claim, Done("pdf", {}, "key", "0" * 64)) for claim in claims])
            costs[name].append((time.perf_counter() - began) / CLAIMS_A_ROUND)
    for name, values in costs.items():
        print(
            f"claimed and finished by {CLAIMS_A_ROUND}, {name}: "
            f"{1 / statistics.median(values):,.0f} documents/s"
        )


def one_by_one(store: SqliteStore) -> list[Claim]:
    return [claim for _ in range(CLAIMS_A_ROUND) if (claim := store.claim("bench")) is not None]


def cost(store: SqliteStore) -> float:
    """CPU seconds of claims one by one; the claims are released afterwards."""
    began = time.process_time()
    claims = one_by_one(store)
    spent = time.process_time() - began
    store.release(claims)
    return spent


def print_ratios(title: str, costs: dict[str, list[float]]) -> None:
    medians = {name: statistics.median(values) for name, values in costs.items()}
    base = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"{title}, {name}: {median * 1e6:.0f} µs ({median / base:.2f} times the first)")


def measure_files(folder: Path) -> None:
    with Fairlead(folder) as fairlead:
        sources = [(b"x" * 5_000, f"{number}.txt") for number in range(3_000)]
        began = time.perf_counter()
        for first in range(0, len(sources), BATCH):
            fairlead.submit_many("acme", sources[first : first + BATCH])
        rate = len(sources) / (time.perf_counter() - began)
        print(f"bulk submission with files of 5 kB, each fsynced: {rate:,.0f} documents/s")


def measure_engine(folder: Path) -> None:
    with Fairlead(folder) as fairlead:
        fairlead.submit_many("acme", [(b"letter", f"{number}.txt") for number in range(1_000)])
        fairlead.run_until_idle(workers=2)
        documents = fairlead.documents(limit=1_000).items
        began = min(document.started_at or 0.0 for document in documents)
        ended = max(document.finished_at or 0.0 for document in documents)
        print(
            f"short letters read by 2 workers, results durable: "
            f"{len(documents) / (ended - began):,.0f} documents/s"
        )


main()
