"""What a request expects of that which it asks for or changes: RFC 9110, section 13."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from starlette.requests import Request

from fairlead.errors import Message
from fairlead.model.documents import Document
from fairlead.model.ports import Check
from fairlead.server.headers import listed
from fairlead.server.problems import Problem

_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")
"""The one that is written, and two that are read for the sake of old senders."""


def is_known(request: Request, etag: str, modified_at: float | None = None) -> bool:
    """Whether who asks for something has it; raises where it expects something else to be there.

    ETags go before dates. Without `modified_at`, dates are passed over, as are those that are none.
    """
    _check_expected(request, etag, modified_at)
    known = listed(request.scope["headers"], b"if-none-match")
    if known is not None:
        return is_among(etag, known)
    since = _date(request, b"if-modified-since")
    return since is not None and modified_at is not None and int(modified_at) <= since


def check_for(request: Request, etag_of: Callable[[Document], str]) -> Check | None:
    """Looks whether a document that is about to be changed is as expected; None: whatever it is."""
    headers = request.scope["headers"]
    known = listed(headers, b"if-none-match")
    if known is None and listed(headers, b"if-match") is None:
        return None

    def check(document: Document) -> None:
        etag = etag_of(document)
        _check_expected(request, etag, None)
        if known is not None and is_among(etag, known):
            raise _not_as_expected()

    return check


def is_among(etag: str, known: str) -> bool:
    """Whether the list has this ETag, be it as a weak one; `*` stands for all."""
    return known.strip() == "*" or etag in (each.removeprefix("W/") for each in _terms(known))


def _check_expected(request: Request, etag: str, modified_at: float | None) -> None:
    expected = listed(request.scope["headers"], b"if-match")
    if expected is not None:
        is_other = expected.strip() != "*" and etag not in _terms(expected)  # a weak one is another
    else:
        since = _date(request, b"if-unmodified-since")
        is_other = since is not None and modified_at is not None and int(modified_at) > since
    if is_other:
        raise _not_as_expected()


def _not_as_expected() -> Problem:
    return Problem(
        "precondition-failed",
        Message("it is not as the request expects it to be; look at it again, then decide"),
    )


def _terms(given: str) -> list[str]:
    return [each.strip() for each in given.split(",")]


def _date(request: Request, name: bytes) -> float | None:
    """The date in a header, in whole seconds; None: there is none, or none that can be read."""
    given = (listed(request.scope["headers"], name) or "").strip()
    for each in _DATES:
        with suppress(ValueError):
            return datetime.strptime(given, each).replace(tzinfo=UTC).timestamp()
    return None
