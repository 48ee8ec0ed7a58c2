"""Locks of the database that the close of another descriptor cannot drop.

SQLite's own locks are POSIX record locks. When a process closes any descriptor of a file, the
kernel drops all POSIX locks of that process on the file, so a program that copies the data folder
it holds open would write, read and checkpoint without locks. Locks of an open file description
(OFD) end only with their own descriptor. These exclude what SQLite's must exclude:

- two write transactions, and a truncation of the WAL during one;
- a checkpoint while a transaction reads, because it overwrites pages of older snapshots;
- the removal of the WAL and a reset of its index while a process uses them (`Presence`).

A writer needs no lock against checkpoints: it reads the newest snapshot, which they preserve.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import apsw

from fairlead.backoff import Backoff
from fairlead.storage.sqlite.connection import connect, one_at_a_time, our_errors, prepare_database
from fairlead.storage.sqlite.lock_wait import BUSY_SECONDS

_OWN = 1 << 40
"""Beyond all bytes of the file `-shm` that SQLite uses or locks."""


class _Range:
    """Some bytes of a file, as requests (`struct flock`) to lock them together and to unlock them.

    Locks of an open file description require 0 as the process id.
    """

    def __init__(self, first: int, number: int) -> None:
        self.shared, self.exclusive, self.unlocked = (
            struct.pack("hhqqi0q", kind, os.SEEK_SET, first, number, 0)
            for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK)
        )


_WRITE, _GATE, _READ = _Range(_OWN, 1), _Range(_OWN + 1, 1), _Range(_OWN + 2, 1)
_GATE_AND_READ = _Range(_OWN + 1, 2)
"""A transaction that reads passes the gate. A checkpoint closes the gate and waits until nobody
reads, so that readers who take turns cannot keep it waiting for ever."""
_USER_OF_DATABASE = _Range(0x4000_0002, 510)
"""The shared lock of SQLite's file format: whoever closes the database sees that it is not the last
user, and leaves the WAL."""
_USER_OF_INDEX = _Range(128, 1)
"""The shared lock that tells SQLite not to reset the index of the WAL when it opens it."""


class WalLocks:
    """One open file description of the file `-shm`, with its locks.

    A connection, or a thread, needs one of its own: locks of one description do not exclude each
    other.
    """

    def __init__(self, database: Path) -> None:
        self._path = f"{database}-shm"
        self._is_closed = False
        self._file = -1
        self._open()

    def close(self) -> None:
        self.close_copy()
        self._is_closed = True

    def close_copy(self) -> None:
        """In a forked process: the next lock there is one of its own."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def begin_write(self, wait: Callable[[int], bool]) -> None:
        """Lock out other writers; `wait` pauses after a failed attempt, or returns False."""
        attempts = 0
        while not self._try(_WRITE.exclusive):
            if not wait(attempts):
                raise apsw.BusyError("another process writes")
            attempts += 1

    def end_write(self) -> None:
        self._unlock(_WRITE)

    def begin_read(self) -> None:
        """Lock out checkpoints; wait for one that is running."""
        if not self._try(_GATE_AND_READ.shared) and not self._try_until(
            _GATE_AND_READ.shared, time.monotonic() + BUSY_SECONDS
        ):
            raise apsw.BusyError("a checkpoint does not end")
        self._unlock(_GATE)

    def end_read(self) -> None:
        self._unlock(_READ)

    @contextmanager
    def checkpointing(self, patience: float) -> Iterator[bool]:
        """Lock out transactions that read; False: one of them did not end in `patience` seconds."""
        until = time.monotonic() + patience
        try:
            yield all(self._try_until(part.exclusive, until) for part in (_GATE, _READ))
        finally:
            self._unlock(_GATE_AND_READ)

    def _try_until(self, request: bytes, until: float) -> bool:
        """Try at least once; False: the time is over."""
        backoff = Backoff(0.0005, 0.01)
        while not self._try(request):
            seconds_left = until - time.monotonic()
            if seconds_left <= 0:
                return False
            time.sleep(min(seconds_left, backoff.failed()))
        return True

    def _try(self, request: bytes) -> bool:
        if self._is_closed:
            raise apsw.ConnectionClosedError("the locks were closed")
        if self._file < 0:  # in a forked process
            self._open()
        return _try_lock(self._file, request)

    def _unlock(self, part: _Range) -> None:
        if self._file >= 0:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, part.unlocked)

    def _open(self) -> None:
        _close_after_fork()
        self._file = _open(self._path)
        _all_locks.add(self)


class Presence:
    """Prepares the database, and keeps its WAL and their index until it is closed.

    SQLite removes the WAL with the last connection of the last process, and resets the index with
    the first. Opening and closing exclude each other in all processes; in between, the locks are
    held. A forked process shares them: the WAL then stays until that process ends too.
    """

    def __init__(self, database: Path) -> None:
        self._folder = database.parent
        with our_errors(database), one_at_a_time(self._folder):
            prepare_database(database)
            self._connection = connect(database)
            # A connection opens the WAL with its first query.
            self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            self._files = [
                _open_shared(str(database), _USER_OF_DATABASE),
                _open_shared(f"{database}-shm", _USER_OF_INDEX),
            ]

    def close(self) -> None:
        """Close the last connection of a store; all others are closed by then."""
        with one_at_a_time(self._folder):
            while self._files:
                os.close(self._files.pop())
            self._connection.close()


_all_locks: weakref.WeakSet[WalLocks] = weakref.WeakSet()


@cache
def _close_after_fork() -> None:
    """Let forked processes close their copies, which would prolong the locks of a killed parent."""

    def close_copies() -> None:
        for locks in list(_all_locks):
            locks.close_copy()

    os.register_at_fork(after_in_child=close_copies)


def _open(path: str) -> int:
    """A descriptor for locks. On a disk that has become read-only it takes shared ones only."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EROFS:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        raise apsw.CantOpenError(f"unable to open {path}: {error.strerror}") from error


def _open_shared(path: str, part: _Range) -> int:
    file = _open(path)
    if not _try_lock(file, part.shared):
        os.close(file)
        raise apsw.BusyError("another process closes the database")
    return file


def _try_lock(file: int, request: bytes) -> bool:
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, request)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno == errno.EBADF:  # an exclusive lock of a descriptor for reading
            raise apsw.ReadOnlyError("the disk is read-only") from error
        raise
    return True
