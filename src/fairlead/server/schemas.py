"""Request bodies, and the schemas of requests and responses in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar, Union

import msgspec
from fastapi import Request
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette import responses

from fairlead.model.batches import Batch
from fairlead.model.customers import Customer, Customers, CustomerSettings, ReasonText
from fairlead.model.documents import (
    RESULT_PARTS,
    Audit,
    Document,
    Documents,
    EndedDocument,
    Page,
    PolicyInForce,
    Switched,
    Text,
)
from fairlead.model.explanations import Explanation, Place
from fairlead.model.jobs import PulledJobList, RenewedJob
from fairlead.model.json import Record, from_json, schemas, to_json
from fairlead.model.keys import LINK_DAYS, MOST_DAYS, Key, Keys, LoginLink, NewKey, NewLink
from fairlead.model.pipeline_figures import PipelineList
from fairlead.model.result_summary import Cause, ResultSummary
from fairlead.model.usage import CustomerStanding, Me, UsageList
from fairlead.model.webhooks import Deliveries, Webhook, Webhooks, WebhookWithSecret
from fairlead.server.descriptions import FIELDS
from fairlead.server.problems import KINDS, MEDIA_TYPE, Problem, problem_details

T = TypeVar("T")
MOST_JOBS = 100
"""Jobs of one claim."""
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Url = Annotated[str, Meta(min_length=1, max_length=2000)]
Password = Annotated[str, Meta(max_length=1000)]
EventKinds = Annotated[list[str], Meta(max_length=20)]


ProblemDetails = msgspec.defstruct(
    "Problem",  # the name of the schema
    [("type", str), ("title", str), ("status", int), ("detail", str)],
    bases=(Record,),
    frozen=True,
    namespace={"__doc__": "An error: RFC 9457."},
)


class JSONResponse(responses.JSONResponse):
    """A record in JSON."""

    render = staticmethod(to_json)  # type: ignore[assignment]


class Body(Struct, forbid_unknown_fields=True):
    """The body of a request. Every subclass is in the OpenAPI document."""


class KeyWanted(Body):
    """A key to create, for a customer, a service, a viewer, a worker or an operator.

    `expires` is its end: a time as in RFC 3339, or a delay in seconds.
    """

    customer: Name | None = None
    operator: bool = False
    service: Name | None = None
    viewer: Name | None = None
    worker: Name | None = None
    expires: str | None = None


_CHANGES = [
    (field.name, Union[field.type, None, UnsetType], UNSET)  # noqa: UP007 (not of types alone)
    if field.default is not None
    else (field.name, Union[field.type, UnsetType], UNSET)  # noqa: UP007
    for field in msgspec.structs.fields(CustomerSettings)
]
Changes = msgspec.defstruct(
    "Changes",
    _CHANGES,
    bases=(Body,),
    namespace={
        "__doc__": "Settings of a customer to change; null: the default of the installation."
    },
)
NewCustomer = msgspec.defstruct(
    "NewCustomer",
    [("name", Name), *_CHANGES],
    bases=(Body,),
    namespace={"__doc__": "A customer to create, with settings of its own."},
)


class BlockWanted(Body):
    """The reason to refuse a customer's new documents, which the customer reads."""

    reason: ReasonText


class LinkWanted(Body):
    """For how many days a link to a customer's page is valid."""

    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] = LINK_DAYS


class DocumentChanges(Body):
    """Changes of a document; fields that are not sent stay as they are."""

    urgent: bool | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    reference: str | UnsetType | None = UNSET


class RetryOptions(Body):
    """The password, if the document to retry is encrypted."""

    password: Password | None = None


class WebhookChanges(Body):
    """Changes of a webhook; fields that are not sent stay as they are."""

    url: Url | None = None
    kinds: EventKinds | None = None
    enabled: bool | None = None


class NewWebhook(Body):
    """A webhook to create."""

    url: Url
    kinds: EventKinds | None = None
    customer: Name | None = None


class PolicyWanted(Body):
    """The policy to switch to."""

    policy: Literal["classic", "fair"]


Step = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]


class JobsWanted(Body):
    """A claim of at most `max` jobs of pulled steps, named without `pull:`.

    `wait` is how many seconds the response may wait for the first job.
    """

    steps: Annotated[list[Step], Meta(min_length=1, max_length=100)]
    max: Annotated[int, Meta(ge=1, le=MOST_JOBS)] = 1
    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0


class JobProgress(Body):
    """How far a job is: 3 of 10 pages."""

    done: Annotated[int, Meta(ge=0, le=1_000_000_000)]
    total: Annotated[int, Meta(ge=0, le=1_000_000_000)]


class JobResult(Body):
    """The result of a step. Fields that are left out keep the results of earlier steps."""

    text: str | None = None
    markdown: str | None = None
    data: dict[str, Any] | None = None


class JobRefusal(Body):
    """Why a document fails: a code of small letters, digits and hyphens, and a sentence."""

    code: Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,63}$")]
    detail: Annotated[str, Meta(min_length=1, max_length=1000)]


class JobRetry(Body):
    """When the step is tried again: `after` so many seconds, or because of an `error`."""

    after: Seconds | None = None
    error: Annotated[str, Meta(max_length=100_000)] | None = None
    attempts: Annotated[int, Meta(ge=1, le=1000)] = 3
    retry_for: Seconds = 86_400.0


_RESPONSES = [
    Audit,
    Batch,
    Customer,
    Customers,
    CustomerStanding,
    Deliveries,
    Document,
    Documents,
    EndedDocument,
    Explanation,
    Key,
    Keys,
    LoginLink,
    Me,
    NewKey,
    NewLink,
    Page,
    PolicyInForce,
    ProblemDetails,
    Switched,
    Text,
    Webhook,
    Cause,
    PipelineList,
    ResultSummary,
    UsageList,
    WebhookWithSecret,
    Webhooks,
    PulledJobList,
    RenewedJob,
]
"""The records of responses; their schemas include those of the records in them."""
_OPTIONAL = {
    EndedDocument.__name__: frozenset(RESULT_PARTS),
    Me.__name__: frozenset(Me.__struct_fields__[5:]),
    Place.__name__: frozenset(["most"]),
}
"""Response fields that may be missing, by schema."""


def components() -> dict[str, Any]:
    """All schemas by name. In those of responses, every field is required unless optional."""
    responses = schemas(_RESPONSES)
    for title, schema in responses.items():
        for name, field in schema.get("properties", {}).items():
            field.pop("default", None)
            if (description := FIELDS.get(title, {}).get(name)) is not None:
                field["description"] = description
        if "properties" in schema:
            optional = _OPTIONAL.get(title, frozenset())
            schema["required"] = [name for name in schema["properties"] if name not in optional]
    return responses | schemas(sorted(Body.__subclasses__(), key=attrgetter("__name__")))


def reference(model: type) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def takes(model: type, *, required: bool = True) -> dict[str, Any]:
    content = {"application/json": {"schema": reference(model)}}
    return {"requestBody": {"required": required, "content": content}}


async def read_body(request: Request, model: type[T]) -> T:
    """The decoded body of a request. Problems never repeat its content: it may be a secret."""
    content = await request.body()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not (media_type == "application/json" or media_type.endswith("+json")):
        text = f"this URL expects application/json; got {media_type[:100]!r}"
        raise Problem("unsupported-media-type", text)
    try:
        return from_json(model, content)
    except msgspec.ValidationError as error:
        raise Problem("invalid-request", f"the body is not valid: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = "the body must be JSON in UTF-8, and not nested deeply"
        raise Problem("invalid-request", text) from None


def sent_fields(body: Struct) -> dict[str, Any]:
    """The fields that the request had, by name."""
    fields = {name: getattr(body, name) for name in body.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not UNSET}


NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "not modified: If-None-Match has its ETag"}
}
BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
TEXT = {"text/plain": {"schema": {"type": "string"}}}
MARKDOWN = {"text/markdown": {"schema": {"type": "string"}}}
OBJECT = {"application/json": {"schema": {"type": "object"}}}


def header(name: str, description: str) -> dict[str, Any]:
    parameter = {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
    return parameter | {"description": description}


IF_NONE_MATCH = header(
    "If-None-Match", "known ETags; the response is 304 if the document has one of them"
)
IF_MATCH = header(
    "If-Match", "expected ETags; the response is 412 if the document has none of them"
)


def problems(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """The errors of an operation, each with an example."""
    responses: dict[int | str, dict[str, Any]] = {}
    for kind in (*kinds, "key-in-query", "too-slow", "too-large", "internal", "unavailable"):
        status, title = KINDS[kind]
        content = {MEDIA_TYPE: {"schema": reference(ProblemDetails), "examples": {}}}
        response = responses.setdefault(status, {"description": title, "content": content})
        example = problem_details(kind, "what was expected, what came, and what to do next")
        response["content"][MEDIA_TYPE]["examples"][kind] = {"value": example}
    return responses


def answers(
    status: int,
    model: type | tuple[type, ...] | None,
    description: str,
    *kinds: str,
    content: Mapping[str, Any] | None = None,
) -> dict[int | str, dict[str, Any]]:
    """The responses of an operation: the successful one, in JSON and in `content`, and problems."""
    success: dict[str, Any] = {"description": description}
    types = dict(content or {})
    if isinstance(model, tuple):
        types["application/json"] = {"schema": {"anyOf": list(map(reference, model))}}
    elif model is not None:
        types["application/json"] = {"schema": reference(model)}
    if types:
        success["content"] = types
    usual = ("unauthorised", "forbidden", "limit-reached", "invalid-request")
    return {status: success} | problems(*usual, *kinds)
