"""Group commit: writes that arrive together share one transaction, and so one fsync.

There is no writer thread. The thread that gets the lock first commits the writes of all threads
that wait by then; they find theirs done when they get the lock. A lone writer pays nothing for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Generic, TypeVar

from fairlead.errors import StoreBusy
from fairlead.storage.sql.queries import Connection

T = TypeVar("T")
MOST_TOGETHER = 256
SHORT_WAIT = 1.0
"""Seconds; a longer wait for the database is an outage."""
AFTERMATH = 30.0
"""Seconds after an outage in which other processes, which waited too, renew their leases."""


class LeaseGrace:
    """Since when the database has not let this process write, also if that has just passed.

    Nobody can renew a lease meanwhile, so one that has ended since then says nothing about its
    holder.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._is_on = False
        self._since = self._until = float("-inf")

    def failed(self, began: float) -> None:
        """The attempt to write that began then was given up."""
        self._note(began)
        self._is_on = True

    def succeeded(self, began: float) -> None:
        """The attempt to write that began then got the lock."""
        if self._is_on or self._clock() - began > SHORT_WAIT:
            self._note(began)
            self._is_on = False

    def since(self) -> float | None:
        """When the outage began; None: it is long over."""
        return self._since if self._is_on or self._clock() < self._until else None

    def _note(self, began: float) -> None:
        if not self._is_on:  # a new outage: leases that ended before it may be taken back by now
            self._since = began
        self._until = self._clock() + AFTERMATH


class _Write(Generic[T]):
    """One caller's write and its outcome."""

    def __init__(self, action: Callable[[Connection], T], *, durable: bool) -> None:
        self.action = action
        self.durable = durable
        self.has_run = False
        self.is_settled = False
        self.error: Exception | None = None
        self.result: T

    def run_in_savepoint(self, connection: Connection) -> None:
        """Run so that an error undoes nothing of the other writes."""
        connection.execute("SAVEPOINT one")
        try:
            self.result = self.action(connection)
            connection.execute("RELEASE one")
        except Exception as error:
            if not connection.in_transaction:  # all of it was rolled back, as on a full disk
                raise
            self.error = error
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
        self.has_run = True


class Writer(ABC):
    """Makes the changes of a process, each in a transaction."""

    commits: int
    writes: int

    @abstractmethod
    def run(self, action: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Run the action in a transaction; return when it is committed.

        `durable=False` skips the fsync. The commit is then atomic and seen by all processes, but a
        power cut may undo it. Right for what may just as well not have happened, such as a claim.
        """

    @abstractmethod
    def run_each(self, actions: Sequence[Callable[[Connection], T]]) -> list[T | Exception]:
        """Run many actions, each done or undone on its own."""

    @abstractmethod
    def run_alone(
        self, action: Callable[[Connection], T], *, durable: bool, excludes_writes: bool = False
    ) -> T:
        """Run an action of which only one may run at a time in all processes, such as a claim.

        It sees one snapshot. `excludes_writes`: nobody writes anything meanwhile.
        """

    @abstractmethod
    def asked_at(self) -> float:
        """The time, or when an outage began: leases that ended later are not taken back."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections; what was committed stays."""


class GroupCommitWriter(Writer):
    """The one connection of a process that writes. A subclass brings the database.

    `clock` is the store's, as far as it is known without a query; else it gives inf.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._grace = LeaseGrace(clock)
        self._lock = Lock()
        self._queue: deque[_Write[Any]] = deque()
        self.commits = 0
        self.writes = 0

    def run(self, action: Callable[[Connection], T], *, durable: bool = True) -> T:
        write = _Write(action, durable=durable)
        self._settle([write])
        return self._outcome(write)

    def run_alone(
        self,
        action: Callable[[Connection], T],
        *,
        durable: bool,
        excludes_writes: bool = False,  # noqa: ARG002 (nobody else writes meanwhile)
    ) -> T:
        return self.run(action, durable=durable)

    def run_each(self, actions: Sequence[Callable[[Connection], T]]) -> list[T | Exception]:
        writes = [_Write(action, durable=True) for action in actions]
        self._settle(writes)
        return [self._result_or_error(write) for write in writes]

    def _outcome(self, write: _Write[T]) -> T:
        if write.error is not None:
            with self._our_errors():
                raise write.error
        return write.result

    def _result_or_error(self, write: _Write[Any]) -> Any:
        try:
            return self._outcome(write)
        except Exception as error:  # for the caller to raise
            return error

    def asked_at(self) -> float:
        since = self._grace.since()
        return self._clock() if since is None else since

    @abstractmethod
    def _our_errors(self) -> AbstractContextManager[None]:
        """Turns the database's errors into Fairlead's."""

    @abstractmethod
    def _begin(self, *, durable: bool) -> Connection:
        """Begin a transaction in which nobody else writes."""

    @abstractmethod
    def _end(self) -> None:
        """Commit; if the transaction was begun as durable, return when it is."""

    @abstractmethod
    def _is_in_transaction(self) -> bool: ...

    @abstractmethod
    def _roll_back(self) -> None:
        """Undo what was begun, if there is anything left to undo."""

    def _after(self) -> None:
        """Called after each transaction, before its callers return."""

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
            is_committed = all(each.has_run for each in batch) and not self._is_in_transaction()
            if not is_committed:
                self._undo(batch, StoreBusy("the write was interrupted and undone; try again"))
            raise
        finally:
            for write in batch:
                write.is_settled = True

    def _commit(self, batch: list[_Write[Any]]) -> None:
        connection = self._begin_or_note_outage(durable=any(write.durable for write in batch))
        if len(batch) == 1:
            batch[0].result = batch[0].action(connection)
            batch[0].has_run = True
        else:
            for write in batch:
                write.run_in_savepoint(connection)
        self._end()
        self.commits += 1
        self.writes += len(batch)

    def _begin_or_note_outage(self, *, durable: bool) -> Connection:
        began = self._clock()
        try:
            connection = self._begin(durable=durable)
        except Exception:
            self._grace.failed(began)
            raise
        self._grace.succeeded(began)
        return connection

    def _undo(self, batch: list[_Write[Any]], error: Exception) -> None:
        for write in batch:  # first of all: nobody may take an undone write for a done one
            write.error = write.error or error
        self._roll_back()
