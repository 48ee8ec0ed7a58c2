"""Reads the named statements of queries.sql, and the scripts of migrations."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

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
    """All statements that stores share, by name."""
    return read_statements(__package__)


def sql(name: str) -> str:
    """The statement of this name."""
    return statements()[name]
