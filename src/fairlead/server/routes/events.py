"""/v1/events: the events of documents, as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.errors import Message
from fairlead.model.names import check_customer
from fairlead.server import schemas
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext, authenticated
from fairlead.server.event_feed import PORTION, EncodedEvent
from fairlead.server.problems import Problem
from fairlead.server.sse import SseResponse

PING_SECONDS = 15.0
_NEWEST = 2**62

router = APIRouter(prefix="/v1", tags=["events"])


@router.get(
    "/events",
    operation_id="streamEvents",
    response_class=Response,
    responses=schemas.answers(200, None, "a stream that does not end by itself", "unknown-customer")
    | {200: {"description": "a stream", "content": {"text/event-stream": {}}}},
    openapi_extra={
        "parameters": [schemas.header("Last-Event-ID", "the number of the last event that came")]
    },
)
async def events(
    request: Request,
    *,
    customer: Annotated[str | None, Query(max_length=200)] = None,
    after: Annotated[int | None, Query(ge=0, le=_NEWEST)] = None,
    follow: bool = True,
) -> Response:
    """Stream the events of your documents or, for operators, of all customers.

    `Last-Event-ID`, or `after` in the first request, resumes after that event without gap or
    repeat; without them the stream begins now. With `follow=false` it ends at the newest event.
    The stream of a customer that does not exist yet has events once it does.
    A reader that is too slow gets `event: end` with the reason.
    """
    context, caller = await authenticated(request)
    customer = caller.customer_filter(customer)
    if caller.customer is None and customer is not None:
        check_customer(customer)
        if not follow:
            await context.ask(context.fairlead.store.customer, customer)  # raises if it is unknown
    last = _last_event(request.headers.get("last-event-id"))
    last = after if last is None else last
    newest = await context.ask(context.fairlead.store.last_event)
    is_new = last is None or last > newest  # an event number of another data folder
    start = newest if last is None or is_new else last
    if not follow:
        return SseResponse(
            _stored_events(context, caller, customer, start), context.metrics.streams
        )
    context.event_feed.check_streams(caller.key_id)
    stream = event_stream(context, caller, customer, start, announces_start=is_new)
    return SseResponse(stream, context.metrics.streams)


def _last_event(header: str | None) -> int | None:
    if not header:
        return None
    if not (header.isascii() and header.isdigit() and len(header) < len(str(_NEWEST))):
        raise Problem("invalid-request", Message("Last-Event-ID must be the number of an event"))
    return int(header)


async def event_stream(
    context: ServerContext,
    caller: Caller,
    customer: str | None,
    last: int,
    *,
    announces_start: bool,
) -> AsyncGenerator[bytes, None]:
    """Stored events after `last`, then new ones, until the server or the feed ends the stream."""
    yield b"retry: 1000\n\n"
    if announces_start:
        yield f"id: {last}\n\n".encode()  # a client that reconnects continues from here
    async for encoded in _history(context, caller, customer, last, _NEWEST):
        last = encoded.event.seq
        yield encoded.text(for_operator=caller.is_operator)
    with context.event_feed.subscription(customer, caller.key_id) as queue:
        # Read the events that arrived between the last read and the subscription.
        async for encoded in _history(context, caller, customer, last, context.event_feed.seen):
            last = encoded.event.seq
            yield encoded.text(for_operator=caller.is_operator)
        if await context.auth.is_revoked(caller):  # the subscription missed the event
            queue.close("revoked")
        while True:
            texts = [
                encoded.text(for_operator=caller.is_operator)
                for encoded in await queue.take(PING_SECONDS)
                if encoded.event.seq > last
            ]
            yield b"".join(texts) or b": ping\n\n"
            if queue.end is not None:
                yield f"event: end\ndata: {json.dumps({'reason': queue.end})}\n\n".encode()
                return


async def _stored_events(
    context: ServerContext, caller: Caller, customer: str | None, after: int
) -> AsyncGenerator[bytes, None]:
    async for encoded in _history(context, caller, customer, after, _NEWEST):
        yield encoded.text(for_operator=caller.is_operator)


async def _history(
    context: ServerContext, caller: Caller, customer: str | None, after: int, until: int
) -> AsyncIterator[EncodedEvent]:
    """Stored events after one number and up to another, until there are no more."""
    while after < until and not await context.auth.is_revoked(caller):
        events = await context.ask(context.fairlead.store.events, after, PORTION, customer=customer)
        for event in events:
            if event.seq <= until:
                yield EncodedEvent(event)
        if len(events) < PORTION:
            return
        after = events[-1].seq
