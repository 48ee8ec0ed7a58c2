"""Names in addresses: a slash that comes as %2F belongs to the name, whatever stands behind it."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Scope

OURS = "/v1/"
_KEPT = re.compile(r"(%2f|%25)", re.IGNORECASE)


class _Name(Convertor[str]):
    """A customer's name; its slashes may also come as they are, where nothing else is meant."""

    regex = ".*"

    def convert(self, value: str) -> str:
        """The name in the address."""
        return unquote(value)

    def to_string(self, value: str) -> str:
        """The name as an address has it."""
        return quote(value, safe="")


register_url_convertor("name", _Name())
NAME = "{name:name}"
"""A customer's name, in the address of a route."""


def keep_slashes(scope: Scope) -> None:
    """Leave slashes of names as they came, for `{…:name}` to decode; servers decode everything."""
    raw: bytes = scope["raw_path"]
    if b"%2" in raw and scope["path"].startswith(OURS):
        parts = _KEPT.split(raw.decode("ascii"))
        decoded = [part if number % 2 else unquote(part) for number, part in enumerate(parts)]
        scope["path"] = "".join(decoded)
