"""Errors as the network sees them: RFC 9457, with a type that stays."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response

from fairlead import errors

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:fairlead:problem:"
SECONDS_UNTIL_ROOM = 5
"""After how long to try again where something pending has to end first."""
_DAY = 86_400


class Kind(NamedTuple):
    """A kind of problem: its status and title."""

    status: int
    title: str


KINDS = {
    "invalid-request": Kind(400, "The request is not as expected"),
    "invalid-upload": Kind(400, "The upload is not as expected"),
    "invalid-cursor": Kind(400, "The cursor is not one"),
    "key-in-query": Kind(400, "Keys do not belong into addresses"),
    "unauthorised": Kind(401, "A valid key is needed"),
    "forbidden": Kind(403, "This key may not do that"),
    "unknown-document": Kind(404, "There is no such document"),
    "unknown-customer": Kind(404, "There is no such customer"),
    "unknown-key": Kind(404, "There is no such key"),
    "unknown-webhook": Kind(404, "There is no such webhook or delivery"),
    "not-found": Kind(404, "There is nothing at this address"),
    "method-not-allowed": Kind(405, "This address does not take that method"),
    "not-acceptable": Kind(406, "None of the accepted media types is there"),
    "too-slow": Kind(408, "The request did not come in time"),
    "not-ready": Kind(409, "The document has no text"),
    "wrong-state": Kind(409, "The document's state does not allow this"),
    "customer-exists": Kind(409, "There is such a customer already"),
    "deleted": Kind(410, "The document was deleted"),
    "too-large": Kind(413, "The request is too large"),
    "unsupported-media-type": Kind(415, "The request has another media type than expected"),
    "range-not-satisfiable": Kind(416, "The document has no such bytes"),
    "idempotency-conflict": Kind(422, "The idempotency key was used for another body"),
    "limit-reached": Kind(429, "A limit is reached"),
    "header-too-large": Kind(431, "The request's headers are too large"),
    "internal": Kind(500, "Something went wrong here"),
    "unavailable": Kind(503, "This cannot be served now"),
    "disk-full": Kind(507, "There is no room left"),
}
"""Every problem there is, by the end of its type."""


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

    def response(self) -> Response:
        """The answer itself."""
        return Response(
            json.dumps(body(self.kind, self.detail, self.extra), ensure_ascii=False),
            self.status_code,
            self.headers,
            MEDIA_TYPE,
        )


def body(kind: str, detail: str, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The members of a problem. Texts in other languages would be chosen here."""
    status, title = KINDS[kind]
    known = {"type": TYPE_PREFIX + kind, "title": title, "status": status, "detail": detail}
    return known | dict(extra or {})


def unknown_document(id_: str) -> Problem:
    """Of a document that never was, and just so of another customer's."""
    return Problem("unknown-document", f"no document has the id {id_[:100]!r}; check the id")


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
    (errors.StoreBusy, "unavailable"),
    (errors.StoreUnreachable, "unavailable"),
    (errors.StoreRefused, "unavailable"),
)


def of_ours(error: errors.FairleadError, id_: str = "") -> Problem:
    """One of our errors as a problem; what concerns our own folders stays between us."""
    if isinstance(error, errors.UnknownDocument):
        return unknown_document(id_)
    if isinstance(error, errors.PendingCapReached):
        return Problem(
            "limit-reached", _said(error), retry_after=SECONDS_UNTIL_ROOM, limit="pending"
        )
    if isinstance(error, errors.DailyBytesReached):
        left = int(_DAY - time.time() % _DAY) + 1
        return Problem("limit-reached", _said(error), retry_after=left, limit="bytes_a_day")
    kind = next((name for each, name in _OURS if isinstance(error, each)), "internal")
    if kind == "unavailable":
        words = "the server cannot do this now, and will try to be there again; send it again"
        return Problem(kind, words, retry_after=SECONDS_UNTIL_ROOM)
    if KINDS[kind].status >= 500:
        return Problem(kind, "the server cannot do this now; its operator finds why in its log")
    return Problem(kind, _said(error))


def _said(error: errors.FairleadError) -> str:
    """Without what to type on a command line, which a customer has not."""
    return str(error).partition("; see: fairlead")[0].partition("; see where")[0]
