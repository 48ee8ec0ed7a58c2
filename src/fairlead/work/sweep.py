"""The sweep: removes files that belong to no document, left by a crash between file and row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from fairlead.errors import DataError
from fairlead.ports import Files, Store

EVERY_SECONDS = 3600.0


def sweep(store: Store, files: Files, texts: Files, *, before: float) -> int:
    """Remove orphans last written before the moment; return how many.

    The moment must lie well before any submission that may still be under way.
    """
    removed = files.sweep_incoming(before) + texts.sweep_incoming(before)
    for keys in files.older_than(before):
        orphans = set(keys) - store.known_documents(keys)
        files.delete(orphans)
        removed += len(orphans)
    for keys in texts.older_than(before):
        orphans = set(keys) - store.known_texts({key.partition(".")[0] for key in keys})
        texts.delete(orphans)
        removed += len(orphans)
    return removed


class Sweeper:
    """Sweeps now and every hour, in a thread of its own."""

    def __init__(self, sweep_once: Callable[[], int]) -> None:
        self._sweep_once = sweep_once
        self._closing = Event()
        self._thread = Thread(target=self._work, name="fairlead-sweeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after the portion at hand."""
        self._closing.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._closing.is_set():
            with suppress(DataError, OSError):  # the next hour comes
                self._sweep_once()
            self._closing.wait(EVERY_SECONDS)
