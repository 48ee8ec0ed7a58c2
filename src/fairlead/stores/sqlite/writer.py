"""Group commit: writes that arrive together share one transaction, and so one wait for the disk.

There is no writer thread. Whoever comes first does the work of all who wait by then; they find
it done when they get the lock. A lone writer pays nothing for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

import apsw

from fairlead.errors import StoreBusy
from fairlead.stores.sqlite.database import connect, our_words

T = TypeVar("T")
MOST_TOGETHER = 256


class _Write(Generic[T]):
    """One caller's write and what became of it."""

    def __init__(self, action: Callable[[apsw.Connection], T], *, durable: bool) -> None:
        self.action = action
        self.durable = durable
        self.has_run = False
        self.is_settled = False
        self.error: Exception | None = None
        self.result: T

    def run(self, connection: apsw.Connection) -> None:
        self.result = self.action(connection)
        self.has_run = True

    def run_beside_others(self, connection: apsw.Connection) -> None:
        """Run in a savepoint of its own, so that its error undoes nothing of the others."""
        connection.execute("SAVEPOINT one")
        try:
            self.run(connection)
        except Exception as error:
            if not connection.in_transaction:  # SQLite rolled back all of it, as on a full disk
                raise
            self.error, self.has_run = error, True
            connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result


def _result_or_error(write: _Write[Any], path: Path) -> Any:
    try:
        with our_words(path):
            return write.outcome()
    except Exception as error:  # for the caller to raise
        return error


class Writer:
    """The one connection of a process that writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = connect(path)
        self._is_durable = True
        self._lock = Lock()
        self._queue: deque[_Write[Any]] = deque()
        self.commits = 0
        self.writes = 0

    def run(self, action: Callable[[apsw.Connection], T], *, durable: bool = True) -> T:
        """Run the action in a transaction; return when it is committed.

        `durable=False` skips the wait for the disk. The commit is then atomic and seen by all
        processes, but a power cut may undo it. Right for what may just as well not have
        happened, such as a claim.
        """
        write = _Write(action, durable=durable)
        self._settle([write])
        with our_words(self._path):
            return write.outcome()

    def run_each(self, actions: Sequence[Callable[[apsw.Connection], T]]) -> list[T | Exception]:
        """Run many actions that share commits, each done or undone on its own."""
        writes = [_Write(action, durable=True) for action in actions]
        self._settle(writes)
        return [_result_or_error(write, self._path) for write in writes]

    def _settle(self, writes: Sequence[_Write[Any]]) -> None:
        for write in writes:
            self._queue.append(write)
        with self._lock:
            while not all(write.is_settled for write in writes):
                if not self._queue:
                    raise StoreBusy(
                        "the write was interrupted together with another one; "
                        "look whether it was done, then try again"
                    )
                self._settle_next_batch()

    def close(self) -> None:
        """Close the connection; what was committed stays."""
        with self._lock:
            self._connection.close()

    def _settle_next_batch(self) -> None:
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_TOGETHER))]
        try:
            self._commit(batch)
        except Exception as error:  # each caller gets it
            self._undo(batch, error)
        except BaseException:
            if not self._is_committed(batch):
                self._undo(batch, StoreBusy("the write was interrupted and undone; try again"))
            raise
        finally:
            for write in batch:
                write.is_settled = True

    def _commit(self, batch: list[_Write[Any]]) -> None:
        self._set_durable(durable=any(write.durable for write in batch))
        self._connection.execute("BEGIN IMMEDIATE")
        if len(batch) == 1:
            batch[0].run(self._connection)
        else:
            for write in batch:
                write.run_beside_others(self._connection)
        self._connection.execute("COMMIT")
        self.commits += 1
        self.writes += len(batch)

    def _is_committed(self, batch: list[_Write[Any]]) -> bool:
        """Whether an interruption came too late to undo anything."""
        return all(write.has_run for write in batch) and not self._connection.in_transaction

    def _set_durable(self, *, durable: bool) -> None:
        if durable != self._is_durable:
            level = "FULL" if durable else "NORMAL"
            self._connection.execute(f"PRAGMA synchronous = {level}")
            self._is_durable = durable

    def _undo(self, batch: list[_Write[Any]], error: Exception) -> None:
        for write in batch:  # first of all: nobody may take an undone write for a done one
            write.error = write.error or error
        with suppress(apsw.ConnectionClosedError):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
