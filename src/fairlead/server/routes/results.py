"""/v1/results: documents that have ended, in order of completion (NDJSON)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from msgspec.structs import asdict
from starlette.responses import Response, StreamingResponse

from fairlead.app.results import UnreadResult, check_parts, event_number
from fairlead.model.documents import RESULT_PARTS, EndedDocument, EventKind
from fairlead.model.json import to_json
from fairlead.server import schemas
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext, authenticated
from fairlead.server.routes.documents import LONGEST_WAIT

MOST = 10_000
NDJSON = "application/x-ndjson"
_ENDS = frozenset([EventKind.DONE, EventKind.FAILED, EventKind.CANCELLED])

router = APIRouter(prefix="/v1", tags=["documents"])


class _Query(NamedTuple):
    """The caller, and the filter of a listing; if `customer` is None, it lists all customers."""

    context: ServerContext
    caller: Caller
    customer: str | None
    include: tuple[str, ...]

    async def portion(self, after: int, limit: int) -> list[UnreadResult]:
        portion = self.context.fairlead.result_reader.portion
        return await self.context.ask(portion, after, limit, self.customer, self.include)

    async def line(self, result: UnreadResult) -> bytes:
        """One result as a line of JSON, with only the requested contents."""
        run = self.context.fetch if result.is_remote else self.context.ask
        ended: EndedDocument = await run(
            self.context.fairlead.result_reader.read, result, self.include
        )
        fields = asdict(ended)
        for part in RESULT_PARTS:
            if part not in self.include:
                del fields[part]
        return to_json(fields) + b"\n"


@router.get(
    "/results",
    operation_id="listResults",
    response_class=Response,
    responses=schemas.answers(
        200,
        None,
        "one JSON object a line",
        "invalid-cursor",
        "unknown-customer",
        content={NDJSON: {"schema": schemas.reference(EndedDocument)}},
    ),
)
async def results(
    request: Request,
    *,
    after: Annotated[str | None, Query(max_length=100)] = None,
    wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 1000,
    include: Annotated[str, Query(max_length=100)] = "",
    customer: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Documents that have ended, in order of completion, one JSON object a line.

    `after` is the `cursor` of a line: the results after it follow. Without it they start at the
    oldest one. They end at the newest one, or after `limit`. With `wait`, if there is none yet,
    the response comes with the next one, or after that many seconds. `include` adds contents:
    `text`, `markdown`, `data`, separated by commas.
    """
    context, caller = await authenticated(request)
    customer = caller.customer_filter(customer)
    if caller.customer is None and customer is not None:
        await context.ask(context.fairlead.store.customer, customer)  # raises if it is unknown
    parts = check_parts(part.strip() for part in include.split(",") if part.strip())
    query = _Query(context, caller, customer, parts)
    start = await context.ask(event_number, context.fairlead.store, after)
    seconds = wait if request.method != "HEAD" else 0
    first = await _first(query, start, limit, seconds)
    return StreamingResponse(_lines(query, first, limit), media_type=NDJSON)


async def _first(query: _Query, after: int, limit: int, seconds: float) -> list[UnreadResult]:
    """The first portion; waits for it, but no longer than so many seconds."""
    context = query.context
    if not seconds:
        return await query.portion(after, limit)
    portion: list[UnreadResult] = []
    with context.event_feed.subscription(query.customer, query.caller.key_id) as queue:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not portion and queue.end is None:
                    # Read after the subscription, so that nothing in between is missed.
                    portion = await query.portion(after, limit)
                    while not portion and queue.end is None:
                        events = await queue.take(seconds)
                        if any(encoded.event.kind in _ENDS for encoded in events):
                            break
        await context.auth.check_again(query.caller)
    return portion


async def _lines(query: _Query, portion: list[UnreadResult], limit: int) -> AsyncIterator[bytes]:
    while portion:
        for result in portion:
            yield await query.line(result)
        limit -= len(portion)
        if limit <= 0 or await query.context.auth.is_revoked(query.caller):
            return
        portion = await query.portion(int(portion[-1].cursor), limit)
