"""Errors as the network sees them: RFC 9457, with a type that stays."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from fairlead import errors
from fairlead.errors import Message
from fairlead.i18n import translator
from fairlead.model.keys import without_secrets
from fairlead.model.problems import KINDS, TYPE_PREFIX

MEDIA_TYPE = "application/problem+json"
SECONDS_UNTIL_ROOM = 5
"""After how long to try again where something pending has to end first."""
_DAY = 86_400


class Problem(HTTPException):
    """An answer that is an error."""

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
        """The answer itself, in one of our languages."""
        return Response(
            json.dumps(body(self.kind, self.detail, self.extra, language), ensure_ascii=False),
            self.status_code,
            {**(self.headers or {}), "Content-Language": language, "Vary": self._varies_with()},
            MEDIA_TYPE,
        )

    def _varies_with(self) -> str:
        """The headers with which another answer might have come."""
        return "Accept, Accept-Language" if self.kind == "not-acceptable" else "Accept-Language"


def body(
    kind: str, detail: str, extra: Mapping[str, Any] | None = None, language: str = "en"
) -> dict[str, Any]:
    """The members of a problem. A detail that no translator has seen stays English."""
    status, title = KINDS[kind]
    speaker = translator(language)
    known = {
        "type": TYPE_PREFIX + kind,
        "title": speaker.say(Message(title)),
        "status": status,
        "detail": without_secrets(speaker.say(detail)),
    }
    return known | dict(extra or {})


def unknown_document(id_: str) -> Problem:
    """Of a document that never was, and just so of another customer's."""
    return Problem(
        "unknown-document", Message("no document has the id {id}; check the id", id=repr(id_[:100]))
    )


def invalid_cursor() -> Problem:
    """Of a cursor that no page has given, or of a page of something else."""
    return Problem(
        "invalid-cursor", Message("this cursor came from no page of yours; begin again without one")
    )


_OURS: tuple[tuple[type[errors.FairleadError], str], ...] = (
    (errors.TooLarge, "too-large"),
    (errors.IdempotencyConflict, "idempotency-conflict"),
    (errors.DeletedDocument, "deleted"),
    (errors.UnknownCustomer, "unknown-customer"),
    (errors.UnknownKey, "unknown-key"),
    (errors.UnknownWebhook, "unknown-webhook"),
    (errors.UnknownDelivery, "unknown-webhook"),
    (errors.InvalidTransition, "wrong-state"),
    (errors.NotReady, "not-ready"),
    (errors.Refused, "invalid-upload"),
    (errors.UsageError, "invalid-request"),
    (errors.DiskFull, "disk-full"),
    (errors.TemporarilyUnavailable, "unavailable"),
    (errors.StoreRefused, "unavailable"),
)


def of_ours(error: errors.FairleadError, id_: str = "") -> Problem:
    """One of our errors as a problem; what concerns our own folders stays between us."""
    if isinstance(error, errors.UnknownDocument):
        return unknown_document(id_)
    if isinstance(error, errors.PendingCapReached):
        again = None if error.never_fits else SECONDS_UNTIL_ROOM
        return Problem("limit-reached", said(error), retry_after=again, limit="pending")
    if isinstance(error, errors.DailyBytesReached):
        left = int(_DAY - time.time() % _DAY) + 1
        again = None if error.never_fits else left
        return Problem("limit-reached", said(error), retry_after=again, limit="bytes_a_day")
    kind = next((name for each, name in _OURS if isinstance(error, each)), "internal")
    if kind == "unavailable":
        words = Message(
            "the server cannot do this now, and will try to be there again; send it again"
        )
        return Problem(kind, words, retry_after=SECONDS_UNTIL_ROOM)
    if KINDS[kind].status >= 500:
        return Problem(
            kind, Message("the server cannot do this now; its operator finds why in its log")
        )
    return Problem(kind, said(error), code=error.code)


def said(error: errors.FairleadError) -> str:
    """Without what to type on a command line, which a customer has not."""
    words = error.args[0] if error.args else ""
    if isinstance(words, Message):
        return words.without_hint()
    return str(error).partition("; see: fairlead")[0].partition("; see where")[0]
