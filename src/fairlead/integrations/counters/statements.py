"""Reads the named statements of a ledger's file."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements(file: str) -> dict[str, str]:
    """All statements of the file, by name."""
    parts = _NAME.split(files(__package__).joinpath(file).read_text("utf-8"))[1:]
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}
