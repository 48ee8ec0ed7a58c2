"""The pool of connections to PostgreSQL: many threads at once, also on a distant server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import postgreskit
import pytest
from latency_proxy import distant
from psycopg.conninfo import conninfo_to_dict
from storekit import submission, submit

from fairlead.errors import StoreBusy
from fairlead.policy.rules import Rules
from fairlead.storage import Store
from fairlead.storage.postgres import PostgresStore, pool

pytestmark = pytest.mark.services

AT_ONCE = 64
LONGEST = 5.0

Call = Callable[[Store, int], object]


def as_customer(store: Store, call: Callable[[], object]) -> object:
    with store.seen_by("acme"):
        return call()


def change(store: Store, number: int) -> None:
    store.set_customer("acme", weight=1.0 + number)


CALLS: dict[str, Call] = {
    "customer": lambda store, _: store.customer("acme"),
    "its own customer": lambda store, _: as_customer(store, lambda: store.customer("acme")),
    "customers": lambda store, _: store.customers(),
    "its own customers": lambda store, _: as_customer(store, store.customers),
    "documents": lambda store, _: as_customer(store, store.documents),
    "events": lambda store, _: store.events(),
    "ends": lambda store, _: store.ends(),
    "fairness": lambda store, _: store.fairness(),
    "pipelines": lambda store, _: store.pipelines(),
    "totals": lambda store, _: store.totals(),
    "submit": lambda store, number: submit(store, f"customer {number}"),
    "submit each": lambda store, number: store.submit_each([submission(f"customer {number}")]),
    "change": change,
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with postgreskit.lent(tmp_path):
        yield postgreskit.url_for(tmp_path)


@contextmanager
def opened(url: str) -> Iterator[Store]:
    rules = Rules(policy="fair")
    store = PostgresStore(url, rules=lambda: rules)
    try:
        yield store
    finally:
        store.close()


def slowest(store: Store, call: Call) -> float:
    """The seconds of the slowest of many calls that begin together."""
    barrier = Barrier(AT_ONCE)

    def seconds(number: int) -> float:
        barrier.wait()
        began = time.monotonic()
        call(store, number)
        return time.monotonic() - began

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return max(threads.map(seconds, range(AT_ONCE)))


ALWAYS = ("customer", "its own customers", "submit")
"""The calls that `make test` tries, without latency."""
CASES = [
    pytest.param(name, latency, marks=[] if name in ALWAYS and not latency else pytest.mark.full)
    for name in CALLS
    for latency in (0.0, 0.005, 0.05)
]


@pytest.mark.parametrize(("name", "latency"), CASES)
def test_many_calls_at_once_on_a_cold_pool_are_all_answered(
    url: str, name: str, latency: float
) -> None:
    port = int(str(conninfo_to_dict(url)["port"]))
    with distant(port, latency) as proxy:
        far = url.replace(f":{port}/", f":{proxy}/")
        with opened(url) as store:
            store.add_customer("acme")
        with opened(far) as store:
            assert slowest(store, CALLS[name]) < LONGEST + latency


def test_a_thread_that_holds_a_connection_may_not_wait_for_another(url: str) -> None:
    with opened(url) as store, store._reading():
        for nested in (
            store.customers,
            lambda: store.add_customer("acme"),
            lambda: store.claim("worker"),
        ):
            with pytest.raises(RuntimeError, match="may not wait"):
                nested()


def test_a_full_pool_does_not_blame_the_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "BUSY_SECONDS", 0.0)
    monkeypatch.setattr(pool, "MOST", 1)

    def other_thread(store: Store) -> Any:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(store.totals).result()

    with (
        opened(url) as store,
        store._reading(),
        pytest.raises(StoreBusy, match="all 1 connections of this process"),
    ):
        other_thread(store)
