"""Error responses: RFC 9457 problem details, each with a stable type."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response

from fairlead import errors
from fairlead.errors import TYPE_PREFIX, Message, error_classes
from fairlead.i18n import translator
from fairlead.model.keys import mask_keys
from fairlead.model.usage import DAY

MEDIA_TYPE = "application/problem+json"
SECONDS_UNTIL_ROOM = 5
"""Retry-After when a pending document has to end first, or a service is unavailable."""


class Kind(NamedTuple):
    """The status and the English title of a kind of problem."""

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
}
"""All kinds of problems, by the last part of their type. Those of `errors.py` follow."""
for _error in error_classes():
    KINDS.setdefault(_error.problem, Kind(_error.status, _error.title))


class Problem(HTTPException):
    """An error that becomes a response. `extra` are further members of the problem details."""

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
        return Response(
            json.dumps(
                problem_details(self.kind, self.detail, self.extra, language), ensure_ascii=False
            ),
            self.status_code,
            {**(self.headers or {}), "Content-Language": language, "Vary": self._varies_with()},
            MEDIA_TYPE,
        )

    def _varies_with(self) -> str:
        return "Accept, Accept-Language" if self.kind == "not-acceptable" else "Accept-Language"


def problem_details(
    kind: str, detail: str, extra: Mapping[str, Any] | None = None, language: str = "en"
) -> dict[str, Any]:
    """The members of the problem details. A detail that is not a `Message` stays English."""
    status, title = KINDS[kind]
    translate = translator(language).message
    members = {
        "type": TYPE_PREFIX + kind,
        "title": translate(Message(title)),
        "status": status,
        "detail": mask_keys(translate(detail)),
    }
    return members | dict(extra or {})


def unknown_document(id_: str) -> Problem:
    """The problem for a missing document. For another customer's document it is the same one."""
    return Problem(
        "unknown-document", Message("no document has the id {id}; check the id", id=repr(id_[:100]))
    )


def not_found() -> Problem:
    return Problem("not-found", Message("no such URL; see /docs"))


def invalid_cursor() -> Problem:
    return Problem(
        "invalid-cursor",
        Message("this cursor is not from a page of this listing; start without one"),
    )


def problem_of(error: errors.FairleadError, id_: str = "") -> Problem:
    """The problem for an error of `errors.py`. The cause of a server error is only in the log."""
    if isinstance(error, errors.UnknownDocument):
        return unknown_document(id_)
    if isinstance(error, errors.LimitReached):
        retry_after = None if error.never_fits else _seconds_until_room(error)
        return Problem(
            error.problem, customer_text(error), retry_after=retry_after, limit=error.limit
        )
    if error.problem == "unavailable":
        detail = Message("the server is temporarily unavailable; retry later")
        return Problem(error.problem, detail, retry_after=SECONDS_UNTIL_ROOM)
    if error.status >= 500:
        detail = Message("the server failed; its operator finds the reason in the log")
        return Problem(error.problem, detail)
    return Problem(error.problem, customer_text(error), code=error.code)


def _seconds_until_room(error: errors.LimitReached) -> int:
    if isinstance(error, errors.DailyBytesReached):
        return int(DAY - time.time() % DAY) + 1
    return SECONDS_UNTIL_ROOM


def customer_text(error: errors.FairleadError) -> str:
    """The error's sentence without its hint for the command line."""
    message = error.args[0] if error.args else ""
    if isinstance(message, Message):
        return message.without_hint()
    return str(error).partition("; see: fairlead")[0].partition("; see its state")[0]
