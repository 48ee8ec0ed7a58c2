"""A connection that belongs to one process: made when needed, one user at a time."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Generic, Protocol, TypeVar

from fairlead.errors import CounterUnavailable


class Closes(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Give it back."""
        ...


T = TypeVar("T", bound=Closes)

_LEFT_TO_PARENTS: list[object] = []
"""Connections of a parent process: neither used nor closed in the child, which shares them."""


class ProcessConnection(Generic[T]):
    """Gives the connection of this process to one thread after the other."""

    def __init__(self, make: Callable[[], T], timeout: float) -> None:
        self._make = make
        self._timeout = timeout
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._connection: T | None = None
        self._close: Callable[[], object] = int  # nothing to close yet

    @contextmanager
    def connection(self) -> Iterator[T]:
        """The connection. One that fails in the block is dropped: the next use makes another.

        Raises:
            LedgerDown: other threads kept it for too long.
        """
        if self._process != os.getpid():
            _LEFT_TO_PARENTS.append(self._connection)
            self._begin()
        if not self._lock.acquire(timeout=self._timeout):
            raise CounterUnavailable(
                f"other threads used the connection for {self._timeout} seconds"
            )
        try:
            yield self._connection or self._made()
        except BaseException:
            self._drop()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close what this process has opened."""
        if self._process == os.getpid():
            with self._lock:
                self._drop()

    def _made(self) -> T:
        self._connection = connection = self._make()
        self._close = weakref.finalize(self, _close_in, os.getpid(), connection)  # also at exit
        return connection

    def _drop(self) -> None:
        self._connection = None
        self._close()


def _close_in(process: int, connection: Closes) -> None:
    if process == os.getpid():
        connection.close()
