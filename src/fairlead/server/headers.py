"""Headers that are lists: what comes in several lines is one list, in the order of the lines."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.i18n import negotiate

Headers = Iterable[tuple[bytes, bytes]]


def listed(headers: Headers, name: bytes) -> str | None:
    """The whole list of this header; None: it did not come."""
    lines = [value for each, value in headers if each == name]
    return b", ".join(lines).decode("latin-1") if lines else None


def language_of(headers: Headers) -> str:
    """The language in which the sender wants to read."""
    return negotiate(listed(headers, b"accept-language"))
