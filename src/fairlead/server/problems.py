"""Errors over HTTP: RFC 9457 problems, each with a stable type."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response

from fairlead import errors
from fairlead.errors import TYPE_PREFIX, Message
from fairlead.i18n import translator
from fairlead.i18n.texts import errors as tree
from fairlead.model.key_secrets import without_secrets

MEDIA_TYPE = "application/problem+json"
SECONDS_UNTIL_ROOM = 5
"""Retry-After while a pending document has to end first, or a service is away."""
_DAY = 86_400


class Kind(NamedTuple):
    """A kind of problem."""

    status: int
    title: str


KINDS = {
    "invalid-cursor": Kind(400, Message("Invalid cursor")),
    "key-in-query": Kind(400, Message("Do not put API keys in URLs")),
    "not-found": Kind(404, Message("Not found")),
    "method-not-allowed": Kind(405, Message("Method not allowed")),
    "not-acceptable": Kind(406, Message("Media type not available")),
    "too-slow": Kind(408, Message("Request timed out")),
    "precondition-failed": Kind(412, Message("Precondition failed")),
    "unsupported-media-type": Kind(415, Message("Unsupported media type")),
    "range-not-satisfiable": Kind(416, Message("Range not satisfiable")),
    "header-too-large": Kind(431, Message("Headers too large")),
}
"""Every kind of problem by the end of its type: here those of HTTP alone, below our errors."""
for _error in tree():
    KINDS.setdefault(_error.problem, Kind(_error.status, _error.title))


class Problem(HTTPException):
    """An error response."""

    def __init__(
        self, kind: str, detail: str, *, retry_after: int | None = None, **extra: Any
    ) -> None:
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        if kind == "unauthorised":
            headers["WWW-Authenticate"] = 'Bearer realm="fairlead"'
        super().__init__(KINDS[kind].status, detail, headers)
        self.kind = kind
        self.extra = extra if retry_after is None else extra | {"retry_after": retry_after}

    def response(self, language: str = "en") -> Response:
        """The response, in one of our languages."""
        return Response(
            json.dumps(body(self.kind, self.detail, self.extra, language), ensure_ascii=False),
            self.status_code,
            {**(self.headers or {}), "Content-Language": language, "Vary": self._varies_with()},
            MEDIA_TYPE,
        )

    def _varies_with(self) -> str:
        """The request headers that the response depends on."""
        return "Accept, Accept-Language" if self.kind == "not-acceptable" else "Accept-Language"


def body(
    kind: str, detail: str, extra: Mapping[str, Any] | None = None, language: str = "en"
) -> dict[str, Any]:
    """The members of a problem. A detail that is not a `Message` stays English."""
    status, title = KINDS[kind]
    translate = translator(language).say
    members = {
        "type": TYPE_PREFIX + kind,
        "title": translate(Message(title)),
        "status": status,
        "detail": without_secrets(translate(detail)),
    }
    return members | dict(extra or {})


def unknown_document(id_: str) -> Problem:
    """The same problem for a missing document and for another customer's."""
    return Problem(
        "unknown-document", Message("no document has the id {id}; check the id", id=repr(id_[:100]))
    )


def invalid_cursor() -> Problem:
    """The problem of a cursor that no page of this listing has returned."""
    return Problem(
        "invalid-cursor",
        Message("this cursor is not from a page of this listing; start without one"),
    )


def of_ours(error: errors.FairleadError, id_: str = "") -> Problem:
    """A problem for one of our errors; the cause of a server error is only in the log."""
    if isinstance(error, errors.UnknownDocument):
        return unknown_document(id_)
    if isinstance(error, errors.LimitReached):
        retry_after = None if error.never_fits else _seconds_until_room(error)
        return Problem(error.problem, said(error), retry_after=retry_after, limit=error.limit)
    if error.problem == "unavailable":
        detail = Message("the server is temporarily unavailable; retry later")
        return Problem(error.problem, detail, retry_after=SECONDS_UNTIL_ROOM)
    if error.status >= 500:
        detail = Message("the server failed; its operator finds the reason in the log")
        return Problem(error.problem, detail)
    return Problem(error.problem, said(error), code=error.code)


def _seconds_until_room(error: errors.LimitReached) -> int:
    if isinstance(error, errors.DailyBytesReached):
        return int(_DAY - time.time() % _DAY) + 1
    return SECONDS_UNTIL_ROOM


def said(error: errors.FairleadError) -> str:
    """The error's sentence without its hint for the command line."""
    message = error.args[0] if error.args else ""
    if isinstance(message, Message):
        return message.without_hint()
    return str(error).partition("; see: fairlead")[0].partition("; see its state")[0]
