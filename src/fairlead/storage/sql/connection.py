"""What the shared logic expects of a connection, whichever database it leads to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Cursor(Protocol):
    """What a statement came to."""

    @property
    def get(self) -> Any:
        """The one value of the first row, or the row where it has several; None: no row."""
        ...

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, if there is one."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The rows."""
        ...


class Connection(Protocol):
    """Runs statements of queries.sql, with a value for each `?`."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is under way."""
        ...

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor:
        """Run one statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run one statement for each row of values."""
        ...
