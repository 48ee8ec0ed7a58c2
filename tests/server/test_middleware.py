"""The middleware, without a server process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from starlette.types import Message as ASGIMessage
from starlette.types import Receive, Scope, Send

from fairlead import Fairlead
from fairlead.server.auth import REQUEST_CUSTOMER
from fairlead.server.context import ServerContext
from fairlead.server.middleware import RequestGuard


def test_a_request_knows_nothing_of_who_asked_before_it(tmp_path: Path) -> None:
    """A pipelined request starts in the context of the request before it."""
    known: list[str | None] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        known.append(REQUEST_CUSTOMER.get())
        REQUEST_CUSTOMER.set("acme")
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def ask(context: ServerContext) -> None:
        line = httpx.ASGITransport(RequestGuard(app, context))
        async with httpx.AsyncClient(transport=line, base_url="http://test") as client:
            for _ in range(2):
                await client.get("/")
        context.close()

    with Fairlead(tmp_path) as fairlead:
        asyncio.run(ask(ServerContext(fairlead)))
    assert known == [None, None]


@pytest.mark.parametrize("has_begun", [False, True])
def test_what_is_cut_off_when_the_server_stops_is_told_to_come_again(
    tmp_path: Path, *, has_begun: bool
) -> None:
    start = {"type": "http.response.start", "status": 200, "headers": []}

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        if has_begun:
            await send(start)
        raise asyncio.CancelledError

    async def ask() -> list[ASGIMessage]:
        sent: list[ASGIMessage] = []

        async def send(message: ASGIMessage) -> None:
            sent.append(message)

        async def receive() -> ASGIMessage:
            return {"type": "http.request"}

        scope = {"type": "http", "method": "GET", "path": "/livez"}
        with Fairlead(tmp_path) as fairlead:
            guard = RequestGuard(app, ServerContext(fairlead))
            await guard({**scope, "query_string": b"", "headers": []}, receive, send)
        return sent

    sent = asyncio.run(ask())
    if has_begun:
        assert [message["type"] for message in sent] == ["http.response.start"]
        return
    assert sent[0]["status"] == 503
    assert {(b"retry-after", b"5"), (b"connection", b"close")} <= set(sent[0]["headers"])
    assert b"urn:fairlead:problem:unavailable" in sent[1]["body"]
