"""Samples the wait events of PostgreSQL while processes submit for different customers."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg

from bench.peers.contestants import FSYNC, Contestant
from bench.peers.counting import Counts
from bench.peers.measure import Effort, Program, fresh_place, wait_for_start
from bench.peers.servers import Servers

PROCESSES = 8
INTERVAL = 0.003
SAMPLE = """
    SELECT wait_event_type, wait_event FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()
"""


def main(servers: Servers, seconds: float) -> None:
    """Small and large submissions: the first commit more often, the others hold locks longer."""
    for batch in (1, 500):
        waits, samples, documents = sample(servers, batch, seconds)
        print(
            f"{PROCESSES} processes submit in {batch}s for {seconds:.0f} s, "
            f"{documents / seconds:,.0f} documents/s; {samples} samples of {waits.total()} "
            "active backends"
        )
        print_waits("Lock", waits, lambda kind, name: kind == "Lock" and name != "extend")
        print_waits("Lock, file extension", waits, lambda kind, name: (kind, name) == EXTENSION)
        print_waits("LWLock", waits, lambda kind, _name: kind == "LWLock")


EXTENSION = ("Lock", "extend")


def sample(
    servers: Servers, batch: int, seconds: float
) -> tuple[Counter[tuple[str, str]], int, int]:
    """Wait events of active backends, the number of samples, and of documents accepted."""
    contestant = Contestant("fairlead-postgres", "fairlead_store", "postgres", FSYNC, batch, 0)
    effort = Effort(PROCESSES, seconds, documents=PROCESSES * batch)
    waits: Counter[tuple[str, str]] = Counter()
    samples = 0
    with fresh_place(servers, contestant) as place, tempfile.TemporaryDirectory() as folder:
        counts = Counts(Path(folder))
        program = Program(contestant, effort, place, counts)
        program.run("fill", documents=0)  # makes the tables
        with (
            program.workers("submit_until_ended") as processes,
            servers.postgres.as_superuser() as connection,
        ):
            wait_for_start(processes, counts, PROCESSES)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                waits.update(events(connection))
                samples += 1
                time.sleep(INTERVAL)
            return waits, samples, counts.total()


def events(connection: psycopg.Connection) -> list[tuple[str, str]]:
    return [(kind or "", name or "") for kind, name in connection.execute(SAMPLE)]


def print_waits(
    title: str, waits: Counter[tuple[str, str]], wanted: Callable[[str, str], bool]
) -> None:
    chosen = Counter({name: n for (kind, name), n in waits.items() if wanted(kind, name)})
    names = ", ".join(f"{name} {number}" for name, number in chosen.most_common())
    print(f"  waiting for {title}: {chosen.total()}{f' ({names})' if names else ''}")
