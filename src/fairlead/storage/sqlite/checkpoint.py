"""WAL checkpoints of SQLite in a background thread, beside the connection that writes.

By default SQLite checkpoints in the commit that finds a long WAL, and all writers wait for about
ten thousand pages and two fsyncs. Here a thread copies the pages. The writer copies only the few
that were written meanwhile, and then the WAL starts from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock

import apsw

from fairlead.errors import DataError
from fairlead.service import Service, run_in_thread
from fairlead.storage.sqlite.connection import JOURNAL_BYTES, connect
from fairlead.storage.sqlite.lock_wait import LockWait
from fairlead.storage.sqlite.wal_locks import WalLocks

LONG_WAL = 8000
"""Pages of 4 KiB. A longer WAL means fewer copies of pages that often change."""
SHORT_WAL = 256
"""Pages of the WAL that are allowed on any disk."""
LOOK_PAGES = 64
"""Pages that the WAL grows between two looks at the free space of the disk."""
THREAD_PATIENCE, WRITER_PATIENCE = 0.05, 0.005
"""Seconds that a checkpoint waits until nobody reads, in its thread and after a commit."""
MAY_CHECKPOINT_IN_THREAD = tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)
"""Before 3.51.3, SQLite could lose pages that were written during a checkpoint."""


def refuse_growth(path: Path, pages: int) -> None:
    """Raise FullError for a large transaction if the disk has no room to checkpoint its pages.

    Pages take room twice, in the WAL and in the database. The reserve has room for small
    transactions. If large ones filled the disk, even deletions would fail.
    """
    if pages > SHORT_WAL:
        disk = os.statvfs(path.parent)
        if disk.f_blocks > 0 and disk.f_bavail * disk.f_frsize < 2 * pages * 4096:
            raise apsw.FullError("no room for a checkpoint")


class Checkpointer:
    """Checkpoints the WAL of the connection that writes. After an error it tries again later.

    `connect` opens the connection of the background thread.
    """

    def __init__(self, connection: apsw.Connection, connect: Callable[[], apsw.Connection]) -> None:
        self._connection = connection
        self._connect = connect
        self._pages = 0
        self._longest = self._due = LONG_WAL
        self._looked_at = -LOOK_PAGES
        self._file_limit = JOURNAL_BYTES
        self._copying: Future[None] | None = None
        self._locks: WalLocks | None = None
        self._again_at = 0
        connection.set_wal_hook(self._note_pages)

    def after_commit(self) -> None:
        """Start or finish a checkpoint of a long WAL, until the WAL has started over."""
        is_copying = self._copying is not None and not self._copying.done()
        limit = LONG_WAL if self._pages < SHORT_WAL else self._longest_wal()
        if self._pages < limit:
            self._due = limit
        elif not is_copying and self._pages >= self._due:
            self._due = self._pages + limit
            self._begin()
        elif not is_copying:
            self._checkpoint_here()

    def close(self) -> None:
        """Wait for the thread, if there is one."""
        if self._copying is not None:
            wait([self._copying])
        if self._locks is not None:
            self._locks.close()
            self._locks = None

    def _longest_wal(self) -> int:
        """The pages of a long WAL; fewer on a nearly full disk: a checkpoint needs as much room."""
        if self._looked_at <= self._pages < self._looked_at + LOOK_PAGES:
            return self._longest
        self._looked_at, self._longest = self._pages, LONG_WAL
        with suppress(OSError):
            disk = os.statvfs(Path(self._connection.filename).parent)
            if disk.f_blocks:
                room = disk.f_bavail * disk.f_frsize // (4096 * 16)
                self._longest = min(LONG_WAL, max(SHORT_WAL, room))
        self._limit_file(self._longest)
        return self._longest

    def _limit_file(self, pages: int) -> None:
        """On a nearly full disk, let the file shrink when the WAL starts over.

        Otherwise commits would continue in a long file, and a checkpoint would have no room.
        """
        limit = JOURNAL_BYTES if pages == LONG_WAL else SHORT_WAL * 4096
        if limit != self._file_limit:
            self._connection.execute(f"PRAGMA journal_size_limit = {limit}").fetchall()
            self._file_limit = limit

    def _note_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _begin(self) -> None:
        if not MAY_CHECKPOINT_IN_THREAD:
            self._checkpoint_here()
            return
        try:
            self._copying = run_in_thread("checkpoint", self._copy)
        except RuntimeError:  # there are too many threads
            self._checkpoint_here()

    def _copy(self) -> None:
        with suppress(apsw.Error, DataError), closing(self._connect()) as connection:
            # A connection opens the WAL with its first query.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            self._checkpoint(connection, THREAD_PATIENCE)

    def _checkpoint_here(self) -> None:
        """Checkpoint in this thread; pages that others write or read wait for a later commit."""
        if self._pages < self._again_at:
            return
        with suppress(apsw.Error):
            is_free = self._checkpoint(self._connection, WRITER_PATIENCE)
            self._again_at = 0 if is_free else self._pages + SHORT_WAL

    def _checkpoint(self, connection: apsw.Connection, patience: float) -> bool:
        """False: somebody reads."""
        if self._locks is None:
            self._locks = WalLocks(Path(connection.filename))
        with self._locks.checkpointing(patience) as is_free:
            if is_free:
                connection.wal_checkpoint()
            return is_free


PURGE_SECONDS = 20.0
"""Deleted contents leave the WAL after about this time."""
_READERS_SECONDS = 0.5
"""How long a truncation waits for readers; writers wait for it."""


class Truncation:
    """Checkpoints all of the WAL and empties its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._locks = WalLocks(path)
        self._lock = Lock()

    def close(self) -> None:
        self._locks.close()

    def run(self) -> bool:
        """False: a reader or writer prevents it."""
        with self._lock, closing(connect(self._path)) as connection:
            connection.set_busy_timeout(int(1000 * _READERS_SECONDS))
            try:
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
                self._locks.begin_write(LockWait(_READERS_SECONDS))
                return self._empty(connection)
            except apsw.BusyError:
                return False
            finally:
                self._locks.end_write()

    def _empty(self, connection: apsw.Connection) -> bool:
        with self._locks.checkpointing(_READERS_SECONDS) as is_free:
            if is_free:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            return is_free


class Purger:
    """Truncates the WAL soon after deletions and at the end, because it still has the contents.

    `secure_delete` overwrites them in the database file at the next checkpoint. The file `mark`
    exists while a purge is due, so that the next process purges after a kill.
    """

    def __init__(self, truncate: Callable[[], bool], mark: Path) -> None:
        self._truncate = truncate
        self._mark = mark
        self._is_due = False
        self._lock = Lock()
        self._service: Service | None = None
        if mark.exists():  # a process was killed before it purged
            self.note_deletion()

    def note_deletion(self) -> None:
        with self._lock:
            if not self._is_due:
                with suppress(OSError):  # without the mark, a kill may leave the contents
                    self._mark.touch(0o600)
            self._is_due = True
            if self._service is None:
                self._service = Service("purge", self._repeat)
                with suppress(RuntimeError):  # there are too many threads: `close` purges
                    self._service.start()

    def close(self) -> None:
        if self._service is not None:
            self._service.stop()
        with suppress(DataError, apsw.Error):
            self._purge()

    def _repeat(self) -> Generator[float, None, None]:
        while True:
            yield PURGE_SECONDS
            self._purge()

    def _purge(self) -> None:
        if self._is_due:
            self._is_due = False
            try:
                is_done = self._truncate()
            except BaseException:
                self._is_due = True
                raise
            with self._lock:
                self._is_due = self._is_due or not is_done
                if not self._is_due:
                    with suppress(OSError):
                        self._mark.unlink(missing_ok=True)
