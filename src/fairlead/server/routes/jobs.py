"""/v1/jobs: pulled jobs, for steps that other programs run in any language, on any machine."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import suppress
from functools import partial

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from fairlead.errors import Message
from fairlead.model.blobs import BlobStore
from fairlead.model.jobs import PulledJob, PulledJobList, RenewedJob
from fairlead.model.pipelines import pipeline_of
from fairlead.model.results import Content
from fairlead.server import schemas
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext, authenticated, check_query, context_of
from fairlead.server.job_result import FORM, FORM_SCHEMA, read_result
from fairlead.server.problems import Problem, not_found
from fairlead.server.routes.documents import Download, file_name
from fairlead.steps.declare import Refuse, RetryLater
from fairlead.steps.outcomes import Invalid, Outcome, Raised, StepOptions
from fairlead.steps.run import LONGEST_SUMMARY, LONGEST_TRACEBACK, encodable, outcome_of_error
from fairlead.worker.pulled_jobs import EndedJob, HeldJob

CHECK_SECONDS = 1.0
"""How often a long poll looks for due retries and expired leases."""
LEAST_SECONDS = 0.1
"""The least time between two claims of one long poll, however many events there are."""
_LOST = ("job-lost",)

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(check_query)])


@router.post(
    "/claim",
    operation_id="claimJobs",
    responses=schemas.answers(200, PulledJobList, "the jobs, or none"),
    openapi_extra=schemas.takes(schemas.JobsWanted),
)
async def claim(request: Request) -> Response:
    """Claim documents that wait for these steps, in the order of the queue.

    With `wait`, the response comes as soon as there is one, or after that many seconds.
    """
    context, caller = await authenticated(request)
    body = await schemas.read_body(request, schemas.JobsWanted)
    jobs = await _claimed(request, context, caller, body)
    lease = context.jobs.lease()
    return schemas.JSONResponse(PulledJobList([_pulled_job(job, lease) for job in jobs]))


async def _claimed(
    request: Request, context: ServerContext, caller: Caller, body: schemas.JobsWanted
) -> list[HeldJob]:
    until = time.monotonic() + body.wait
    with context.event_feed.all_changes() as changed:
        while True:
            changed.clear()  # before the claim, so that no change during it is missed
            jobs, opens_in = await context.ask(
                context.jobs.claim, body.steps, body.max, caller.key_id
            )
            left = until - time.monotonic()
            if jobs and await request.is_disconnected():
                await context.ask(context.jobs.release, jobs)
                return []
            if jobs or left <= 0 or context.event_feed.is_closing:
                return jobs
            await asyncio.sleep(min(left, LEAST_SECONDS))
            pause = max(0.0, min(left - LEAST_SECONDS, opens_in, CHECK_SECONDS))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await changed.wait()
            await context.auth.check_again(caller)
            if await request.is_disconnected():
                return []


@router.post(
    "/{token}/renew",
    operation_id="renewJob",
    responses=schemas.answers(200, RenewedJob, "the lease is renewed", *_LOST),
    openapi_extra=schemas.takes(schemas.JobProgress, required=False),
)
async def renew(request: Request, token: str) -> Response:
    """Renew the lease of a job and report its progress. 409: stop, the result is not needed."""
    context, job = await _held_job(request, token)
    progress = None
    if await request.body():
        body = await schemas.read_body(request, schemas.JobProgress)
        progress = (body.done, body.total)
    lease = await context.ask(context.jobs.renew, job, progress)
    return schemas.JSONResponse(RenewedJob(lease))


@router.post(
    "/{token}/finish",
    operation_id="finishJob",
    status_code=204,
    responses=schemas.answers(204, None, "the result is stored", *_LOST, "unsupported-media-type"),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": schemas.reference(schemas.JobResult)},
                FORM: {"schema": FORM_SCHEMA},
            },
        }
    },
)
async def finish(request: Request, token: str) -> Response:
    """End a job with its result: text, Markdown and data as JSON, or with files as a form.

    The same result again is a 204, too; another one is a 409.
    """
    context, job = await _held_or_ended_job(request, token)
    try:
        returned = await read_result(request, context, job.folder)
        await context.ask(context.jobs.finish, job, returned)
    finally:
        await context.ask(partial(shutil.rmtree, job.folder, ignore_errors=True))
    return Response(status_code=204)


@router.post(
    "/{token}/refuse",
    operation_id="refuseJob",
    status_code=204,
    responses=schemas.answers(204, None, "the document has failed", *_LOST),
    openapi_extra=schemas.takes(schemas.JobRefusal),
)
async def refuse(request: Request, token: str) -> Response:
    """Fail the document permanently; its customer reads the detail."""
    context, job = await _held_or_ended_job(request, token)
    body = await schemas.read_body(request, schemas.JobRefusal)
    outcome = outcome_of_error(Refuse(body.code, body.detail))
    return await _settle(context, job, outcome, StepOptions())


@router.post(
    "/{token}/retry",
    operation_id="retryJob",
    status_code=204,
    responses=schemas.answers(204, None, "the document waits for its next attempt", *_LOST),
    openapi_extra=schemas.takes(schemas.JobRetry),
)
async def retry(request: Request, token: str) -> Response:
    """Try the step again: `after` that many seconds, or because of an `error`, with backoff.

    An `error` uses an attempt, and only operators read it. After that many `attempts`, or after
    `retry_for` seconds in total, the document fails as `step-failed`.
    """
    context, job = await _held_or_ended_job(request, token)
    body = await schemas.read_body(request, schemas.JobRetry)
    if (body.after is None) == (body.error is None):
        raise Problem("invalid-request", "send either after, in seconds, or error")
    options = StepOptions(attempts=body.attempts, retry_for=body.retry_for)
    outcome: Outcome
    if body.after is not None:
        outcome = outcome_of_error(RetryLater(body.after))
    else:
        text = encodable((body.error or "")[-LONGEST_TRACEBACK:])
        outcome = Raised(text[:LONGEST_SUMMARY], text)
    return await _settle(context, job, outcome, options)


async def _settle(
    context: ServerContext, job: HeldJob | EndedJob, outcome: Outcome, options: StepOptions
) -> Response:
    if isinstance(outcome, Invalid):
        raise Problem("invalid-request", outcome.sentence)
    await context.ask(context.jobs.settle, job, outcome, options)
    return Response(status_code=204)


# --- what a job may read ---


@router.get(
    "/{token}/content",
    operation_id="getJobContent",
    response_class=Response,
    responses=schemas.answers(
        200, None, "the original", *_LOST, "range-not-satisfiable", content=schemas.BYTES
    )
    | {206: {"description": "the part of it that was asked for", "content": schemas.BYTES}},
)
async def content(request: Request, token: str) -> Response:
    """The document as it was submitted."""
    context, job = await _held_job(request, token)
    claim, media_type = job.claim, "application/octet-stream"
    headers = {
        "ETag": f'"{claim.sha256}"',
        "Content-Disposition": f"attachment; {file_name(claim.name)}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    if claim.content is not None:
        return Response(claim.content, headers=headers, media_type=media_type)
    return await _download(context, context.fairlead.files, claim.id, headers, media_type)


@router.get(
    "/{token}/text",
    operation_id="getJobText",
    response_class=Response,
    responses=schemas.answers(200, None, "the text", *_LOST, "not-found", content=schemas.TEXT),
)
async def text(request: Request, token: str) -> Response:
    """The text that earlier steps found."""
    context, job = await _held_job(request, token)
    return await _content_response(context, job.run.interim.text, "text/plain; charset=utf-8")


@router.get(
    "/{token}/markdown",
    operation_id="getJobMarkdown",
    response_class=Response,
    responses=schemas.answers(
        200, None, "the Markdown", *_LOST, "not-found", content=schemas.MARKDOWN
    ),
)
async def markdown(request: Request, token: str) -> Response:
    """The Markdown that earlier steps found; the text where they found none."""
    context, job = await _held_job(request, token)
    content = job.run.interim.markdown or job.run.interim.text
    return await _content_response(context, content, "text/markdown; charset=utf-8")


@router.get(
    "/{token}/data",
    operation_id="getJobData",
    response_class=Response,
    responses=schemas.answers(200, None, "the data", *_LOST, "not-found", content=schemas.OBJECT),
)
async def data(request: Request, token: str) -> Response:
    """The data that earlier steps found."""
    context, job = await _held_job(request, token)
    return await _content_response(context, job.run.interim.data, "application/json")


async def _held_job(request: Request, token: str) -> tuple[ServerContext, HeldJob]:
    context = context_of(request)
    caller = await context.auth.caller(request)
    return context, await context.ask(context.jobs.held, token, caller.key_id)


async def _held_or_ended_job(
    request: Request, token: str
) -> tuple[ServerContext, HeldJob | EndedJob]:
    context = context_of(request)
    caller = await context.auth.caller(request)
    return context, await context.ask(context.jobs.held_or_ended, token, caller.key_id)


async def _content_response(
    context: ServerContext, content: Content | None, media_type: str
) -> Response:
    if content is None:
        raise not_found()
    if content.key is None:
        return Response(content.content or b"", media_type=media_type)
    return await _download(context, context.fairlead.texts, content.key, {}, media_type)


async def _download(
    context: ServerContext, blobs: BlobStore, key: str, headers: dict[str, str], media_type: str
) -> Response:
    path = await context.fetch(blobs.path, key)
    if not await context.ask(path.exists):
        await context.fetch(blobs.check)
        raise Problem("internal", Message("the file is missing; ask the operator to restore it"))
    return Download(path, headers=headers, media_type=media_type)


def _pulled_job(job: HeldJob, lease: float) -> PulledJob:
    claim, interim = job.claim, job.run.interim
    url = f"/v1/jobs/{job.token}"
    has_text = interim.text is not None
    return PulledJob(
        token=job.token,
        step=job.step,
        document=claim.id,
        customer=claim.customer,
        name=claim.name,
        kind=interim.kind,
        size=claim.size,
        sha256=claim.sha256,
        attempt=interim.attempts + 1,
        lease=lease,
        content=f"{url}/content",
        text=f"{url}/text" if has_text else None,
        markdown=f"{url}/markdown" if has_text or interim.markdown is not None else None,
        data=f"{url}/data" if interim.data is not None else None,
        pipeline=pipeline_of(claim.pipeline),
        metadata=dict(claim.metadata),
    )
