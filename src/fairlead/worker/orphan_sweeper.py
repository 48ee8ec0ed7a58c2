"""The sweep: removes files that belong to no document, left by a crash between file and row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from fairlead.errors import DataError
from fairlead.model.ports import Files

if TYPE_CHECKING:
    from fairlead.storage import Store

EVERY_SECONDS = 3600.0


def portions(store: Store, files: Files, texts: Files, *, before: float) -> Iterator[int]:
    """Remove orphans last written before the moment, folder by folder; yield how many.

    The moment must lie well before any submission that may still be under way. Between two
    folders one may stop.
    """
    yield files.sweep_incoming(before) + texts.sweep_incoming(before)
    for keys in files.older_than(before):
        orphans = set(keys) - store.known_documents(keys)
        files.delete(orphans)
        yield len(orphans)
    for keys in texts.older_than(before):
        orphans = set(keys) - store.known_texts({key.partition(".")[0] for key in keys})
        texts.delete(orphans)
        yield len(orphans)


class Sweeper:
    """Sweeps now and every hour, in a thread of its own, unless another process is at it."""

    def __init__(
        self,
        begin: Callable[[], Iterator[int]],
        alone: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(enter_result=True),
    ) -> None:
        self._begin = begin
        self._alone = alone
        self._closing = Event()
        self._thread = Thread(target=self._work, name="fairlead-sweeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after the portion at hand."""
        self._closing.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._closing.is_set():
            with suppress(DataError, OSError), self._alone() as is_mine:  # the next hour comes
                if is_mine:
                    self._sweep_once()
            self._closing.wait(EVERY_SECONDS)

    def _sweep_once(self) -> None:
        for _ in self._begin():
            if self._closing.is_set():
                return
