"""The migrations of the SQLite file."""

from __future__ import annotations

from functools import cache

from fairlead.storage.sql.queries import read_migrations


@cache
def migrations() -> tuple[str, ...]:
    """The scripts that bring a database from each version to the next, in order."""
    return read_migrations(__package__)
