"""Names and ids in addresses: a slash that comes as %2F belongs to it, whatever stands behind."""

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


class _Id(_Name):
    """An id, which has no slash. One that comes in it as %2F is shown as it was meant."""

    regex = "[^/]+"


register_url_convertor("name", _Name())
register_url_convertor("id", _Id())
NAME = "{name:name}"
"""A customer's name, in the address of a route."""
ID = "{id_:id}"
"""The id of a document, a webhook or a delivery, in the address of a route."""
KEY_ID = "{key_id:id}"


def keep_slashes(scope: Scope) -> None:
    """Leave slashes of names and ids as they came, for those above; servers decode everything."""
    raw: bytes = scope["raw_path"]
    if b"%2" in raw and scope["path"].startswith(OURS):
        parts = _KEPT.split(raw.decode("ascii"))
        decoded = [part if number % 2 else unquote(part) for number, part in enumerate(parts)]
        scope["path"] = "".join(decoded)
