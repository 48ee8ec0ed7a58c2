"""The middleware of every request: authentication, body limits, request id, problems, routes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time
from inspect import signature
from typing import TypeGuard
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as ASGIMessage

from fairlead.config.settings import Settings
from fairlead.errors import FairleadError, Message
from fairlead.server.auth import REQUEST_CUSTOMER
from fairlead.server.connection_limits import LimitedConnection, connection_of
from fairlead.server.context import ServerContext
from fairlead.server.headers import language_of
from fairlead.server.problems import Problem, not_found, problem_of
from fairlead.server.request_log import REQUEST_ID

_log = logging.getLogger(__name__)

UPLOADS = "/v1/documents"
MAX_JSON_BYTES = 65_536
MAX_RESULT_JSON_BYTES = 16_000_000
"""Of the result of a pulled job; a longer one is sent as a form."""
_RESULTS = re.compile(r"/v1/jobs/[^/]+/finish")
_KEY_IN_QUERY = re.compile(
    rb"fl_[0-9a-z]{12}_|(?:^|&)(?:api_?key|key|access_token)=", re.IGNORECASE
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestGuard:
    """The outermost middleware. Whatever goes wrong inside becomes a problem."""

    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        self._app = app
        self._context = context
        self._request_numbers = itertools.count(1)
        self._server_id = secrets.token_hex(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        connection = connection_of(scope)
        if connection is not None:
            connection.request_began()
        body = _RequestBody(scope["path"], headers, receive, self._context.settings(), connection)
        request_id = self._request_id(headers)
        REQUEST_ID.set(request_id.decode())
        response = _Response(send, request_id)
        began = time.perf_counter()
        try:
            await self._serve(scope, body, response)
        finally:
            if connection is not None:
                connection.request_ended()
            path = getattr(scope.get("route"), "path", "other")
            seconds = response.began_at - began
            self._context.metrics.answered(scope["method"][:10], path, response.status, seconds)

    async def _serve(self, scope: Scope, body: _RequestBody, response: _Response) -> None:
        # uvicorn starts a pipelined request in the context of the one before
        REQUEST_CUSTOMER.set(None)
        try:
            _check_query(scope["query_string"])
            if scope["path"].startswith("/v1/"):  # before the framework reads and checks a body
                await self._context.auth.caller(Request(scope))
            await self._app(scope, body.receive, response.send)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # the server stops and has waited for as long as it can
            if not response.status:
                text = Message("the server is stopping, or its workers have stopped")
                problem = Problem("unavailable", text, retry_after=5)
                await _refuse(scope, problem, body, response)
        except Exception as error:
            if response.status:
                raise
            await _refuse(scope, as_problem(error, scope), body, response)

    def _request_id(self, headers: dict[bytes, bytes]) -> bytes:
        """The client's own, or one that no other request has."""
        sent = headers.get(b"x-request-id")
        if sent is not None and _REQUEST_ID.fullmatch(sent):
            return sent
        return f"{self._server_id}-{next(self._request_numbers):x}".encode()


async def _refuse(scope: Scope, problem: Problem, body: _RequestBody, response: _Response) -> None:
    answer = problem.response(language_of(scope["headers"]))
    if body.is_held_back or problem.kind in ("too-slow", "unavailable"):
        answer.headers["connection"] = "close"
    await answer(scope, body.receive, response.send)


class _Response:
    """Adds the headers that all responses have, and notes the status and when it was sent."""

    def __init__(self, send: Send, request_id: bytes) -> None:
        self._send = send
        self._request_id = request_id
        self.status = 0
        self.began_at = 0.0

    async def send(self, message: ASGIMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.began_at = time.perf_counter()
            message["headers"] = [
                *message["headers"],
                (b"x-content-type-options", b"nosniff"),
                (b"x-request-id", self._request_id),
            ]
        await self._send(message)


class _RequestBody:
    """The body as it arrives, with a limit of its size and of the time between two pieces."""

    def __init__(
        self,
        path: str,
        headers: dict[bytes, bytes],
        receive: Receive,
        settings: Settings,
        connection: LimitedConnection | None,
    ) -> None:
        declared = headers.get(b"content-length", b"0")
        self._receive = receive
        self._limit = _body_limit(path, headers, settings)
        self._connection = connection
        self._declared = int(declared)
        self._size = 0
        self._is_complete = declared == b"0" and b"transfer-encoding" not in headers
        self.is_held_back = b"expect" in headers and not self._is_complete
        """Whether the client waits for `100 Continue`, which the first `receive` sends."""

    async def receive(self) -> ASGIMessage:
        if self._is_complete:
            return await self._receive()
        if self._declared > self._limit:
            raise self._too_large()
        self.is_held_back = False
        message = await self._next_piece()
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            raise self._too_large()
        self._is_complete = not message.get("more_body", False)
        return message

    async def _next_piece(self) -> ASGIMessage:
        connection, task = self._connection, asyncio.current_task()
        if connection is None or task is None:
            return await self._receive()
        connection.body_awaited(task.cancel)
        try:
            return await self._receive()
        except asyncio.CancelledError:
            if connection.is_awaiting_body:  # the server stops
                raise
            task.uncancel()
            seconds = float(connection.timeout)
            text = Message("no part of the body came for {seconds} s", seconds=seconds)
            raise Problem("too-slow", text) from None
        finally:
            connection.body_arrived()

    def _too_large(self) -> Problem:
        limit = self._limit
        text = Message(
            "this request may have at most {bytes} bytes; send a smaller one", bytes=limit
        )
        return Problem("too-large", text)


def _body_limit(path: str, headers: dict[bytes, bytes], settings: Settings) -> int:
    """Forms are written to disk as they arrive; any other body is kept in memory."""
    if path == UPLOADS:
        return settings.max_upload_bytes
    if not _RESULTS.fullmatch(path):
        return MAX_JSON_BYTES
    is_form = headers.get(b"content-type", b"").lower().startswith(b"multipart/")
    most = settings.result_limit + MAX_JSON_BYTES  # for the headers of its parts
    return most if is_form else min(most, MAX_RESULT_JSON_BYTES)


def _check_query(query: bytes) -> None:
    if query and _KEY_IN_QUERY.search(unquote_to_bytes(query)):
        text = Message(
            "URLs end up in logs; revoke this API key if it is real, and send the "
            "header Authorization: Bearer KEY"
        )
        raise Problem("key-in-query", text)


def as_problem(error: Exception, scope: Scope) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return _of_http(error, scope)
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    # The route, never the address: that may contain anything.
    route = getattr(scope.get("route"), "path", "an unknown address")
    where = (scope["method"], route)
    if isinstance(error, FairleadError):
        problem = problem_of(error, str(scope.get("path_params", {}).get("document_id", "")))
        if problem.status_code >= 500:
            _log.error("fairlead: %s %s: %s", *where, error)
        return problem
    _log.error("fairlead: %s %s", *where, exc_info=error)
    return Problem(
        "internal", Message("the server failed; its operator finds the reason in the log")
    )


_SUBMIT = "curl -X POST -T invoice.pdf '…/v1/documents?name=invoice.pdf'"


def _of_http(error: HTTPException, scope: Scope) -> Problem:
    """Errors of the framework: an unknown path or method."""
    if error.status_code == 405:
        method = scope["method"][:20]
        text = Message("this URL does not allow the method {method}", method=method)
        if method == "PUT" and scope["path"].startswith("/v1/documents"):  # curl -T
            text = Message(
                "documents are submitted with POST, for example: {command}", command=_SUBMIT
            )
        problem = Problem("method-not-allowed", text)
        problem.headers = {"Allow": ", ".join(sorted(_allowed_methods(scope)))}
        return problem
    if error.status_code == 404:
        return not_found()
    return Problem("invalid-request", str(error.detail))


def _allowed_methods(scope: Scope) -> set[str]:
    """The methods of all routes that match the path; Starlette names those of the first one."""
    methods: set[str] = set()
    for route in scope["app"].routes:
        if isinstance(route, Route | Mount) and route.path_regex.match(scope["path"]):
            methods |= getattr(route, "methods", None) or {"GET", "HEAD"}  # static files
    return methods


def _of_validation(error: RequestValidationError) -> Problem:
    """Says what is wrong, but does not repeat what came: it may be a secret."""
    mistakes = [
        {"where": ".".join(map(str, mistake["loc"])), "what": str(mistake["msg"])}
        for mistake in error.errors()[:20]
    ]
    detail = "; ".join(f"{mistake['where']}: {mistake['what']}" for mistake in mistakes[:5])
    return Problem("invalid-request", detail, errors=mistakes)


class DirectRoutes:
    """Looks up fixed paths in a dictionary, and leaves every other request to the application.

    For uploads this saves most of what FastAPI costs: trying routes and solving dependencies.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._routes: dict[tuple[str | None, str | None], APIRoute] = {
            (method, route.path): route
            for route in reversed(app.routes)  # of two routes with one path, the first one wins
            if is_direct(route)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get((scope.get("method"), scope.get("path")))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["app"] = self._app
        scope["route"] = route
        response: ASGIApp = await route.endpoint(Request(scope, receive))
        await response(scope, receive, send)


def is_direct(route: BaseRoute) -> TypeGuard[APIRoute]:
    """Whether its path is fixed and its handler takes nothing but the request.

    A route of a subclass, as the dashboard's, does more than call its handler.
    """
    return (
        type(route) is APIRoute
        and not route.param_convertors
        and not route.dependencies
        and route.dependant.request_param_name is not None
        and len(signature(route.endpoint).parameters) == 1
    )
