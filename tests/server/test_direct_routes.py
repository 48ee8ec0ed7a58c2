"""Direct routes respond as the same routes do through FastAPI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp

from fairlead import Fairlead
from fairlead.server.app import create_inner, guarded
from fairlead.server.context import ServerContext
from fairlead.server.middleware import DirectRoutes, RequestGuard, is_direct

BODY = {"Content-Type": "multipart/form-data; boundary=x"}
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nb\r\n--x--\r\n'


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ServerContext]:
    with Fairlead(tmp_path / "data") as fairlead:
        context = ServerContext(fairlead)
        yield context
        context.close()


def direct_routes(app: FastAPI) -> dict[tuple[str, str], APIRoute]:
    return {
        (method, route.path): route
        for route in app.routes
        if is_direct(route)
        for method in route.methods or ()
    }


def test_uploads_go_straight(context: ServerContext) -> None:
    routes = set(direct_routes(create_inner(context)))
    assert {("POST", "/v1/documents"), ("GET", "/livez"), ("GET", "/v1/me")} <= routes
    assert ("GET", "/v1/documents") not in routes


def test_no_other_route_would_have_answered(context: ServerContext) -> None:
    app = create_inner(context)
    for (method, path), route in direct_routes(app).items():
        scope = {"type": "http", "method": method, "path": path, "root_path": ""}
        assert next(other for other in app.routes if other.matches(scope)[0] is Match.FULL) is route


REQUESTS = [
    ("GET", "/livez", {}, b""),
    ("HEAD", "/livez", {}, b""),
    ("GET", "/livez/", {}, b""),
    ("GET", "/livez?key=1", {}, b""),
    ("GET", "/v1/me", {}, b""),
    ("GET", "/v1/me", {"Authorization": "Bearer KEY"}, b""),
    ("PUT", "/v1/documents", {}, b""),
    ("POST", "/v1/documents", {}, b""),
    ("POST", "/v1/documents", {"Authorization": "Bearer KEY"}, b"{}"),
    ("POST", "/v1/documents", {"Authorization": "Bearer KEY"} | BODY, b"--x--\r\n"),
    ("POST", "/v1/documents", {"Authorization": "Bearer KEY", "Idempotency-Key": ""}, b""),
    ("POST", "/v1/documents", {"Authorization": "Bearer KEY", "Idempotency-Key": "1"} | BODY, FILE),
    ("GET", "/v1/documents?limit=0", {"Authorization": "Bearer KEY"}, b""),
    ("GET", "/nowhere", {"Accept-Language": "de"}, b""),
    ("GET", "/", {"Accept-Language": "de"}, b""),
    ("POST", "/language", {}, b""),
]


@pytest.mark.parametrize(("method", "path", "headers", "content"), REQUESTS)
def test_both_ways_answer_the_same(
    context: ServerContext, method: str, path: str, headers: dict[str, str], content: bytes
) -> None:
    key, _ = context.fairlead.keys.add("acme")
    headers = {name: value.replace("KEY", key) for name, value in headers.items()}
    app = create_inner(context)

    async def answer(way: ASGIApp) -> tuple[int, list[tuple[str, str]], bytes]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(way), base_url="http://x"
        ) as client:
            response = await client.request(method, path, headers=headers, content=content)
        del response.headers["x-request-id"]
        return response.status_code, response.headers.multi_items(), response.content

    assert asyncio.run(answer(guarded(app, context))) == asyncio.run(
        answer(RequestGuard(app, context))
    )


class Wrapped(APIRoute):
    """A route that does something around its handler."""


def test_what_needs_more_than_the_request_goes_the_long_way() -> None:
    app = FastAPI(openapi_url=None)

    async def alone(request: Request) -> Response:
        return PlainTextResponse(request.url.path)

    async def asking(request: Request, number: int = 0) -> Response:
        return PlainTextResponse(f"{request.url.path} {number}")

    app.add_api_route("/alone", alone)
    app.add_api_route("/asking", asking)
    app.add_api_route("/of/{name}", alone)
    app.add_api_route("/with", alone, dependencies=[Depends(lambda: None)])
    app.router.add_api_route("/more", alone, route_class_override=Wrapped)
    assert set(direct_routes(app)) == {("GET", "/alone")}


def test_of_two_routes_at_one_address_the_first_one_answers() -> None:
    app = FastAPI(openapi_url=None)

    async def first(_request: Request) -> Response:
        return PlainTextResponse("first")

    async def second(_request: Request) -> Response:
        return PlainTextResponse("second")

    app.add_api_route("/", first)
    app.add_api_route("/", second)

    async def ask() -> str:
        transport = httpx.ASGITransport(DirectRoutes(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return (await client.get("/")).text

    assert asyncio.run(ask()) == "first"
