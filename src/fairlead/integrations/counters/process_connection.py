"""A connection per process: opened on first use, used by one thread at a time."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Generic, TypeVar

from fairlead.errors import CounterUnavailable

T = TypeVar("T", bound=Any)

_PARENT_CONNECTIONS: list[object] = []
"""Connections of a parent process, which a forked child must neither use nor close."""


class ProcessConnection(Generic[T]):
    """Lends the connection of this process to one thread at a time."""

    def __init__(self, connect: Callable[[], T], timeout: float) -> None:
        self._connect = connect
        self._timeout = timeout
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._connection: T | None = None
        self._close: Callable[[], object] = int  # does nothing

    @contextmanager
    def connection(self) -> Iterator[T]:
        """The connection. If the block raises, the connection is closed and the next use opens one.

        Raises:
            CounterUnavailable: other threads used it for too long.
        """
        if self._process != os.getpid():
            _PARENT_CONNECTIONS.append(self._connection)
            self._reset()
        if not self._lock.acquire(timeout=self._timeout):
            raise CounterUnavailable(
                f"other threads used the connection for {self._timeout} seconds"
            )
        try:
            yield self._connection or self._open()
        except BaseException:
            self._drop()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        if self._process == os.getpid():
            with self._lock:
                self._drop()

    def _open(self) -> T:
        self._connection = connection = self._connect()
        self._close = weakref.finalize(self, _close_in, os.getpid(), connection)  # also at exit
        return connection

    def _drop(self) -> None:
        self._connection = None
        self._close()


def _close_in(process: int, connection: Any) -> None:
    if process == os.getpid():
        connection.close()
