"""The named statements of queries.sql, the schema, and the connection that runs them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_INSERT = re.compile(r"(INSERT INTO .*VALUES )\(([^)]*)\)(\nON CONFLICT.*)?", re.DOTALL)
_COMMENT = re.compile(r"^ *--.*\n?", re.MULTILINE)

SCHEMA_NUMBER = 1


class Schema(NamedTuple):
    """The statements that create all tables, and an id of that schema."""

    script: str
    identity: str


def read_statements(package: str) -> dict[str, str]:
    """All statements of a package's queries.sql by name, without comments."""
    parts = _NAME.split(files(package).joinpath("queries.sql").read_text("utf-8"))[1:]
    return {
        name: _COMMENT.sub("", sql).strip().removesuffix(";")
        for name, sql in zip(parts[::2], parts[1::2], strict=True)
    }


def shared_schema() -> str:
    """The script that creates the tables of both databases, in SQLite's dialect."""
    return files(__package__).joinpath("schema.sql").read_text("utf-8")


def schema_of(script: str) -> Schema:
    """A script with its identity: the schema number, and a hash of the words."""
    words = " ".join(re.sub(r"--.*", "", script).split())
    return Schema(script, f"{SCHEMA_NUMBER}-{hashlib.sha256(words.encode()).hexdigest()[:16]}")


@cache
def statements() -> dict[str, str]:
    """All statements that both databases share, by name."""
    return read_statements(__package__)


@cache
def sql(name: str) -> str:
    """The statement of this name."""
    return statements()[name]


class InsertParts(NamedTuple):
    """An INSERT of one row: what stands before its values, these, and what follows."""

    head: str
    values: str
    tail: str


@cache
def insert_parts(statement: str) -> InsertParts | None:
    """The parts of an INSERT of one row, from which one of many is made; None: it is none."""
    match = _INSERT.fullmatch(statement)
    return None if match is None else InsertParts(match[1], match[2], match[3] or "")


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def get(self) -> Any:
        """The value of the first row, or the row if it has several values; None: no row."""

    def fetchone(self) -> tuple[Any, ...] | None: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Runs statements of queries.sql, with a value for each `?`."""

    @property
    def in_transaction(self) -> bool: ...
    @property
    def is_remote(self) -> bool: ...
    def array(self, values: Sequence[int] | Sequence[str]) -> Any:
        """A list of values as one value."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor: ...
    def executemany(self, statement: str, rows: Sequence[Sequence[Any]], /) -> object:
        """Run the statement for each of the rows."""

    def query_many(
        self, statement: str, rows: Sequence[Sequence[Any]], /
    ) -> Iterable[tuple[Any, ...]]:
        """As `executemany`; return the rows of all results, which may be read lazily."""
