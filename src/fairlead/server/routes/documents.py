"""/v1/documents: submit, look, read, decide."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import FileResponse, Response
from starlette.types import Message as ASGIMessage
from starlette.types import Receive, Scope, Send

from fairlead.errors import Message, NotReady, UnknownDocument
from fairlead.i18n import translator
from fairlead.intake import Offer
from fairlead.model.documents import Document, DocumentCheck, Documents, Page, StoredDocument, Text
from fairlead.model.explanations import Explanation
from fairlead.model.json import to_json
from fairlead.model.names import check_idempotency_key
from fairlead.model.states import State
from fairlead.model.submissions import options_from
from fairlead.policy.explain import with_words
from fairlead.server import schemas
from fairlead.server.auth import Caller, not_own_customer
from fairlead.server.context import (
    ServerContext,
    authenticated,
    check_parameters,
    context_of,
    known_parameters,
)
from fairlead.server.headers import (
    best_type,
    has_etag,
    header_list,
    is_not_modified,
    language_of,
    precondition,
)
from fairlead.server.long_texts import LongText
from fairlead.server.problems import Problem, customer_text, invalid_cursor, unknown_document
from fairlead.server.upload import Upload, read_upload
from fairlead.server.upload_schema import SUBMISSION

LONGEST_WAIT = 60
SECONDS_BETWEEN_LOOKS = 1
"""Retry-After of a submission: for clients that poll instead of waiting with `wait`."""
METADATA_PREFIX = "metadata."
_TEXTS = ("text/plain", "text/markdown", "application/json")
_PARTS = schemas.BYTES | {"multipart/byteranges": schemas.BYTES["application/octet-stream"]}
_CONDITIONAL = {"parameters": [schemas.IF_NONE_MATCH, schemas.IF_MATCH]}
_METADATA_FILTER = {
    "name": "metadata",
    "in": "query",
    "required": False,
    "style": "form",
    "explode": True,
    "description": "filters by metadata: a parameter `metadata.KEY` for each top-level key",
    "schema": {
        "type": "object",
        "propertyNames": {"pattern": r"^metadata\..+$"},
        "additionalProperties": {"type": "string"},
    },
    "example": {"metadata.order": "471"},
}
"""In OpenAPI, parameters with names of the caller's own are an object, sent as its fields."""


class Download(FileResponse):
    """A file, or ranges of it; a range that cannot be sent is a problem."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_or_refuse(message: ASGIMessage) -> None:
            if message.get("status") == 416:
                problem = Problem(
                    "range-not-satisfiable", Message("the range is outside of the document")
                )
                size = dict(message["headers"])[b"content-range"].decode()
                problem.headers = {"Content-Range": size}
                raise problem
            if message.get("status") == 400:
                raise Problem("invalid-request", "the Range header is not valid")
            await send(message)

        await super().__call__(scope, receive, send_or_refuse)


router = APIRouter(prefix="/v1/documents", tags=["documents"])


@router.post(
    "",
    operation_id="submitDocuments",
    status_code=202,
    responses=schemas.answers(
        202,
        (Document, Documents),
        "accepted, and safe",
        "invalid-upload",
        "customer-blocked",
        "unsupported-media-type",
        "idempotency-conflict",
        "deleted",
        "unknown-customer",
        "unknown-batch",
        "batch-ended",
    ),
    openapi_extra=SUBMISSION,
)
async def submit(request: Request) -> Response:
    """Submit one or more documents. When the response arrives, they are stored durably.

    Instead of a form, the body may be one document, with its `name` in the query and other fields
    beside it: `curl --data-binary @invoice.pdf '…/v1/documents?name=invoice.pdf'`.
    """
    context = context_of(request)
    caller = await context.auth.caller(request)
    key = _idempotency_key(request)
    upload = await read_upload(request, context)
    try:
        await context.auth.check_again(caller)  # the key may have been revoked since
        documents = await context.batcher.accept(_offer(context, caller, upload, key))
    except BaseException:
        upload.discard()
        raise
    if len(documents) == 1:
        location = f"/v1/documents/{documents[0].id}"
        return schemas.JSONResponse(documents[0], 202, _accepted_headers(location))
    batch = documents[0].batch
    location = f"/v1/batches/{batch}"
    return schemas.JSONResponse(Documents(documents, batch), 202, _accepted_headers(location))


def _accepted_headers(location: str) -> dict[str, str]:
    return {"Location": location, "Retry-After": str(SECONDS_BETWEEN_LOOKS)}


def _offer(context: ServerContext, caller: Caller, upload: Upload, key: str | None) -> Offer:
    fields = upload.texts()
    customer = context.auth.customer_of(caller, fields.get("customer"))
    own, options = caller.customer is not None, options_from(fields)
    upload.settings.known_pipeline(options.pipeline)
    return Offer(
        customer,
        upload.files,
        options,
        key,
        strict=not own and upload.settings.strict_customers,
        sender=None if own else caller.key_id,
        batch=fields.get("batch"),
        access_key=caller.key_id,
    )


def _idempotency_key(request: Request) -> str | None:
    keys = request.headers.getlist("idempotency-key")
    if len(keys) > 1:
        raise Problem("invalid-request", "a request has one Idempotency-Key; this has several")
    return check_idempotency_key(keys[0]) if keys else None


@router.get(
    "",
    operation_id="listDocuments",
    responses=schemas.answers(
        200,
        Page,
        "a page, newest first",
        "invalid-cursor",
        "unknown-customer",
        "unknown-document",
    ),
    openapi_extra={"parameters": [_METADATA_FILTER]},
)
async def pages(
    request: Request,
    *,
    state: State | None = None,
    priority: Annotated[int | None, Query(ge=1, le=2**31)] = None,
    customer: Annotated[str | None, Query(max_length=200)] = None,
    pipeline: Annotated[str | None, Query(max_length=64)] = None,
    parent: Annotated[str | None, Query(max_length=100)] = None,
    id_prefix: Annotated[str | None, Query(pattern="^[0-9a-z]{1,26}$")] = None,
    reference: Annotated[str | None, Query(max_length=200)] = None,
    batch: Annotated[str | None, Query(max_length=100)] = None,
    cursor: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List documents, newest first. `cursor` is the `next` of the page before.

    `parent` asks for the parts of one: its attachments, or the members of an archive. Both may
    be ids of deleted documents. `id_prefix` asks for documents whose id begins so. `metadata.KEY`
    asks for documents whose metadata has this value at its top level: the text of a string, or
    the JSON of a number or boolean.
    """
    named = [name for name in request.query_params if not name.startswith(METADATA_PREFIX)]
    check_parameters(named, known_parameters(request))
    context = context_of(request)
    caller = await context.auth.caller(request)
    if caller.customer is not None and customer not in (None, caller.customer):
        raise not_own_customer()
    query: dict[str, Any] = {
        "customer": caller.customer or customer,
        "state": state,
        "priority": priority,
        "pipeline": pipeline,
        "parent": parent,
        "id_prefix": id_prefix,
        "reference": reference,
        "batch": batch,
        "metadata": _asked_metadata(request),
        "before": cursor,
        "limit": limit + 1,
    }
    documents = await context.ask(_page, context, caller, query)
    following = documents[limit - 1].id if len(documents) > limit else None
    return schemas.JSONResponse(Page(documents[:limit], following))


def _asked_metadata(request: Request) -> dict[str, str]:
    return {
        name.removeprefix(METADATA_PREFIX): value
        for name, value in request.query_params.items()
        if name.startswith(METADATA_PREFIX)
    }


def _page(context: ServerContext, caller: Caller, query: dict[str, Any]) -> list[Document]:
    if caller.customer is None and query["customer"] is not None:
        context.fairlead.store.customer(query["customer"])  # raises if it is unknown
    if query["parent"] is not None and not _may_know(context, caller, query["parent"]):
        raise unknown_document(query["parent"])
    if query["before"] is not None and not _may_know(context, caller, query["before"]):
        raise invalid_cursor()
    return context.fairlead.store.documents(**query)


def _may_know(context: ServerContext, caller: Caller, document_id: str) -> bool:
    """Whether it is a document that the caller may see, or might have seen until its deletion."""
    try:
        return caller.may_see(context.fairlead.owner(document_id))
    except UnknownDocument:
        return False


async def visible(request: Request, document_id: str) -> tuple[ServerContext, Caller, Document]:
    """The document, if it is the caller's; another one's is as one that never was."""
    context, caller = await authenticated(request)
    return context, caller, await _look(context, caller, document_id)


async def _look(context: ServerContext, caller: Caller, document_id: str) -> Document:
    try:
        document = await context.ask(context.fairlead.document, document_id)
    except UnknownDocument:
        raise unknown_document(document_id) from None
    if not caller.may_see(document.customer):
        raise unknown_document(document_id)
    return document


@router.get(
    "/{document_id}",
    operation_id="getDocument",
    responses=schemas.answers(
        200, Document, "the document", "unknown-document", "precondition-failed"
    )
    | schemas.NOT_MODIFIED,
    openapi_extra=_CONDITIONAL,
)
async def show(
    request: Request, document_id: str, wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT)] = 0
) -> Response:
    """Show a document. With `wait`: when it has ended, or after that many seconds.

    With `wait` and `If-None-Match`: as soon as anything about the document changes.
    """
    context, caller, document = await visible(request, document_id)
    known = header_list(request.scope["headers"], b"if-none-match")
    if wait and request.method != "HEAD":
        document = await _wait(context, caller, document, wait, known)
    content = to_json(document)
    etag = _etag(content)
    if is_not_modified(request, etag):
        return Response(status_code=304, headers={"ETag": etag})
    return Response(content, 200, {"ETag": etag}, "application/json")


async def _wait(
    context: ServerContext, caller: Caller, document: Document, seconds: float, known: str | None
) -> Document:
    with context.event_feed.changes_of(document.id) as changed, suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                # Read after the subscription, so that no change in between is missed.
                document = await _look(context, caller, document.id)
                await context.auth.check_again(caller)
                if context.event_feed.is_closing or _is_news(document, known):
                    break
                await changed.wait()
                changed.clear()
    return document


def _is_news(document: Document, known: str | None) -> bool:
    if known is None:
        return not document.state.is_pending
    return not has_etag(known, _etag_of(document))


@router.get(
    "/{document_id}/text",
    operation_id="getDocumentText",
    response_class=Response,
    responses=schemas.answers(
        200,
        Text,
        "the text, by Accept",
        "unknown-document",
        "not-ready",
        "not-acceptable",
        "precondition-failed",
        "disk-full",  # fetched ones lie there
        content={name: {"schema": {"type": "string"}} for name in _TEXTS[:2]},
    )
    | schemas.NOT_MODIFIED,
    openapi_extra=_CONDITIONAL,
)
async def text(request: Request, document_id: str) -> Response:
    """The text of a document that is done, as `text/plain`, `text/markdown` or JSON."""
    context, _, document = await visible(request, document_id)
    wanted = best_type(header_list(request.scope["headers"], b"accept"), _TEXTS)
    if wanted is None:
        raise Problem(
            "not-acceptable", Message("the text is available as {types}", types=", ".join(_TEXTS))
        )
    stored = await context.ask(context.fairlead.store.stored_document, document_id)
    etag = _text_etag(wanted, document, stored)
    headers = {"Vary": "Accept", "ETag": etag}
    if stored.text_sha256 is not None and is_not_modified(request, etag):
        return Response(status_code=304, headers=headers)
    is_json = wanted == "application/json"
    media_type = wanted if is_json else f"{wanted}; charset=utf-8"
    has_markdown = wanted == "text/markdown" and stored.markdown_sha256 is not None
    key = stored.markdown_key if has_markdown else stored.text_key
    sha256 = stored.markdown_sha256 if has_markdown else stored.text_sha256
    if key is not None and sha256 is not None:
        record = Text(document.id, document.kind, document.facts, "") if is_json else None
        open_text = context.fairlead.contents.open_text
        long = await context.fetch(lambda: LongText(open_text(key, sha256), record))
        return long.response(request, headers, media_type)
    try:
        content = await context.ask(_short_text, context, document, wanted)
    except NotReady as error:
        if document.state.is_pending:
            raise Problem(
                "not-ready", customer_text(error), retry_after=1, code=error.code
            ) from None
        raise
    return Response(content, 200, headers, media_type)


def _short_text(context: ServerContext, document: Document, wanted: str) -> bytes:
    """The text as it is sent, of a document whose texts are in the database."""
    fairlead = context.fairlead
    text = (fairlead.markdown if wanted == "text/markdown" else fairlead.text)(document.id)
    if wanted == "application/json":
        return to_json(Text(document.id, document.kind, document.facts, text))
    return text.encode()


def _text_etag(wanted: str, document: Document, stored: StoredDocument) -> str:
    """By what is known of the texts: to read and hash them would take as long as to send them."""
    hashes = (stored.text_sha256, stored.markdown_sha256)
    return _etag(to_json((wanted, *hashes, document.id, document.kind, document.facts)))


@router.get(
    "/{document_id}/file",
    operation_id="getDocumentFile",
    response_class=Response,
    responses=schemas.answers(
        200,
        None,
        "the document as it was submitted",
        "unknown-document",
        "range-not-satisfiable",
        "precondition-failed",
        "disk-full",  # fetched ones lie there
        content=schemas.BYTES,
    )
    | {206: {"description": "the part of it that was asked for", "content": _PARTS}}
    | schemas.NOT_MODIFIED,
    openapi_extra={
        "parameters": [
            schemas.IF_NONE_MATCH,
            schemas.IF_MATCH,
            schemas.header("Range", "which bytes; of a document of up to 64 KiB all are sent"),
            schemas.header("If-Range", "an ETag: the range counts only while it is the file's"),
        ]
    },
)
async def content(request: Request, document_id: str) -> Response:
    """The document as it was submitted, always as an attachment; supports ranges."""
    context, _, document = await visible(request, document_id)
    headers = {
        "ETag": f'"{document.sha256}"',
        "Last-Modified": formatdate(document.submitted_at, usegmt=True),
    }
    if is_not_modified(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    headers |= {
        "Content-Disposition": f"attachment; {file_name(document.name)}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    short = await context.ask(context.fairlead.contents.short_original, document)
    if short is not None:
        return Response(short, headers=headers, media_type="application/octet-stream")
    path: Path = await context.fetch(context.fairlead.contents.path, document)
    if not await context.ask(path.exists):
        await context.fetch(context.fairlead.files.check)
        raise Problem("internal", Message("the file is missing; ask the operator to restore it"))
    return Download(path, headers=headers, media_type="application/octet-stream")


@router.get(
    "/{document_id}/why",
    operation_id="explainDocument",
    responses=schemas.answers(200, Explanation, "the reasons", "unknown-document"),
)
async def why(request: Request, document_id: str) -> Response:
    """Why the document has its priority, what it waits for, and when it may start.

    In the language of Accept-Language. Other customers have no names.
    """
    context, caller, _ = await visible(request, document_id)
    explanation = await context.ask(context.fairlead.why, document_id)
    speaker = translator(language_of(request.scope["headers"]))
    shown = with_words(explanation, speaker.reason, with_others=caller.is_operator)
    headers = {"Content-Language": speaker.language, "Vary": "Accept-Language"}
    return schemas.JSONResponse(shown, headers=headers)


_ACTION = ("unknown-document", "wrong-state", "precondition-failed")


@router.post(
    "/{document_id}/cancel",
    operation_id="cancelDocument",
    responses=schemas.answers(200, Document, "the cancelled document", *_ACTION),
    openapi_extra={"parameters": [schemas.IF_MATCH]},
)
async def cancel(request: Request, document_id: str) -> Response:
    """Cancel a pending document. Cancelling it again changes nothing."""
    context, caller, _ = await visible(request, document_id)
    check = precondition(request, _etag_of)
    document = await context.ask(
        context.fairlead.cancel, document_id, by=caller.key_id, check=check
    )
    return schemas.JSONResponse(document)


@router.post(
    "/{document_id}/retry",
    operation_id="retryDocument",
    responses=schemas.answers(200, Document, "the pending document", *_ACTION),
    openapi_extra=schemas.takes(schemas.RetryOptions, required=False)
    | {"parameters": [schemas.IF_MATCH]},
)
async def retry(request: Request, document_id: str) -> Response:
    """Queue again a document that has ended. A pending one is unchanged.

    The `password` opens an encrypted document; that of the submission is not kept.
    """
    context, caller, _ = await visible(request, document_id)
    options = schemas.RetryOptions()
    if await request.body():
        options = await schemas.read_body(request, schemas.RetryOptions)
    document = await context.ask(
        context.fairlead.retry,
        document_id,
        password=options.password,
        by=caller.key_id,
        check=precondition(request, _etag_of),
    )
    return schemas.JSONResponse(document)


@router.patch(
    "/{document_id}",
    operation_id="updateDocument",
    responses=schemas.answers(
        200, Document, "as it is now", "unknown-document", "precondition-failed"
    ),
    openapi_extra=schemas.takes(schemas.DocumentChanges) | {"parameters": [schemas.IF_MATCH]},
)
async def change(request: Request, document_id: str) -> Response:
    """Change the urgency, metadata or reference of a document. Its priority stays."""
    context, caller, _ = await visible(request, document_id)
    body = await schemas.read_body(request, schemas.DocumentChanges)
    document = await context.ask(
        context.fairlead.change,
        document_id,
        by=caller.key_id,
        check=precondition(request, _etag_of),
        **schemas.sent_fields(body),
    )
    return schemas.JSONResponse(document)


@router.delete(
    "/{document_id}",
    operation_id="deleteDocument",
    status_code=204,
    responses=schemas.answers(204, None, "deleted", "unknown-document", "precondition-failed"),
    openapi_extra={"parameters": [schemas.IF_MATCH]},
)
async def delete(request: Request, document_id: str) -> Response:
    """Remove a document with its files; a pending one is cancelled first. Its events stay.

    Deleting a deleted document again is not an error.
    """
    context, caller = await authenticated(request)
    texts = await context.ask(
        _delete, context, caller, document_id, precondition(request, _etag_of)
    )
    await context.fetch(context.fairlead.contents.delete, document_id, texts)
    return Response(status_code=204)


def _delete(
    context: ServerContext, caller: Caller, document_id: str, check: DocumentCheck | None
) -> list[str]:
    """Delete the row; the keys of its texts, which are files."""
    if not _may_know(context, caller, document_id):
        raise unknown_document(document_id)
    return context.fairlead.delete_row(document_id, by=caller.key_id, check=check)


def file_name(name: str) -> str:
    encoded = quote(name)
    return f'filename="{name}"' if encoded == name else f"filename*=utf-8''{encoded}"


def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _etag_of(document: Document) -> str:
    return _etag(to_json(document))
