"""/v1/events: what happens, as it happens (server-sent events)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.errors import Message
from fairlead.server import schemas
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext, context_of
from fairlead.server.event_feed import PORTION, EncodedEvent, Stream
from fairlead.server.problems import Problem
from fairlead.server.sse import PING_SECONDS, SseStream

_NEWEST = 2**62

router = APIRouter(prefix="/v1", tags=["events"])


@router.get(
    "/events",
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
) -> Response:
    """Follow what happens: to your documents or, for operators, everywhere.

    `Last-Event-ID`, or `after` at the first time, goes on after that event without gap or repeat;
    without them it begins now. A reader that is too slow gets `event: end` with the reason.
    """
    context = context_of(request)
    caller = await context.auth.caller(request)
    if caller.customer is not None and customer not in (None, caller.customer):
        raise Problem(
            "invalid-request", Message("a customer's key shows only the customer's own events")
        )
    if caller.is_operator and customer is not None:
        await context.ask(context.fairlead.store.customer, customer)  # an unknown one is an error
    last = _last_event(request.headers.get("last-event-id"))
    last = after if last is None else last
    newest = await context.ask(context.fairlead.store.last_event)
    whose = caller.customer or customer
    if last is None or last > newest:  # of another life of this folder: what comes has lower ones
        return EventStream(context, caller, whose, newest, begins_now=True)
    return EventStream(context, caller, whose, last, begins_now=False)


def _last_event(given: str | None) -> int | None:
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < len(str(_NEWEST))):
        raise Problem("invalid-request", Message("Last-Event-ID must be the number of an event"))
    return int(given)


class EventStream(SseStream):
    """Sends events until the reader goes, is too slow, or the server stops."""

    _stream: Stream | None = None

    def __init__(
        self,
        context: ServerContext,
        caller: Caller,
        customer: str | None,
        after: int,
        *,
        begins_now: bool,
    ) -> None:
        super().__init__(context.metrics.streams)
        self._office = context
        self._caller = caller
        self._customer = customer
        self._after = after
        self._begins_now = begins_now
        self._is_operator = caller.is_operator

    def closed(self) -> None:
        """Forget the reader."""
        if self._stream is not None:
            self._office.event_feed.unsubscribe(self._stream)

    async def contents(self) -> AsyncIterator[bytes]:
        """What happened after the number that was asked for, then what happens."""
        event_feed, last = self._office.event_feed, self._after
        yield b"retry: 1000\n\n"
        if self._begins_now:
            yield f"id: {last}\n\n".encode()  # where to go on if nothing else comes
        async for told in self._history(last, _NEWEST):
            last = told.event.seq
            yield told.text(for_operator=self._is_operator)
        self._stream = stream = event_feed.subscribe(self._customer, self._caller.key_id)
        async for told in self._history(last, event_feed.seen):  # what came until we subscribed
            last = told.event.seq
            yield told.text(for_operator=self._is_operator)
        if await self._office.auth.is_revoked(self._caller):  # before we subscribed
            stream.close("revoked")
        while True:
            found = [each for each in await stream.take(PING_SECONDS) if each.event.seq > last]
            yield (
                b"".join(each.text(for_operator=self._is_operator) for each in found)
                or b": ping\n\n"
            )
            if stream.end is not None:
                yield _end(stream.end)
                return

    async def _history(self, after: int, until: int) -> AsyncIterator[EncodedEvent]:
        """Events from the store up to a number; to the end of what is there now at most."""
        store = self._office.fairlead.store
        while after < until and not await self._office.auth.is_revoked(self._caller):
            found = await self._office.ask(store.events, after, PORTION, customer=self._customer)
            for event in found:
                if event.seq <= until:
                    yield EncodedEvent(event)
            if len(found) < PORTION:
                return
            after = found[-1].seq


def _end(reason: str) -> bytes:
    return f"event: end\ndata: {json.dumps({'reason': reason})}\n\n".encode()
