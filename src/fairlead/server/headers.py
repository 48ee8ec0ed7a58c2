"""Request headers: Accept, Accept-Language, and the preconditions If-Match and If-None-Match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from starlette.requests import Request

from fairlead.errors import Message
from fairlead.i18n import negotiate
from fairlead.model.documents import Document, DocumentCheck
from fairlead.server.problems import Problem


def header_list(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """A list header, joined if it was sent in several lines; None: it was not sent."""
    lines = [value for key, value in headers if key == name]
    return b", ".join(lines).decode("latin-1") if lines else None


def language_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    return negotiate(header_list(headers, b"accept-language"))


def best_type(accept: str | None, offered: Sequence[str]) -> str | None:
    """The media type that Accept rates highest, of equals the first; None: it accepts none."""
    if not accept or not accept.strip():
        return offered[0]
    ratings = dict(_rating(term) for term in accept.lower().split(","))
    best = max(offered, key=lambda media_type: _quality(media_type, ratings))
    return best if _quality(best, ratings) > 0 else None


def _rating(term: str) -> tuple[str, float]:
    name, *parameters = (part.strip() for part in term.split(";"))
    quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
    return name, float(quality) if re.fullmatch(r"0(\.\d*)?|1(\.0*)?", quality) else 0.0


def _quality(media_type: str, ratings: dict[str, float]) -> float:
    """The rating of the most exact term that matches the type."""
    names = (media_type, media_type.partition("/")[0] + "/*", "*/*")
    return next((ratings[name] for name in names if name in ratings), 0.0)


def is_not_modified(request: Request, etag: str) -> bool:
    """Whether If-None-Match has this ETag; raises if there is an If-Match without it."""
    _check_if_match(request, etag)
    known = header_list(request.scope["headers"], b"if-none-match")
    return known is not None and has_etag(known, etag)


def precondition(request: Request, etag_of: Callable[[Document], str]) -> DocumentCheck | None:
    """A check of If-Match and If-None-Match, for the transaction that changes a document."""
    if not any(name in request.headers for name in ("if-match", "if-none-match")):
        return None

    def check(document: Document) -> None:
        if is_not_modified(request, etag_of(document)):
            raise _precondition_failed()

    return check


def has_etag(known: str, etag: str) -> bool:
    """Whether the list has this ETag, strong or weak; `*` matches all."""
    return known.strip() == "*" or etag in (tag.removeprefix("W/") for tag in _tags(known))


def _check_if_match(request: Request, etag: str) -> None:
    expected = header_list(request.scope["headers"], b"if-match")
    if expected is not None and expected.strip() != "*" and etag not in _tags(expected):
        raise _precondition_failed()


def _tags(header: str) -> list[str]:
    return [tag.strip() for tag in header.split(",")]


def _precondition_failed() -> Problem:
    return Problem(
        "precondition-failed",
        Message(
            "the document is not in the version that If-Match or If-None-Match requires; "
            "get it again, then decide"
        ),
    )
