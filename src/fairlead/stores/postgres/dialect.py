"""The shared statements in PostgreSQL's words."""

from __future__ import annotations

import re
from functools import cache
from itertools import count

from fairlead.stores.sql.queries import read_migrations

_INDEXED_BY = re.compile(r" INDEXED BY \w+")
_PLACE = re.compile(r"\?(\d*)")


@cache
def translated(statement: str) -> str:
    """The same statement with `$1` for `?` or `?1`, and without SQLite's word on its index."""
    number = count(1)
    without = _INDEXED_BY.sub("", statement)
    return _PLACE.sub(lambda found: f"${found[1] or next(number)}", without)


@cache
def migrations() -> tuple[str, ...]:
    """The scripts that bring a database from each version to the next, in order."""
    return read_migrations(__package__)
