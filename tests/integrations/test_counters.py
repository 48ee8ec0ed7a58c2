"""One contract for the counter stores in Redis, PostgreSQL and SQLite, on real servers."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from itertools import chain, count
from pathlib import Path

import apsw
import postgreskit
import pytest
import redis
import servers
from counterkit import PATIENT, cases, counts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_profiles import examples

from fairlead.errors import CounterUnavailable, InvalidSetting
from fairlead.integrations.counters import CounterStore, open_counters
from fairlead.integrations.counters.counter_store import MICRO
from fairlead.model.customers import Counter
from fairlead.policy.classic import ClassicPolicy

OWN: dict[str, Callable[[], AbstractContextManager[servers.Server]]] = {
    "redis": servers.redis,
    "postgres": postgreskit.frail_server,
}
"""A server of one's own, of each kind."""

_customers = (f"customer {number}" for number in count(1))


@pytest.fixture
def counters(counters_url: str, unique: str) -> Iterator[CounterStore]:
    counters = open_counters(counters_url, name=unique, timeout=PATIENT)
    yield counters
    counters.close()


@pytest.mark.parametrize("case", cases())
def test_golden_vectors(counters: CounterStore, case: str) -> None:
    policy = ClassicPolicy()
    for row in cases()[case]:
        counted = counters.check(row["customer"], policy.reset_interval, now=float(row["at"]))
        assert (str(counted), str(policy.priority_of(counted))) == (row["count"], row["priority"])


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1_700_000_000 * MICRO, 1_700_000_009 * MICRO), max_size=25),
    st.sampled_from([0, 1, 999_999, MICRO, 3 * MICRO]),
)
def test_random_histories_end_as_the_rule_says(
    counters: CounterStore, times: list[int], interval: int
) -> None:
    """The rule gets whole microseconds, so that no rounding differs."""
    customer, policy = next(_customers), ClassicPolicy(interval)
    counter: Counter | None = None
    for now in times:
        check = policy.check(counter, now=float(now))
        counter = check.counter
        counted = counters.check(customer, interval / MICRO, now=now / MICRO)
        assert counted == check.count


def test_a_microsecond_decides(counters: CounterStore) -> None:
    start = 1_763_260_000.123456
    assert counters.check("acme", 1500, now=start) == 0
    assert counters.check("acme", 1500, now=start + 1500) == -1
    assert counters.check("acme", 1500, now=start + 3000.000001) == 0


def test_the_clock_is_its_own(counters: CounterStore) -> None:
    assert counters.check("acme", 1500, now=0.0) == 0
    assert counters.check("acme", 1500) == 0, "1970 is longer ago than the interval"
    assert counters.check("acme", 1500) == -1
    assert counters.check("acme", 1500, now=0.0) == -2, "time never goes back"
    assert counters.check("acme", 1500) == -3


def test_processes_get_each_count_once(counters_url: str, unique: str) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        counted = pool.starmap(counts, [(counters_url, unique, 50)] * 4)
    assert sorted(chain(*counted), reverse=True) == [-place for place in range(200)]
    assert all(own == sorted(own, reverse=True) for own in counted)


def test_threads_get_each_count_once(counters: CounterStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        counted = list(pool.map(lambda _: counters.check("acme", 1500), range(200)))
    assert sorted(counted, reverse=True) == [-place for place in range(200)]


def test_a_forked_child_and_its_parent_go_on(counters_url: str, unique: str) -> None:
    script = f"""
        import os
        from fairlead.integrations.counters import open_counters
        counters = open_counters({counters_url!r}, name={unique!r}, timeout={PATIENT})
        print(counters.check("acme", 1500), flush=True)
        child = os.fork()
        if child == 0:
            print(counters.check("acme", 1500), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(counters.check("acme", 1500), flush=True)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["0", "-1", "-2"], "")


def test_customers_and_names_are_kept_apart(counters_url: str, unique: str) -> None:
    first = open_counters(counters_url, name=f"{unique} a", timeout=PATIENT)
    second = open_counters(counters_url, name=f"{unique} b", timeout=PATIENT)
    names = ["acme", "ACME", "Łódź", "客戶", "a:b", "x" * 200, "%s", "' OR 1=1 --", "?1"]
    assert [first.check(name, 1500) for name in names * 2] == [0] * 9 + [-1] * 9
    assert [second.check(name, 1500) for name in names] == [0] * 9
    first.close()
    second.close()


def test_closed_counters_open_again(counters: CounterStore) -> None:
    assert counters.check("acme", 1500) == 0
    counters.close()
    assert counters.check("acme", 1500) == -1


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_a_server_that_stops_is_said_to_be_down_and_used_when_it_is_back(kind: str) -> None:
    with OWN[kind]() as server:
        counters = open_counters(server.url, timeout=PATIENT)
        assert counters.check("acme", 1500) == 0
        server.stop()
        for _ in range(2):
            with pytest.raises(CounterUnavailable):
                counters.check("acme", 1500)
        server.start()
        assert [counters.check("other", 1500) for _ in range(3)] == [0, -1, -2]
        counters.close()


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_a_server_that_freezes_is_not_waited_for(kind: str) -> None:
    with OWN[kind]() as server:
        patient = open_counters(server.url, timeout=PATIENT)
        connected = open_counters(server.url, timeout=0.2)
        patient.check("acme", 1500)  # the table is there
        with suppress(CounterUnavailable):  # a busy machine
            connected.check("acme", 1500)
        server.freeze()
        for counters in (connected, open_counters(server.url, timeout=0.2)):
            with pytest.raises(CounterUnavailable):
                counters.check("acme", 1500)
        server.thaw()
        assert patient.check("acme", 1500) < 0
        patient.close()
        connected.close()


def test_a_locked_sqlite_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "counters.db"
    counters = open_counters(f"sqlite:///{path}", timeout=0.05)
    assert counters.check("acme", 1500) == 0
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CounterUnavailable, match="locked"):
        counters.check("acme", 1500)
    other.execute("ROLLBACK")
    assert counters.check("acme", 1500) == -1
    other.close()
    counters.close()


def test_wrong_credentials_and_a_missing_database_are_said(postgres_server: servers.Server) -> None:
    counters = open_counters(
        postgres_server.url.removesuffix("fairlead") + "nothing", timeout=PATIENT
    )
    with pytest.raises(CounterUnavailable, match='"nothing" does not exist'):
        counters.check("acme", 1500)


def test_redis_forgets_a_customer_when_its_count_would_start_over(
    redis_server: servers.Server, unique: str
) -> None:
    counters = open_counters(redis_server.url, name=unique, timeout=PATIENT)
    counters.check("acme", 60)
    counters.check("eternal", 1e15)
    client = redis.Redis.from_url(redis_server.url)
    assert 60_000 < client.pttl(f"fairlead:{unique}:acme") <= 61_000
    assert client.pttl(f"fairlead:{unique}:eternal") > 0
    client.set(f"fairlead:{unique}:foreign", "not ours")
    with pytest.raises(CounterUnavailable):
        counters.check("foreign", 1500)
    client.close()
    counters.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "mysql://host/db",
        "http://[",
        None,
        5,
        "sqlite://counters.db",
        "sqlite:///",
        "redis://host:port/0",
        "postgresql://h/db?colour=red",
    ],
)
def test_an_invalid_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidSetting, match="counters must be"):
        open_counters(url)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "postgresql://127.0.0.1:1/x"])
def test_an_address_where_nobody_listens_is_said_at_the_check(url: str) -> None:
    counters = open_counters(url)
    with pytest.raises(CounterUnavailable):
        counters.check("acme", 1500)


def test_a_folder_that_is_not_there_is_said_at_the_check(tmp_path: Path) -> None:
    with pytest.raises(CounterUnavailable, match="unable to open"):
        open_counters(f"sqlite:///{tmp_path}/no/counters.db").check("acme", 1500)
