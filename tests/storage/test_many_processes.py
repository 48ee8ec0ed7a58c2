"""Eight real processes use one store in every way; what they committed is replayed by the model.

The replay must give the same order, charges, counts, caps and quotas: claims are the only ones to
decide who is next, whoever else writes meanwhile, and however a process ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import postgreskit
import pytest
from busy_store_process import (
    BURST,
    CUSTOMERS,
    PENDING_CAP,
    PIPELINES,
    SETTINGS,
    SHARED,
    open_store,
)
from committed_history import ProcessClock, Replay, make_history_table, replay
from storekit import STORES, fast_folder

from fairlead.storage import Store
from fairlead.storage.sql.queries import Connection

pytestmark = pytest.mark.postgres_differs

PROCESSES, PARENT = 8, 15
KILLED = 3
"""The process that is killed in the middle of its work."""
SHORT, LONG = 4.0, 60.0
HELPERS = Path(__file__).parents[1] / "helpers"
POLICIES = ("classic", "fair")


@pytest.mark.full
@pytest.mark.services
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", STORES)
def test_the_model_replays_what_eight_processes_did(kind: str, policy: str) -> None:
    check_many_processes(kind, policy, SHORT)


@pytest.mark.services
@pytest.mark.faults
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", STORES)
def test_the_model_replays_what_eight_processes_did_for_a_minute(kind: str, policy: str) -> None:
    check_many_processes(kind, policy, LONG)


def check_many_processes(kind: str, policy: str, seconds: float) -> None:
    base = time.monotonic()
    with fast_folder() as folder, prepared(kind, folder, policy, base) as store:
        done = run_processes(kind, folder, policy, seconds, base)
        replayed = replay(store, SETTINGS[policy])
        print(f"{kind} {policy}: {summary(replayed, done)}")
        assert not replayed.differences, "\n".join(replayed.differences)
        assert replayed.starts >= done["claimed"] > 0
        assert store.problems() == []
        check_accepted(store, folder)
        if policy == "classic":
            counts = [
                document.count for document in store.documents(customer=BURST, limit=1_000_000)
            ]
            assert sorted(counts, reverse=True) == [-number for number in range(len(counts))]


@contextmanager
def prepared(kind: str, folder: Path, policy: str, base: float) -> Iterator[Store]:
    """A store with its customers, quotas and the table of the history."""
    if kind == "postgres":
        postgreskit.server()
    with postgreskit.lent(folder):
        store = open_store(kind, folder, policy, ProcessClock(base, PARENT))
        try:
            make_history_table(store)
            set_quotas(store)
            for name in (*CUSTOMERS, BURST):
                store.add_customer(name)
            for name in SHARED:
                store.set_customer(name, account="shared")
            store.set_customer(CUSTOMERS[-1], pending_cap=PENDING_CAP)
            if policy == "classic":
                store.set_customer(BURST, reset_interval=1e6)
            yield store
        finally:
            store.close()


def set_quotas(store: Store) -> None:
    quotas = {
        name: {"rate": quota.limit, "max_running": quota.max_running}
        for name, quota in PIPELINES.items()
    }

    def write(connection: Connection) -> None:
        connection.execute("UPDATE queue_state SET quotas = ?", (json.dumps(quotas),))

    store._writer.run(write)


def run_processes(
    kind: str, folder: Path, policy: str, seconds: float, base: float
) -> Counter[str]:
    """Let the processes work, and kill one of them; what they did."""
    script = str(HELPERS / "busy_store_process.py")
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                script,
                kind,
                str(folder),
                policy,
                str(number),
                str(seconds),
                str(base),
            ],
            env={"PYTHONPATH": ":".join(sys.path), **postgreskit.address()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    try:
        for process in processes:
            assert line_of(process) == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            processes[KILLED].wait(timeout=seconds / 2)
        processes[KILLED].kill()
        done: Counter[str] = Counter()
        for number, process in enumerate(processes):
            output, errors = process.communicate(timeout=seconds + 60)
            if number != KILLED:
                assert process.returncode == 0, errors
                done.update(json.loads(output.splitlines()[-1]))
        return done
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def check_accepted(store: Store, folder: Path) -> None:
    """Every document that was accepted exists, and none exists twice."""
    accepted = [
        line for path in sorted(folder.glob("accepted-*")) for line in path.read_text().split()
    ]
    assert len(accepted) == len(set(accepted)) > 0
    assert set(accepted) - store.known_documents(accepted) == set()


def summary(replayed: Replay, done: Counter[str]) -> str:
    return (
        f"{replayed.claims} versions, {replayed.starts} starts, {replayed.lane_starts} by lane, "
        f"{replayed.checks} counts, {dict(replayed.kinds)}, differences: "
        f"{len(replayed.differences)}; processes: {dict(done)}"
    )
