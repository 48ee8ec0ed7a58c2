"""Removes orphans: files without a row, left by a crash between writing the file and its row."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from fairlead.backoff import Backoff
from fairlead.errors import DamagedData
from fairlead.model.blobs import BlobStore
from fairlead.service import Service

if TYPE_CHECKING:
    from fairlead.storage import Store

EVERY_SECONDS = 3600.0
MANY_ORPHANS = 50
"""Crashes leave few orphans in a folder; more of them mean that rows were lost."""


def sweep_orphans(
    store: Store, files: BlobStore, texts: BlobStore, *, before: float
) -> Iterator[int]:
    """Remove orphans last written before this time, folder by folder; yield how many.

    The time must be well before any submission that may still be in progress.

    Raises:
        DamagedData: most files of a folder are orphans, as if rows were lost; these files stay.
    """
    yield files.sweep_incoming(before) + texts.sweep_incoming(before)
    for keys in files.older_than(before):
        yield _delete(files, keys, store.known_documents(keys) | store.interim_keys())
    for keys in texts.older_than(before):
        yield _delete(texts, keys, store.known_texts({key.partition(".")[0] for key in keys}))


def _delete(blobs: BlobStore, keys: Sequence[str], known: set[str]) -> int:
    orphans = set(keys) - known
    if len(orphans) > MANY_ORPHANS and 2 * len(orphans) > len(keys):
        folder = blobs.path(keys[0]).parent
        raise DamagedData(
            f"{len(orphans)} of {len(keys)} files in {folder} belong to no document, so nothing "
            "more is removed; restore the database, or move them away if they are not needed"
        )
    blobs.delete(orphans)
    return len(orphans)


class Sweeper(Service):
    """Sweeps at its start and every hour, unless another process does."""

    def __init__(
        self,
        sweep: Callable[[], Iterator[int]],
        only_one: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(
            enter_result=True
        ),
    ) -> None:
        super().__init__("sweeper", self._sweep, backoff=Backoff(60.0, EVERY_SECONDS))
        self._portions = sweep
        self._only_one = only_one

    def _sweep(self) -> Generator[float, None, None]:
        while True:
            with self._only_one() as is_mine:
                for _ in self._portions() if is_mine else ():
                    yield 0.0
            yield EVERY_SECONDS
