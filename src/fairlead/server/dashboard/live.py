"""/live: changes of the pages, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.server.dashboard.page import PageRequest, PageRoute, caller_page
from fairlead.server.sse import SseResponse

PING_SECONDS = 10.0

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/live")
async def live(request: Request, after: Annotated[str, Query(max_length=50)] = "") -> Response:
    """Changes after the mark of a page; `resync` if they are not stored any more."""
    page = await caller_page(request)
    last = request.headers.get("last-event-id", "")[:50] or after
    return SseResponse(_messages(page, last), page.context.metrics.streams)


@router.get("/live/session")
async def session(request: Request) -> Response:
    await caller_page(request)
    return Response(status_code=204)


async def _messages(page: PageRequest, after: str) -> AsyncGenerator[bytes, None]:
    view = page.context.live_view
    with view.subscription(page.caller.customer, page.caller.key_id, page.session) as queue:
        is_complete = view.replay(queue, after)
        yield _event("hello" if is_complete else "resync", view.mark, "{}", retry=1000)
        if page.context.event_feed.is_closing:
            queue.close("stopping")
        while queue.end is None:
            events = [
                _event("change", f"{view.epoch}.{message.number}", text)
                for message in await queue.take(PING_SECONDS)
                if (text := message.text(queue.customer))
            ]
            yield b"".join(events) or _event("ping", view.mark, "{}")
        yield _event("end", view.mark, f'{{"reason":"{queue.end}"}}')


def _event(kind: str, mark: str, text: str, *, retry: int | None = None) -> bytes:
    retry_line = "" if retry is None else f"retry: {retry}\n"
    return f"{retry_line}id: {mark}\nevent: {kind}\ndata: {text}\n\n".encode()
