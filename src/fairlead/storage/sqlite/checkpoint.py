"""WAL checkpoints of SQLite in a background thread, beside the connection that writes.

By default SQLite checkpoints in the commit that finds the WAL long, and all writers wait for some
ten thousand pages and two fsyncs. Here a thread copies the pages. Only the few that were written
meanwhile are left to the writer, after which the WAL starts anew.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import closing, suppress

import apsw

from fairlead.errors import DataError
from fairlead.service import run_in_thread

LONG_LOG = 8000
"""Pages of 4 KiB. A longer WAL means fewer copies of pages that often change."""
MAY_COPY_BESIDE = tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)
"""Before 3.51.3, SQLite could lose pages that were written during a checkpoint."""


class Checkpointer:
    """Watches the WAL of the connection that writes. After an error it tries again later."""

    def __init__(self, connection: apsw.Connection, another: Callable[[], apsw.Connection]) -> None:
        self._connection = connection
        self._another = another
        self._pages = 0
        self._due = LONG_LOG
        self._copying: Future[None] | None = None
        connection.set_wal_hook(self._note_pages)

    def after_commit(self) -> None:
        """Start a checkpoint of a long WAL, or finish it, until the WAL has started anew."""
        is_copying = self._copying is not None and not self._copying.done()
        if self._pages < LONG_LOG:
            self._due = LONG_LOG
        elif not is_copying and self._pages >= self._due:
            self._due = self._pages + LONG_LOG
            self._begin()
        elif not is_copying:
            self._checkpoint_here()

    def close(self) -> None:
        """Wait for the thread, if there is one."""
        if self._copying is not None:
            wait([self._copying])

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
