"""What goes in and out, for the OpenAPI document. Bodies that come in are checked by these."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from fairlead.model.problems import KINDS
from fairlead.server.problems import MEDIA_TYPE, body

Name = Annotated[str, Field(min_length=1, max_length=200)]
Cap = Annotated[int, Field(ge=1, le=10**12, strict=True)]


class Out(BaseModel):
    """Something that comes out."""


class Document(Out):
    """A document."""

    id: str
    customer: str
    name: str
    size: int
    sha256: str
    kind: str | None
    state: Annotated[str, Field(pattern="^(waiting|processing|done|failed|cancelled)$")]
    priority: int
    count: int
    policy: str
    urgent: bool
    submitted_at: str
    started_at: str | None
    finished_at: str | None
    estimate: float
    seconds: float | None
    attempts: int
    error: str | None
    detail: str | None
    parent: str | None
    facts: dict[str, Any]


class Documents(Out):
    """Several documents of one request."""

    documents: list[Document]


class Page(Documents):
    """Documents, newest first, and where to go on."""

    next: str | None


class Text(Out):
    """A document's text with what was found."""

    id: str
    kind: str | None
    text: str
    facts: dict[str, Any]


class Reason(Out):
    """One reason: a code that stays, its parameters, and words."""

    code: str
    params: dict[str, Any]
    words: str


class Why(Out):
    """Why a document has its priority, and what it waits for."""

    id: str
    reasons: list[Reason]
    position: int | None
    ahead: dict[str, Any] | None
    forecast: dict[str, str] | None


class Customer(Out):
    """A customer."""

    name: str
    pending: int
    waiting: int
    processing: int
    count: int | None
    next_priority: int
    resets_in: int | None
    oldest_wait: float | None
    paused: bool
    account: str | None
    weight: float
    processing_cap: int | None
    pending_cap: int | None
    requests_a_second: float | None
    requests_burst: int | None
    bytes_a_day: int | None
    reset_interval: float | None
    thresholds: list[int] | None
    created_at: str


class Customers(Out):
    """All customers, and how fair the queue is."""

    customers: list[Customer]
    fairness: dict[str, Any]


class Key(Out):
    """A key, without its secret."""

    id: str
    customer: str | None
    operator: bool
    created_at: str
    revoked_at: str | None


class NewKey(Key):
    """A new key; this is the only time that it is shown."""

    key: str


class Keys(Out):
    """Keys, oldest first."""

    keys: list[Key]


class KeyWanted(BaseModel):
    """A key to be made: of a customer, or of an operator."""

    model_config = ConfigDict(extra="forbid")
    customer: Name | None = None
    operator: Annotated[bool, Field(strict=True)] = False


class Limits(Out):
    """What one request may bring."""

    max_document_bytes: int
    max_upload_bytes: int
    max_upload_files: int


class Me(Out):
    """Whose a key is; no customer: an operator's."""

    key: str
    customer: str | None
    limits: Limits


class Entry(Out):
    """Something that somebody decided."""

    seq: int
    at: str
    kind: str
    customer: str | None
    document: str | None
    data: dict[str, Any]
    actor: str | None


class Audit(Out):
    """Decisions, newest first, and where to go on."""

    entries: list[Entry]
    next: int | None


class Changes(BaseModel):
    """What an operator may set; null: as for everybody."""

    model_config = ConfigDict(extra="forbid")
    weight: Annotated[float, Field(ge=0.001, le=1000, strict=True)] | None = None
    account: Name | None = None
    processing_cap: Cap | None = None
    pending_cap: Cap | None = None
    requests_a_second: Annotated[float, Field(ge=0.001, le=1e6, strict=True)] | None = None
    requests_burst: Cap | None = None
    bytes_a_day: Cap | None = None
    reset_interval: Annotated[float, Field(strict=True)] | None = None
    thresholds: list[int] | None = None

    def given(self) -> dict[str, Any]:
        """Only what was sent, as the store takes it."""
        found: dict[str, Any] = self.model_dump(
            include=set(Changes.model_fields), exclude_unset=True
        )
        if found.get("thresholds") is not None:
            found["thresholds"] = tuple(found["thresholds"])
        if "weight" in found and found["weight"] is None:
            found["weight"] = 1.0
        return found


class NewCustomer(Changes):
    """A customer to be made known."""

    model_config = ConfigDict(extra="forbid")
    name: Name


_URL = Field(min_length=1, max_length=2000)
_KINDS = Field(max_length=20)


class WebhookChanges(BaseModel):
    """What may be changed of a webhook."""

    model_config = ConfigDict(extra="forbid")
    url: Annotated[str, _URL] | None = None
    kinds: Annotated[list[str], _KINDS] | None = None
    enabled: Annotated[bool, Field(strict=True)] | None = None


class NewWebhook(BaseModel):
    """A webhook to be made."""

    model_config = ConfigDict(extra="forbid")
    url: Annotated[str, _URL]
    kinds: Annotated[list[str], _KINDS] | None = None
    customer: Name | None = None


class Webhook(Out):
    """Where a customer is told."""

    id: str
    customer: str
    url: str
    kinds: list[str]
    enabled: bool
    created_at: str
    failing_since: str | None
    disabled_because: str | None


class WebhookWithSecret(Webhook):
    """A new webhook; the secret is shown this once."""

    secret: str


class Webhooks(Out):
    """Webhooks."""

    webhooks: list[Webhook]


class Delivery(Out):
    """One thing told, or to be told."""

    id: str
    webhook: str
    kind: str
    document: str | None
    status: str
    created_at: str
    attempts: int
    next_at: str | None
    last_at: str | None
    code: int | None
    answer: str | None
    error: str | None


class Deliveries(Out):
    """A page of deliveries."""

    deliveries: list[Delivery]
    next: str | None


class Problem(Out):
    """An error: RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "it is as the ETag in If-None-Match says"}
}
"""The answer to who knows already what is there."""
BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


def header(name: str, description: str) -> dict[str, Any]:
    """A header that an operation looks at, though no parameter of its function is it."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": description,
    }


IF_NONE_MATCH = header("If-None-Match", "ETags that are known; with one of them, the answer is 304")
IF_MATCH = header(
    "If-Match", "ETags of which one is expected; with none of them, the answer is 412"
)


def problems(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """The errors of an operation, each with an example."""
    everywhere = ("key-in-query", "too-slow", "too-large", "internal", "unavailable")
    found: dict[int | str, dict[str, Any]] = {}
    for kind in (*kinds, *everywhere):
        status, title = KINDS[kind]
        known = found.setdefault(
            status,
            {
                "description": title,
                "content": {
                    MEDIA_TYPE: {
                        "schema": {"$ref": "#/components/schemas/Problem"},
                        "examples": {},
                    }
                },
            },
        )
        example = body(kind, "what was expected, what came, and what to do next")
        known["content"][MEDIA_TYPE]["examples"][kind] = {"value": example}
    return found


def answers(
    status: int,
    model: type[Out] | UnionType | None,
    description: str,
    *kinds: str,
    content: Mapping[str, Any] | None = None,
) -> dict[int | str, dict[str, Any]]:
    """The answers of an operation: the good one, by its media types unless JSON, then errors."""
    good: dict[str, Any] = {"description": description}
    if model is not None:
        good["model"] = model
    if content is not None:
        good["content"] = dict(content)
    return {status: good} | problems("unauthorised", "limit-reached", "invalid-request", *kinds)
