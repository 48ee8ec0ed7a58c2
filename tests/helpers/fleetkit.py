"""Several machines in one: API processes and Celery workers on one PostgreSQL and one broker.

A machine is a data folder of its own; what all share are the database, the broker and the folder of
files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from pathlib import Path

import psycopg
from apikit import Served, served
from servers import descendants

from fairlead import Fairlead
from fairlead.model.documents import Document, Event, EventKind

SLOWEST = 120.0
ENDS = (EventKind.DONE, EventKind.FAILED, EventKind.CANCELLED)
_BACK = (EventKind.RESCUED, EventKind.RELEASED)
_SLACK = 1.0
"""Seconds that may pass between the snapshot of a claim and its time, on a busy machine."""


class Worker:
    """A Celery worker that a test may kill, whole or in part."""

    def __init__(self, machine: Path, environment: Mapping[str, str], processes: int) -> None:
        self._command = [sys.executable, "-m", "fairlead", "worker", "--engine", "celery"]
        self._command += ["--data", str(machine), "--workers", str(processes), "--quiet"]
        self._environment = {**os.environ, **environment}
        self.log = machine / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    def pool(self) -> list[int]:
        """The processes of its pool, in which messages are heard."""
        assert self._process is not None
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with suppress(FileNotFoundError):
            return [int(pid) for pid in path.read_text().split()]
        return []

    def kill_one(self, number: int) -> None:
        """End one process of the pool as by a power cut; Celery puts another in its place."""
        if pool := self.pool():
            with suppress(ProcessLookupError):
                os.kill(pool[number % len(pool)], signal.SIGKILL)

    def kill(self) -> None:
        """End all of it as by a power cut."""
        if self._process is None:
            return
        for pid in [self._process.pid, *descendants(self._process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self) -> int:
        """End it in order; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(60)
        self._process = None
        return code


class Fleet:
    """Machines with API processes and workers."""

    def __init__(self, folder: Path, store: str, broker: str) -> None:
        self.folder = folder
        self.settings = {
            "store": store,
            "files": str(folder / "shared"),
            "broker": broker,
            "engine": "celery",
            "lease": "5",
            "retry_delay": "0.1",
            "max_attempts": "20",
        }
        self.apis: list[Served] = []
        self.workers: list[Worker] = []
        self._stack = ExitStack()

    def machine(self, name: str) -> Path:
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        return place

    def add_api(self, name: str) -> Served:
        api = self._stack.enter_context(served(self.machine(name), **self.settings))
        self.apis.append(api)
        return api

    def add_worker(self, name: str, processes: int) -> Worker:
        environment = {f"FAIRLEAD_{key.upper()}": value for key, value in self.settings.items()}
        worker = Worker(self.machine(name), environment, processes)
        worker.start()
        self.workers.append(worker)
        return worker

    def installation(self) -> Fairlead:
        return Fairlead(self.machine("watcher"), settings=self.settings)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        self._stack.close()


@contextmanager
def fleet(folder: Path, store: str, broker: str) -> Iterator[Fleet]:
    machines = Fleet(folder, store, broker)
    try:
        yield machines
    finally:
        machines.close()


def wait(fairlead: Fairlead, *documents: Document) -> None:
    """Return when all have ended; say so when that takes far too long."""
    end = time.monotonic() + SLOWEST

    def look(left: int) -> None:
        assert time.monotonic() < end, f"{left} documents have not ended within {SLOWEST:g} s"

    fairlead.wait([document.id for document in documents], on_progress=look)


def every_event(fairlead: Fairlead) -> list[Event]:
    """All that happened, oldest first."""
    events: list[Event] = []
    while page := fairlead.store.events(events[-1].seq if events else 0, limit=10_000):
        events += page
    return events


def inversions(fairlead: Fairlead, events: list[Event], documents: Mapping[str, Document]) -> int:
    """Claims of a document while a better one waited that could have been claimed.

    No event says when a delayed document waits again, so no claim has to wait for it.
    """
    commits, arrivals = commit_times(fairlead, events), arrival_numbers(fairlead)
    places = {id_: (document.priority, arrivals[id_]) for id_, document in documents.items()}
    since: dict[str, float] = {}
    wrong = 0
    for event in events:
        id_ = event.document
        if id_ is None:
            continue
        if event.kind is EventKind.SUBMITTED or event.kind in _BACK:
            since[id_] = commits[event.seq]
        elif event.kind is EventKind.REQUEUED:
            since[id_] = inf
        elif event.kind is EventKind.CLAIMED:
            del since[id_]
            known = event.at - _SLACK
            better = (places[other] for other, at in since.items() if at < known)
            is_wrong = min(better, default=places[id_]) < places[id_]
            wrong += is_wrong and not event.data.get("lane")
    return wrong


def commit_times(fairlead: Fairlead, events: list[Event]) -> dict[int, float]:
    """When each event became visible to others, by its number.

    On PostgreSQL a write may take long to commit, and no claim waits for it. On SQLite the time of
    a write is taken behind the lock of all writes.
    """
    url = fairlead.settings.store
    if url is None:
        return {event.seq: event.at for event in events}
    with psycopg.connect(url) as connection:
        return dict(
            connection.execute(
                "SELECT seq, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM events"
            ).fetchall()
        )


def arrival_numbers(fairlead: Fairlead) -> dict[str, int]:
    """The order of acceptance, which need not be that of the events: `docs list` has it."""
    newest_first = [document.id for document in fairlead.documents(limit=1000)]
    return {id_: number for number, id_ in enumerate(reversed(newest_first))}
