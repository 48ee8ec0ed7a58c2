"""Another process that locks the embedded database, and programs that wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

_LONG = """
import sys
from fairlead.cli import main
from fairlead.storage.sqlite import lock_wait
lock_wait.BUSY_SECONDS = 3600.0
look = lock_wait.LockWait.__call__
def tell(self, looks):
    if looks == 0:
        print("waits for a lock", file=sys.stderr, flush=True)
    return look(self, looks)
lock_wait.LockWait.__call__ = tell
main()
"""
BUSY_LONG = ("-c", _LONG)
"""The command line; it waits for a lock longer than any test, and reports that."""


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Another process keeps the database of a data folder locked."""
    with closing(apsw.Connection(str(data / "fairlead.db"))) as other:
        other.set_busy_timeout(60_000)
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
