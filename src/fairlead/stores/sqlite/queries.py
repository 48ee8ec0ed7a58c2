"""Reads the named statements of queries.sql."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    """All statements by name."""
    parts = _NAME.split(files(__package__).joinpath("queries.sql").read_text("utf-8"))[1:]
    return {
        name: sql.strip().removesuffix(";")
        for name, sql in zip(parts[::2], parts[1::2], strict=True)
    }


def sql(name: str) -> str:
    """The statement of this name."""
    return statements()[name]


@cache
def migrations() -> tuple[str, ...]:
    """The scripts that bring a database from each version to the next, in order."""
    folder = files(__package__).joinpath("migrations")
    scripts = sorted((entry for entry in folder.iterdir()), key=lambda entry: entry.name)
    return tuple(entry.read_text("utf-8") for entry in scripts if entry.name.endswith(".sql"))
