"""The middleware around every request: authentication, limits of the body, request id, problems."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time
from urllib.parse import unquote_to_bytes

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as ASGIMessage

from fairlead.config.settings import Settings
from fairlead.errors import FairleadError, Message
from fairlead.server.auth import ASKED_BY
from fairlead.server.connection_limits import connection_of
from fairlead.server.context import ServerContext
from fairlead.server.headers import language_of
from fairlead.server.problems import Problem, of_ours

_log = logging.getLogger(__name__)

UPLOADS = "/v1/documents"
MOST_JSON_BYTES = 65_536
SECONDS_UNTIL_BACK = 5
"""The Retry-After of a server that stops."""
_KEY_IN_QUERY = re.compile(
    rb"fl_[0-9a-z]{12}_|(?:^|&)(?:api_?key|key|access_token)=", re.IGNORECASE
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_KINDS_BY_STATUS = {
    400: "invalid-request",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
    416: "range-not-satisfiable",
}


class RequestGuard:
    """The outermost middleware. Whatever goes wrong inside becomes a problem."""

    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        self._app = app
        self._office = context
        self._request_numbers = itertools.count(1)
        self._server_id = secrets.token_hex(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        connection = connection_of(scope)
        if connection is not None:
            connection.request_began()
        body = _RequestBody(scope["path"], headers, receive, self._office.settings())
        response = _Response(send, self._request_id(headers))
        began = time.perf_counter()
        try:
            await self._serve(scope, body, response)
        finally:
            if connection is not None:
                connection.request_ended()
            path = getattr(scope.get("route"), "path", "other")
            seconds = response.began_at - began
            self._office.metrics.answered(scope["method"][:10], path, response.status, seconds)

    async def _serve(self, scope: Scope, body: _RequestBody, response: _Response) -> None:
        ASKED_BY.set(None)  # uvicorn starts a pipelined request in the context of the one before
        try:
            _check_query(scope["query_string"])
            if scope["path"].startswith("/v1/"):  # before the framework reads and checks a body
                await self._office.auth.caller(Request(scope))
            await self._app(scope, body.receive, response.send)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # the server stops and has waited for as long as it can
            if not response.status:
                await self._refuse(scope, _stopping(), body, response)
        except Exception as error:
            if response.status:
                raise
            problem = as_problem(error, scope, response.request_id)
            await self._refuse(scope, problem, body, response)

    async def _refuse(
        self, scope: Scope, problem: Problem, body: _RequestBody, response: _Response
    ) -> None:
        answer = problem.response(language_of(scope["headers"]))
        if body.is_held_back or problem.kind in ("too-slow", "unavailable"):
            answer.headers["connection"] = "close"
        await answer(scope, body.receive, response.send)

    def _request_id(self, headers: dict[bytes, bytes]) -> bytes:
        """The client's own, or one that no other request has."""
        sent = headers.get(b"x-request-id")
        if sent is not None and _REQUEST_ID.fullmatch(sent):
            return sent
        return f"{self._server_id}-{next(self._request_numbers):x}".encode()


class _Response:
    """Adds the headers that all responses have, and notes the status and when it was sent."""

    def __init__(self, send: Send, request_id: bytes) -> None:
        self._send = send
        self.request_id = request_id
        self.status = 0
        self.began_at = 0.0

    async def send(self, message: ASGIMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.began_at = time.perf_counter()
            message["headers"] = [
                *message["headers"],
                (b"x-content-type-options", b"nosniff"),
                (b"x-request-id", self.request_id),
            ]
        await self._send(message)


class _RequestBody:
    """The body as it arrives, with a limit of its size and of the time between two pieces."""

    def __init__(
        self, path: str, headers: dict[bytes, bytes], receive: Receive, settings: Settings
    ) -> None:
        is_multipart = headers.get(b"content-type", b"").lower().startswith(b"multipart/")
        is_upload = is_multipart and path == UPLOADS  # any other body is kept in memory
        declared = headers.get(b"content-length", b"0")
        self._receive = receive
        self._limit = settings.max_upload_bytes if is_upload else MOST_JSON_BYTES
        self._timeout = settings.request_timeout
        self._declared = int(declared)
        self._size = 0
        self._is_complete = declared == b"0" and b"transfer-encoding" not in headers
        self.is_held_back = b"expect" in headers and not self._is_complete
        """Whether the client waits for `100 Continue`, which the first `receive` sends."""

    async def receive(self) -> ASGIMessage:
        """The next piece; refuses a body that is too large or too slow."""
        if self._is_complete:
            return await self._receive()
        if self._declared > self._limit:
            raise self._too_large()
        self.is_held_back = False
        try:
            async with asyncio.timeout(self._timeout):
                message = await self._receive()
        except TimeoutError:
            raise self._too_slow() from None
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            raise self._too_large()
        self._is_complete = not message.get("more_body", False)
        return message

    def _too_slow(self) -> Problem:
        return Problem(
            "too-slow",
            Message("no part of the body came for {seconds} s", seconds=float(self._timeout)),
        )

    def _too_large(self) -> Problem:
        return Problem(
            "too-large",
            Message(
                "this request may have at most {bytes} bytes; send a smaller one", bytes=self._limit
            ),
        )


def _stopping() -> Problem:
    return Problem(
        "unavailable",
        Message("the server is stopping, or its workers have stopped"),
        retry_after=SECONDS_UNTIL_BACK,
    )


def _check_query(query: bytes) -> None:
    if query and _KEY_IN_QUERY.search(unquote_to_bytes(query)):
        raise Problem(
            "key-in-query",
            Message(
                "URLs end up in logs; revoke this API key if it is real, and send the "
                "header Authorization: Bearer KEY"
            ),
        )


def as_problem(error: Exception, scope: Scope, request_id: bytes = b"") -> Problem:
    """Whatever went wrong, as a problem."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return _of_http(error, scope)
    if isinstance(error, RequestValidationError):
        return _of_validation(error, scope)
    # The route, never the address: that may contain anything.
    route = getattr(scope.get("route"), "path", "an unknown address")
    where = (scope["method"], route, request_id.decode())
    if isinstance(error, FairleadError):
        problem = of_ours(error, str(scope.get("path_params", {}).get("id_", "")))
        if problem.status_code >= 500:
            _log.error("fairlead: %s %s (request %s): %s", *where, error)
        return problem
    _log.error("fairlead: %s %s (request %s)", *where, exc_info=error)
    return Problem(
        "internal", Message("the server failed; its operator finds the reason in the log")
    )


def _of_http(error: HTTPException, scope: Scope) -> Problem:
    kind = _KINDS_BY_STATUS.get(error.status_code, "invalid-request")
    if kind == "not-found":
        return Problem(kind, Message("no such URL; see /docs"))
    if kind == "method-not-allowed":
        problem = Problem(
            kind,
            Message("this URL does not allow the method {method}", method=scope["method"][:20]),
        )
        problem.headers = {"Allow": ", ".join(sorted(_allowed_methods(scope)))}
        return problem
    if error.status_code == 400:  # FastAPI could not read the body
        return Problem(kind, "the body must be JSON in UTF-8, and not nested deeply")
    return Problem(kind, str(error.detail))


def _allowed_methods(scope: Scope) -> set[str]:
    """The methods of all routes that match the path; Starlette names those of the first one."""
    methods: set[str] = set()
    for route in scope["app"].routes:
        if isinstance(route, Route) and route.path_regex.match(scope["path"]):
            methods |= route.methods or set()
        elif isinstance(route, Mount) and route.path_regex.match(scope["path"]):
            methods |= {"GET", "HEAD"}  # static files
    return methods


def _of_validation(error: RequestValidationError, scope: Scope) -> Problem:
    """Says what is wrong, but does not repeat what came: it may be a secret."""
    if isinstance(error.body, bytes):  # FastAPI leaves as bytes what does not say that it is JSON
        sent = dict(scope["headers"]).get(b"content-type", b"").decode("latin-1")
        media_type = sent.partition(";")[0].strip()[:100]
        detail = f"this URL expects application/json; got {media_type!r}"
        return Problem("unsupported-media-type", detail)
    mistakes = [
        {"where": ".".join(map(str, mistake["loc"])), "what": str(mistake["msg"])}
        for mistake in error.errors()[:20]
    ]
    detail = "; ".join(f"{mistake['where']}: {mistake['what']}" for mistake in mistakes[:5])
    return Problem("invalid-request", detail, errors=mistakes)
