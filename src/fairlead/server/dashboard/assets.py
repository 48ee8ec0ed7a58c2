"""Styles and scripts, read once; their address changes with their content."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def assets() -> dict[str, bytes]:
    folder = files(__package__).joinpath("static")
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


@cache
def digest() -> str:
    found = hashlib.sha256()
    for name, content in sorted(assets().items()):
        found.update(name.encode() + b"\0" + content)
    return found.hexdigest()[:16]


def address(name: str) -> str:
    return f"/static/{digest()}/{name}"


def media_type(name: str) -> str:
    return f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8"
