"""The marker of a blob place: a file with the installation's id.

A missing mount leaves an empty folder, and a wrong bucket looks as if its blobs were lost. The
marker distinguishes both from missing blobs. It is written once, when the place is new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from fairlead.errors import FilesUnreachable

MARKER = "fairlead-installation"
"""The name of the marker; no blob can have it as its key."""


class MarkedPlace(NamedTuple):
    """The id that a place must have, and whether its marker was ever written."""

    installation: str
    is_marked: bool


class PlaceRecord(Protocol):
    """The record of one blob place in the database."""

    def expected(self) -> MarkedPlace:
        """The id; the first call adds the place, without a marker."""

    def note_marked(self) -> None:
        """Record that the marker is written: from now on, it must exist."""


class Marker:
    """Compares the marker of a place with the database. May be used from any thread."""

    def __init__(
        self,
        place: str,
        record: PlaceRecord,
        read: Callable[[], str | None],
        write: Callable[[str], None],
    ) -> None:
        self._place = place
        self._record = record
        self._read = read
        self._write = write
        self._installation: str | None = None  # set once the marker was written

    def check(self) -> None:
        """Raise FilesUnreachable unless the place has this installation's marker."""
        if self._installation is None:
            self._installation = self._mark()
        self._compare(self._installation)

    def _mark(self) -> str:
        """Write the marker of a new place; return the installation's id."""
        installation, is_marked = self._record.expected()
        if not is_marked:
            if self._read() is None:
                self._write(installation)
            self._compare(installation)
            self._record.note_marked()
        return installation

    def _compare(self, installation: str) -> None:
        marker = self._read()
        if marker == installation:
            return
        problem = "has no marker of" if marker is None else "belongs to another installation than"
        raise FilesUnreachable(
            f"{self._place} {problem} this database, so its documents are unavailable; "
            "mount it, or correct the setting files"
        )
