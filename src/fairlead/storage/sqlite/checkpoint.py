"""WAL checkpoints of SQLite in a background thread, beside the connection that writes.

By default SQLite checkpoints in the commit that finds the WAL long, and all writers wait for some
ten thousand pages and two fsyncs. Here a thread copies the pages. Only the few that were written
meanwhile are left to the writer, after which the WAL starts anew.
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

LONG_LOG = 8000
"""Pages of 4 KiB. A longer WAL means fewer copies of pages that often change."""
SHORT_LOG = 256
"""Pages of the WAL that are allowed on any disk."""
MAY_COPY_BESIDE = tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)
"""Before 3.51.3, SQLite could lose pages that were written during a checkpoint."""


def refuse_growth(path: Path, pages: int) -> None:
    """Raise FullError for a large transaction whose pages a checkpoint would have no room for.

    They take room twice, in the WAL and in the database. Small ones have it in the reserve. If
    they were accepted, nothing could be deleted any more.
    """
    if pages > SHORT_LOG:
        disk = os.statvfs(path.parent)
        if disk.f_blocks > 0 and disk.f_bavail * disk.f_frsize < 2 * pages * 4096:
            raise apsw.FullError("no room for a checkpoint")


class Checkpointer:
    """Watches the WAL of the connection that writes. After an error it tries again later."""

    def __init__(self, connection: apsw.Connection, another: Callable[[], apsw.Connection]) -> None:
        self._connection = connection
        self._another = another
        self._pages = 0
        self._due = LONG_LOG
        self._file_limit = JOURNAL_BYTES
        self._copying: Future[None] | None = None
        connection.set_wal_hook(self._note_pages)

    def after_commit(self) -> None:
        """Start a checkpoint of a long WAL, or finish it, until the WAL has started anew."""
        is_copying = self._copying is not None and not self._copying.done()
        long = LONG_LOG if self._pages < SHORT_LOG else self._long_log()
        if self._pages < long:
            self._due = long
        elif not is_copying and self._pages >= self._due:
            self._due = self._pages + long
            self._begin()
        elif not is_copying:
            self._checkpoint_here()

    def close(self) -> None:
        """Wait for the thread, if there is one."""
        if self._copying is not None:
            wait([self._copying])

    def _long_log(self) -> int:
        """A fraction of what the disk has left: a checkpoint needs as much as the WAL has."""
        long = LONG_LOG
        with suppress(OSError):
            disk = os.statvfs(Path(self._connection.filename).parent)
            if disk.f_blocks:
                long = min(LONG_LOG, max(SHORT_LOG, disk.f_bavail * disk.f_frsize // (4096 * 16)))
        self._limit_file(long)
        return long

    def _limit_file(self, pages: int) -> None:
        """Shorten the file when the WAL starts anew where room is short.

        Commits would go on in a long file while the database has no room for a checkpoint.
        """
        limit = JOURNAL_BYTES if pages == LONG_LOG else SHORT_LOG * 4096
        if limit != self._file_limit:
            self._connection.execute(f"PRAGMA journal_size_limit = {limit}").fetchall()
            self._file_limit = limit

    def _note_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _begin(self) -> None:
        if not MAY_COPY_BESIDE:
            self._checkpoint_here()
            return
        try:
            self._copying = run_in_thread("checkpoint", self._copy)
        except RuntimeError:  # there are too many threads
            self._checkpoint_here()

    def _copy(self) -> None:
        with suppress(apsw.Error, DataError), closing(self._another()) as connection:
            # A connection knows of the WAL only after its first query.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            connection.wal_checkpoint()

    def _checkpoint_here(self) -> None:
        """Pages that others write or still read meanwhile are left for a later commit."""
        with suppress(apsw.Error):
            self._connection.wal_checkpoint()


PURGE_SECONDS = 20.0
"""Deleted contents are gone from the WAL after about so long."""
_READERS_MS = 500
"""How long a truncation, which makes writers wait, waits for readers."""


def truncate_wal(path: Path) -> bool:
    """Checkpoint all of the WAL and empty its file; False: somebody reads or writes."""
    with closing(connect(path)) as connection:
        connection.set_busy_timeout(_READERS_MS)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
    return True


class Purger:
    """Truncates the WAL soon after deletions and at the end: it still has what was deleted.

    `secure_delete` overwrites the contents in the database file, at the next checkpoint. The file
    `mark` exists while that is due, for whoever opens the database after a kill.
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
                with suppress(OSError):  # then nobody makes up for it after a kill
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
