"""/v1/documents/{id}/result, /cause and /files/{name}: the results of steps."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from fairlead.app.document_result import DocumentResult
from fairlead.errors import Message, NotReady, UnknownFile
from fairlead.model.documents import Document
from fairlead.model.result_summary import Cause, ResultSummary
from fairlead.server import schemas
from fairlead.server.context import ServerContext, authenticated_operator, check_query
from fairlead.server.headers import is_not_modified
from fairlead.server.problems import Problem, customer_text
from fairlead.server.routes.documents import Download, file_name, visible

router = APIRouter(prefix="/v1/documents", tags=["documents"], dependencies=[Depends(check_query)])


@router.get(
    "/{document_id}/result",
    operation_id="getDocumentResult",
    responses=schemas.answers(200, ResultSummary, "its results", "unknown-document", "not-ready"),
)
async def result(request: Request, document_id: str) -> Response:
    """The results of a document that is done: data, files, and whether it has a text."""
    context, document, contents = await _contents(request, document_id)
    run = context.fetch if contents.is_remote else context.ask
    return schemas.JSONResponse(await run(_summary, document, contents))


@router.get(
    "/{document_id}/cause",
    operation_id="getDocumentCause",
    responses=schemas.answers(200, Cause, "the cause", "unknown-document"),
)
async def cause(request: Request, document_id: str) -> Response:
    """The traceback of a document's failure, or of its last attempt; for operators only."""
    context, _ = await authenticated_operator(request)
    return schemas.JSONResponse(
        Cause(document_id, await context.ask(context.fairlead.cause, document_id))
    )


@router.get(
    "/{document_id}/files/{name}",
    operation_id="getResultFile",
    response_class=Response,
    responses=schemas.answers(
        200,
        None,
        "the file",
        "unknown-document",
        "not-found",
        "not-ready",
        "range-not-satisfiable",
        "disk-full",  # the cache of fetched files is there
        content=schemas.BYTES,
    )
    | {206: {"description": "the part of it that was asked for", "content": schemas.BYTES}}
    | schemas.NOT_MODIFIED,
    openapi_extra={"parameters": [schemas.IF_NONE_MATCH, schemas.header("Range", "which bytes")]},
)
async def file(request: Request, document_id: str, name: str) -> Response:
    """A file that a step returned, always as an attachment; a long one supports ranges."""
    context, _, contents = await _contents(request, document_id)
    try:
        result_file = contents.stored_file(name)
    except UnknownFile as error:
        raise Problem("not-found", customer_text(error), code=error.code) from None
    headers = {
        "ETag": f'"{result_file.sha256}"',
        "Content-Disposition": f"attachment; {file_name(name)}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    if is_not_modified(request, headers["ETag"]):
        return Response(status_code=304, headers={"ETag": headers["ETag"]})
    media_type = result_file.media_type or "application/octet-stream"
    path = await context.fetch(context.fairlead.contents.path_of, result_file)
    if path is None:
        return Response(await context.ask(contents.file, name), 200, headers, media_type)
    if not await context.ask(path.exists):
        await context.fetch(context.fairlead.texts.check)
        raise Problem("internal", Message("the file is missing; ask the operator to restore it"))
    return Download(path, headers=headers, media_type=media_type)


async def _contents(
    request: Request, document_id: str
) -> tuple[ServerContext, Document, DocumentResult]:
    context, _, document = await visible(request, document_id)
    try:
        return context, document, await context.ask(context.fairlead.result, document_id)
    except NotReady as error:
        if document.state.is_pending:
            raise Problem(
                "not-ready", customer_text(error), retry_after=1, code=error.code
            ) from None
        raise


def _summary(document: Document, contents: DocumentResult) -> ResultSummary:
    return ResultSummary(
        id=document.id,
        kind=document.kind,
        has_text=contents.has_text,
        data=contents.data,
        files=contents.files,
    )
