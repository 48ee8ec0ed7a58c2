"""Group commit: writes that arrive together share one transaction, and so one wait for the disk.

There is no writer thread. Whoever comes first does the work of all who wait by then; they find
it done when they get the lock. A lone writer pays nothing for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Generic, TypeVar

from fairlead.errors import StoreBusy
from fairlead.storage.sql.connection import Connection
from fairlead.storage.sql.lease_grace import LeaseGrace

T = TypeVar("T")
MOST_TOGETHER = 256


class _Write(Generic[T]):
    """One caller's write and what became of it."""

    def __init__(self, action: Callable[[Connection], T], *, durable: bool) -> None:
        self.action = action
        self.durable = durable
        self.has_run = False
        self.is_settled = False
        self.error: Exception | None = None
        self.result: T

    def run(self, connection: Connection) -> None:
        self.result = self.action(connection)
        self.has_run = True

    def run_beside_others(self, connection: Connection) -> None:
        """Run in a savepoint of its own, so that its error undoes nothing of the others."""
        connection.execute("SAVEPOINT one")
        try:
            self.run(connection)
            connection.execute("RELEASE one")
        except Exception as error:
            if not connection.in_transaction:  # all of it was rolled back, as on a full disk
                raise
            self.error, self.has_run = error, True
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result


class Writer(ABC):
    """The one connection of a process that writes. A subclass says how its database does it.

    `clock` gives the store's time, as far as that is known without a question; else inf.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._hold_up = LeaseGrace(clock)
        self._lock = Lock()
        self._queue: deque[_Write[Any]] = deque()
        self.commits = 0
        self.writes = 0

    def run(self, action: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Run the action in a transaction; return when it is committed.

        `durable=False` skips the wait for the disk. The commit is then atomic and seen by all
        processes, but a power cut may undo it. Right for what may just as well not have
        happened, such as a claim.
        """
        write = _Write(action, durable=durable)
        self._settle([write])
        with self._our_words():
            return write.outcome()

    def run_each(self, actions: Sequence[Callable[[Connection], T]]) -> list[T | Exception]:
        """Run many actions that share commits, each done or undone on its own."""
        writes = [_Write(action, durable=True) for action in actions]
        self._settle(writes)
        return [self._result_or_error(write) for write in writes]

    def asked_at(self) -> float:
        """The time, or since when nobody was let in: which leases had ended when one could tell."""
        since = self._hold_up.since()
        return self._clock() if since is None else since

    @abstractmethod
    def close(self) -> None:
        """Close the connection; what was committed stays."""

    @abstractmethod
    def _our_words(self) -> AbstractContextManager[None]:
        """Turns the database's errors into Fairlead's."""

    @abstractmethod
    def _begin(self, *, durable: bool) -> Connection:
        """Begin a transaction in which nobody else writes."""

    @abstractmethod
    def _end(self, *, durable: bool) -> None:
        """Commit; if it is to be durable, return when it is safe."""

    @abstractmethod
    def _is_in_transaction(self) -> bool:
        """Whether what was begun has not ended."""

    @abstractmethod
    def _roll_back(self) -> None:
        """Undo what was begun, if there is anything left to undo."""

    def _after(self) -> None:  # noqa: B027 (most have nothing to do)
        """When a transaction has ended, and its callers will be told: what there is to tidy up."""

    def _result_or_error(self, write: _Write[Any]) -> Any:
        try:
            with self._our_words():
                return write.outcome()
        except Exception as error:  # for the caller to raise
            return error

    def _settle(self, writes: Sequence[_Write[Any]]) -> None:
        for write in writes:
            self._queue.append(write)
        with self._lock:
            while not all(write.is_settled for write in writes):
                if not self._queue:
                    raise StoreBusy(
                        "the write was interrupted together with another one; "
                        "check whether it was done, then retry"
                    )
                self._settle_next_batch()
                self._after()

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
        durable = any(write.durable for write in batch)
        connection = self._let_in(durable=durable)
        if len(batch) == 1:
            batch[0].run(connection)
        else:
            for write in batch:
                write.run_beside_others(connection)
        self._end(durable=durable)
        self.commits += 1
        self.writes += len(batch)

    def _let_in(self, *, durable: bool) -> Connection:
        began = self._clock()
        try:
            connection = self._begin(durable=durable)
        except Exception:
            self._hold_up.met(began)
            raise
        self._hold_up.passed(began)
        return connection

    def _is_committed(self, batch: list[_Write[Any]]) -> bool:
        """Whether an interruption came too late to undo anything."""
        return all(write.has_run for write in batch) and not self._is_in_transaction()

    def _undo(self, batch: list[_Write[Any]], error: Exception) -> None:
        for write in batch:  # first of all: nobody may take an undone write for a done one
            write.error = write.error or error
        self._roll_back()
