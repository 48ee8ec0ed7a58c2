"""Measures workers whose PostgreSQL server is far away: documents a second, and round trips.

It starts a server of its own behind a proxy that delays every byte.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from bench.postgres import served
from fairlead import Fairlead
from fairlead.storage import Store
from fairlead.storage.postgres.pipeline import StatementPipeline

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from latency_proxy import distant

CALLS = ("claim_requests", "finish_all", "renew", "lost", "attend", "lease_holders", "is_idle")
"""The calls of an engine."""


class RoundTrips:
    """Counts the calls of a store, their round trips and their seconds."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.trips: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._own = threading.local()

    def count(self, store: Store) -> None:
        for name in CALLS:
            setattr(store, name, self._counted(name, getattr(store, name)))
        receive = StatementPipeline.receive

        def counted(pipeline: StatementPipeline) -> None:
            if pipeline.is_awaited:
                self.trips[getattr(self._own, "call", "others")] += 1
            receive(pipeline)

        setattr(StatementPipeline, "receive", counted)  # noqa: B010 (mypy refuses an assignment)

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def counted(*values: Any, **named: Any) -> Any:
            self._own.call, began = name, time.monotonic()
            try:
                return call(*values, **named)
            finally:
                self._own.call = "others"
                self.calls[name] += 1
                self.seconds[name] += time.monotonic() - began

        return counted


@click.command()
@click.option("--latency", default=50.0, show_default=True, help="Milliseconds of a round trip.")
@click.option("--workers", default=4, show_default=True)
@click.option("--documents", default=1200, show_default=True, help="Short texts.")
@click.option("--customers", default=4, show_default=True)
def main(latency: float, workers: int, documents: int, customers: int) -> None:
    """Print how many short documents a second workers process on a distant server."""
    with (
        served() as server,
        distant(server.port, latency / 1000) as port,
        tempfile.TemporaryDirectory() as folder,
    ):
        url = server.url_of("distant").replace(f":{server.port}/", f":{port}/")
        with Fairlead(Path(folder), settings={"store": url}) as fairlead:
            for number in range(customers):
                contents = [b"a short text %d" % each for each in range(documents // customers)]
                fairlead.submit_many(f"customer {number}", contents)
            measure(fairlead, workers, documents, latency)


def measure(fairlead: Fairlead, workers: int, documents: int, latency: float) -> None:
    trips = RoundTrips()
    trips.count(fairlead.store)
    began = time.monotonic()
    fairlead.run_until_idle(workers=workers)
    rate = documents / (time.monotonic() - began)
    print(f"{latency:g} ms, {workers} workers: {rate:,.1f} documents/s")
    for name, number in trips.calls.items():
        print(
            f"  {name}: {number} calls of {trips.trips[name] / number:.1f} round trips and "
            f"{1000 * trips.seconds[name] / number:,.0f} ms"
        )


if __name__ == "__main__":
    main()
