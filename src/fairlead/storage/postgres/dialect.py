"""The shared statements in PostgreSQL's words."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import count

from fairlead.storage.sql.queries import read_migrations, read_statements, statements

_INDEXED_BY = re.compile(r" INDEXED BY \w+")
_NUMBER = re.compile(r"\$(\d+)")
_PLACE = re.compile(r"\?(\d*)")


@cache
def encoded(statement: str) -> bytes:
    """The same statement, as it is sent."""
    return translated(statement).encode()


@cache
def translated(statement: str) -> str:
    """The same statement with `$1` for `?` or `?1`, and without SQLite's word on its index."""
    number = count(1)
    without = _INDEXED_BY.sub("", _instead().get(statement, statement))
    return _PLACE.sub(lambda found: f"${found[1] or next(number)}", without)


@cache
def _instead() -> dict[str, str]:
    """Shared statements, and what is run in their place."""
    return {statements()[name]: own for name, own in read_statements(__package__).items()}


@cache
def repeated(statement: str, times: int) -> str | None:
    """An INSERT of one row as one of so many; None: it is no such statement."""
    head, values, row = translated(statement).rpartition("VALUES ")
    if not (values and head.startswith("INSERT") and row.endswith(")")):
        return None
    width = max(int(number) for number in _NUMBER.findall(row))
    rows = (_NUMBER.sub(_shifted_by(width * each), row) for each in range(times))
    return head + values + ", ".join(rows)


def _shifted_by(offset: int) -> Callable[[re.Match[str]], str]:
    return lambda found: f"${int(found[1]) + offset}"


@cache
def migrations() -> tuple[str, ...]:
    """The scripts that bring a database from each version to the next, in order."""
    return read_migrations(__package__)
