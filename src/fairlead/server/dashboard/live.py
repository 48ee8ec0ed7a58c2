"""/live: what changes on the pages, as it changes (server-sent events)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.server.dashboard.live_view import Viewer
from fairlead.server.dashboard.page import Page, PageRoute, page_of
from fairlead.server.sse import SseStream

PING_SECONDS = 10.0

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/live")
async def live(request: Request, after: Annotated[str, Query(max_length=50)] = "") -> Response:
    """Changes after the mark of a page; `resync` where that is too long ago."""
    page = await page_of(request)
    return LiveStream(page, request.headers.get("last-event-id", "")[:50] or after)


@router.get("/live/session")
async def session(request: Request) -> Response:
    await page_of(request)
    return Response(status_code=204)


class LiveStream(SseStream):
    """Sends messages of the board to one browser."""

    def __init__(self, page: Page, after: str) -> None:
        super().__init__(page.context.metrics.streams)
        self._board = page.context.live_view
        self._is_closing = page.context.event_feed.is_closing
        self._after = after
        self._viewer = Viewer(page.caller.customer, page.caller.key_id, page.session)

    def closed(self) -> None:
        self._board.leave(self._viewer)

    async def contents(self) -> AsyncIterator[bytes]:
        viewer, live_view = self._viewer, self._board
        is_whole = live_view.watch(viewer, self._after)
        yield _event("hello" if is_whole else "resync", live_view.mark, "{}", retry=1000)
        if self._is_closing:
            viewer.close("stopping")
        while viewer.end is None:
            messages = await viewer.take(PING_SECONDS)
            told = [(each.number, each.text(viewer.customer)) for each in messages]
            lines = [
                _event("change", f"{live_view.epoch}.{number}", text)
                for number, text in told
                if text
            ]
            yield b"".join(lines) or _event("ping", live_view.mark, "{}")
        yield _event("end", live_view.mark, f'{{"reason":"{viewer.end}"}}')


def _event(kind: str, mark: str, text: str, *, retry: int | None = None) -> bytes:
    wait = "" if retry is None else f"retry: {retry}\n"
    return f"{wait}id: {mark}\nevent: {kind}\ndata: {text}\n\n".encode()
