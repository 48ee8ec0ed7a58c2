"""The named statements of queries.sql, the migrations, and the connection that runs them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def read_statements(package: str) -> dict[str, str]:
    """All statements of a package's queries.sql by name."""
    parts = _NAME.split(files(package).joinpath("queries.sql").read_text("utf-8"))[1:]
    return {
        name: sql.strip().removesuffix(";")
        for name, sql in zip(parts[::2], parts[1::2], strict=True)
    }


def read_migrations(package: str) -> tuple[str, ...]:
    """The scripts that bring a database from each version to the next, in order."""
    folder = files(package).joinpath("migrations")
    scripts = sorted((entry for entry in folder.iterdir()), key=lambda entry: entry.name)
    return tuple(entry.read_text("utf-8") for entry in scripts if entry.name.endswith(".sql"))


@cache
def statements() -> dict[str, str]:
    """All statements that both databases share, by name."""
    return read_statements(__package__)


@cache
def sql(name: str) -> str:
    """The statement of this name."""
    return statements()[name]


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def get(self) -> Any:
        """The one value of the first row, or the row where it has several; None: no row."""

    def fetchone(self) -> tuple[Any, ...] | None: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Runs statements of queries.sql, with a value for each `?`."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor: ...
    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object: ...
