"""Makes locks, statements, connections and files of Fairlead steps of the scheduler's clients.

In all other threads they are what they always are.
"""

from __future__ import annotations

import re
import select
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg
import pytest
from interleaving import scheduler
from psycopg.pq.abc import PGconn

from fairlead.storage.postgres import pipeline
from fairlead.storage.postgres.pipeline import StatementPipeline
from fairlead.storage.sqlite.connection import SqliteConnection
from fairlead.storage.sqlite.lock_wait import LockWait

_FILE_EVENTS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link"})
_IDS = re.compile(r"[#0-9a-z]*\d[0-9a-z]*")
"""Words with a digit: ids and random parts of names, which differ from run to run."""


class SteppedLock:
    """A lock at which clients step. One that another thread holds for a moment is waited for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_clients = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        found = scheduler()
        if found is None or not blocking:
            return self._taken(self._lock.acquire(blocking, timeout), is_clients=found is not None)
        found.step("lock")
        while not self._lock.acquire(blocking=False):
            if not self._is_clients:
                return self._taken(self._lock.acquire(), is_clients=True)
            found.wait("lock held by another", lambda: not self._lock.locked())
        return self._taken(True, is_clients=True)

    def _taken(self, is_taken: bool, *, is_clients: bool) -> bool:
        if is_taken:
            self._is_clients = is_clients
        return is_taken

    def release(self) -> None:
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class SteppedSemaphore:
    """A bounded semaphore at which clients step; they wait for as long as it takes."""

    def __init__(self, value: int = 1) -> None:
        self._most = self._left = value
        self._changed = threading.Condition()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        found = scheduler()
        if found is not None:
            found.step("take a connection of the pool")
            while not self._left:
                found.wait("no connection is left in the pool", lambda: self._left > 0)
        with self._changed:
            if not self._changed.wait_for(lambda: self._left, timeout if blocking else 0):
                return False
            self._left -= 1
            return True

    def release(self) -> None:
        with self._changed:
            assert self._left < self._most, "released too often"
            self._left += 1
            self._changed.notify()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


def make_steps(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Until the monkeypatch is undone, for what is made from now on; files below the folder."""
    for name, module in list(sys.modules.items()):
        if name.startswith("fairlead."):
            for attribute, stepped in _STEPPED.items():
                if getattr(module, attribute, None) is getattr(threading, attribute):
                    monkeypatch.setattr(module, attribute, stepped)
    for name in ("execute", "executemany"):
        stepped_call = _before_statement(getattr(SqliteConnection, name))
        monkeypatch.setattr(SqliteConnection, name, stepped_call)
    monkeypatch.setattr(LockWait, "__call__", _let_others_go_on(LockWait.__call__))
    monkeypatch.setattr(StatementPipeline, "receive", _before_receive(StatementPipeline.receive))
    monkeypatch.setattr(StatementPipeline, "run", _before_run(StatementPipeline.run))
    monkeypatch.setattr(pipeline.StatementPipeline, "_wait", _await(StatementPipeline._wait))
    monkeypatch.setattr(psycopg, "connect", _before_connect(psycopg.connect))
    _add_audit_hook()
    monkeypatch.setattr(_folder_of, "path", str(folder))


_STEPPED: dict[str, type] = {"Lock": SteppedLock, "BoundedSemaphore": SteppedSemaphore}


# --- SQLite ---


def _before_statement(execute: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(execute)
    def stepped(self: SqliteConnection, statement: str, *values: Any) -> Any:
        found = scheduler()
        if found is not None and not statement.startswith(("PRAGMA", "\nPRAGMA")):
            found.step(_short(statement))
        return execute(self, statement, *values)

    return stepped


def _let_others_go_on(wait: Callable[..., bool]) -> Callable[..., bool]:
    """The busy handler: another connection has the lock of the database."""

    def stepped(self: LockWait, attempts: int) -> bool:
        found = scheduler()
        if found is None:
            return wait(self, attempts)
        found.wait_for_others("the database is locked")
        return True

    return stepped


# --- PostgreSQL ---


def _before_receive(receive: Callable[[StatementPipeline], None]) -> Callable[..., None]:
    @wraps(receive)
    def stepped(self: StatementPipeline) -> None:
        found = scheduler()
        if found is not None and self._sent:
            found.step(f"round trip of {len(self._sent)} statements")
        receive(self)

    return stepped


def _before_run(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    def stepped(self: StatementPipeline, statements: str) -> Any:
        found = scheduler()
        if found is not None:
            found.step(_short(statements))
        return run(self, statements)

    return stepped


def _before_connect(connect: Callable[..., Any]) -> Callable[..., Any]:
    def stepped(*values: Any, **named: Any) -> Any:
        found = scheduler()
        if found is not None:
            found.step("connect")
        return connect(*values, **named)

    return stepped


def _await(wait: Callable[..., None]) -> Callable[..., None]:
    """A client waits for the server: for a result, or in it for a lock of another client."""

    def stepped(self: StatementPipeline, events: int) -> None:
        found = scheduler()
        if found is not None and events == select.POLLIN and _is_stuck(self):
            found.wait("a lock of the database", lambda: not _is_stuck(self))
        wait(self, events)

    return stepped


def _is_stuck(statements: StatementPipeline) -> bool:
    """Whether the server waits for a lock before it can send a result; it asks until either."""
    while not statements._poll(select.POLLIN, 1):
        if _blockers(statements._pgconn):
            return True
    return False


_asking: dict[tuple[bytes, bytes, bytes], psycopg.Connection[Any]] = {}
_asking_lock = threading.Lock()
_connect = psycopg.connect


def _blockers(connection: PGconn) -> list[int]:
    """The server processes that hold the lock for which this connection's one waits."""
    host, port, database = connection.host, connection.port, connection.db
    with _asking_lock:
        server = _asking.get((host, port, database))
        if server is None or server.closed:
            server = _asking[host, port, database] = _connect(
                host=host.decode(),
                port=port.decode(),
                dbname=database.decode(),
                user=connection.user.decode(),
                password=connection.password.decode(),
                autocommit=True,
            )
        row = server.execute("SELECT pg_blocking_pids(%s)", (connection.backend_pid,)).fetchone()
    return [] if row is None else list(row[0])


# --- files ---


class _FolderOf:
    path: str | None = None
    is_hooked = False


_folder_of = _FolderOf()


def _add_audit_hook() -> None:
    if not _folder_of.is_hooked:  # it cannot be removed
        _folder_of.is_hooked = True
        sys.addaudithook(_step_at_file)


def _step_at_file(event: str, values: tuple[Any, ...]) -> None:
    if event not in _FILE_EVENTS or _folder_of.path is None:
        return
    found = scheduler()
    path = values[0]
    if found is None or not isinstance(path, str | Path):
        return
    if str(path).startswith(_folder_of.path):
        found.step(f"{event} {_IDS.sub('*', str(path)[len(_folder_of.path) :])}")


def _short(statement: str) -> str:
    return " ".join(statement.split())[:60]
