"""Every problem that HTTP answers with, by the end of its `type`, which stays."""

from __future__ import annotations

from typing import NamedTuple

TYPE_PREFIX = "urn:fairlead:problem:"


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
    "precondition-failed": Kind(412, "It is not as the request expects"),
    "too-large": Kind(413, "The request is too large"),
    "unsupported-media-type": Kind(415, "The request has another media type than expected"),
    "range-not-satisfiable": Kind(416, "The document has no such bytes"),
    "idempotency-conflict": Kind(422, "The idempotency key was used for another body"),
    "limit-reached": Kind(429, "A limit is reached"),
    "internal": Kind(500, "Something went wrong here"),
    "unavailable": Kind(503, "This cannot be served now"),
    "disk-full": Kind(507, "There is no room left"),
}
"""Every problem there is, by the end of its type."""
