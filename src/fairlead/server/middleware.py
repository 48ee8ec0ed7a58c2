"""Around every request: its size and pace, problems for whatever goes wrong, and numbers."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as ASGIMessage

from fairlead.config.settings import Settings
from fairlead.errors import FairleadError, Message
from fairlead.server.auth import ASKED_BY, is_known
from fairlead.server.context import ServerContext
from fairlead.server.deadlines import Patience
from fairlead.server.headers import language_of
from fairlead.server.names import keep_slashes
from fairlead.server.problems import Problem, of_ours
from fairlead.server.request_state import hold
from fairlead.server.wrong import what, where

_log = logging.getLogger(__name__)

UPLOADS = "/v1/documents"
MOST_JSON_BYTES = 65_536
SECONDS_UNTIL_BACK = 5
"""After how long to look whether a server that stopped is there again."""
DRAIN_SECONDS = 5.0
DRAIN_BYTES = 1 << 26
_KEY_IN_QUERY = re.compile(
    rb"fl_[0-9a-z]{12}_|(?:^|&)(?:api_?key|key|access_token)=", re.IGNORECASE
)
_KINDS_BY_STATUS = {
    400: "invalid-request",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
    416: "range-not-satisfiable",
}


class RequestGuard:
    """The outermost layer. Nothing but a problem comes out where something goes wrong."""

    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        self._app = app
        self._office = context
        self._patience = Patience()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        ASKED_BY.set(None)  # a request behind another one begins with what that one knew
        settings = self._office.settings()
        headers = hold(scope, settings)
        keep_slashes(scope)
        body = _Body(scope["path"], headers, receive, settings, self._patience)
        answer = _Answer(send)
        began = time.perf_counter()
        try:
            _check_query(scope)
            await self._app(scope, body.receive, answer.send)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # the server has waited for this as long as it can
            if answer.status:
                raise
            await answer.send_whole(_stopping().response(language_of(scope["headers"])))
        except Exception as error:
            await self._refuse(scope, await self._worst(scope, error), body, answer)
        finally:
            self._count(scope, answer.status, answer.began_at - began)

    async def _worst(self, scope: Scope, error: Exception) -> Exception:
        """Who may not come in is told that and nothing else, though the framework looks later."""
        if isinstance(error, Problem):
            is_unread = error.kind == "too-large"
        else:
            is_http = isinstance(error, HTTPException) and error.status_code == 400
            is_unread = is_http or isinstance(error, RequestValidationError)
        if is_unread and scope["path"].startswith("/v1/") and not is_known(scope):
            try:
                await self._office.auth.caller(Request(scope))
            except (Problem, FairleadError) as worse:
                return worse
        return error

    async def _refuse(self, scope: Scope, error: Exception, body: _Body, answer: _Answer) -> None:
        problem = as_problem(error, scope)
        if answer.status:  # too late for words
            raise error
        response = problem.response(language_of(scope["headers"]))
        if body.is_short and problem.kind != "too-slow":
            await body.drain()  # then the connection can stay
        if not body.is_whole:
            response.headers["connection"] = "close"
        more = not body.is_whole
        await answer.send_whole(response, more_body=more)
        if more:
            # Closed at once, the rest of the body would make the network drop the answer.
            await body.drain()
            await answer.send({"type": "http.response.body", "body": b""})

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        path = getattr(scope.get("route"), "path", "other")
        self._office.metrics.answered(scope["method"][:10], path, status, seconds)


class _Answer:
    """Notes the status, and when the answer began."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.began_at = 0.0

    async def send(self, message: ASGIMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.began_at = time.perf_counter()
            message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
        await self._send(message)

    async def send_whole(self, response: Response, *, more_body: bool = False) -> None:
        """Send an answer that is there; with `more_body`, its end comes later."""
        start = {"status": response.status_code, "headers": response.raw_headers}
        await self.send({"type": "http.response.start", **start})
        body = {"body": response.body, "more_body": more_body}
        await self.send({"type": "http.response.body", **body})


class _Body:
    """The body as it comes, with its limits."""

    def __init__(
        self,
        path: str,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        settings: Settings,
        patience: Patience,
    ) -> None:
        is_multipart = headers.get(b"content-type", b"").lower().startswith(b"multipart/")
        self._receive = receive
        is_upload = is_multipart and path == UPLOADS  # elsewhere it would go to memory
        self._limit = settings.max_upload_bytes if is_upload else MOST_JSON_BYTES
        self._patience = patience
        self._seconds = settings.request_timeout
        self._slowest = settings.slowest_upload
        self._declared = headers.get(b"content-length")
        self._is_too_large = int(self._declared or 0) > self._limit
        self._began = time.monotonic()
        self._size = self._size_before = 0
        self._is_held_back = b"expect" in headers
        """Whether nothing may come before it is asked for."""
        self.is_whole = self._declared in (None, b"0") and b"transfer-encoding" not in headers

    @property
    def is_short(self) -> bool:
        """Whether little is left to come, and is on its way."""
        is_coming = not self.is_whole and not self._is_held_back
        return is_coming and int(self._declared or self._limit) <= MOST_JSON_BYTES

    async def receive(self) -> ASGIMessage:
        """The next piece; refuses what is too large or too slow."""
        if self.is_whole:
            return await self._receive()
        if self._is_too_large:  # it says so itself
            raise self._too_large()
        self._is_held_back = False
        try:
            message = await self._patience.within(self._seconds, self._receive())
        except TimeoutError:
            raise self._too_slow() from None
        self._size += len(message.get("body", b""))
        self.is_whole = not message.get("more_body", False)
        if self._size > self._limit:
            raise self._too_large()
        if not self.is_whole:
            self._check_pace()
        return message

    async def drain(self) -> None:
        """Let the rest go by, within bounds."""
        size = 0
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while size < DRAIN_BYTES:
                    message = await self._receive()
                    size += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        self.is_whole = message["type"] == "http.request"
                        return
        except TimeoutError:
            pass

    def _check_pace(self) -> None:
        """Look at one stretch of time after the other: a quick start buys no long trickle."""
        now = time.monotonic()
        seconds = now - self._began
        if seconds > self._seconds:
            if self._size - self._size_before < self._slowest * seconds:
                raise self._too_slow()
            self._began, self._size_before = now, self._size

    def _too_slow(self) -> Problem:
        return Problem(
            "too-slow",
            Message(
                "the body must go on coming within {seconds} s and at {bytes} bytes a second; "
                "send it again over a better line",
                seconds=float(self._seconds),
                bytes=self._slowest,
            ),
        )

    def _too_large(self) -> Problem:
        return Problem(
            "too-large",
            Message("such a request may have {bytes} bytes; send a smaller one", bytes=self._limit),
        )


def _stopping() -> Problem:
    problem = Problem(
        "unavailable",
        Message("the server is stopping, or its workers have ended"),
        retry_after=SECONDS_UNTIL_BACK,
    )
    problem.headers = {**(problem.headers or {}), "Connection": "close"}
    return problem


def _check_query(scope: Scope) -> None:
    query = scope["query_string"]
    if query and _KEY_IN_QUERY.search(unquote_to_bytes(query)):
        raise Problem(
            "key-in-query",
            Message(
                "addresses end up in logs, so keys are refused there; revoke this key if it is "
                "real, and send the header Authorization: Bearer KEY"
            ),
        )


def as_problem(error: Exception, scope: Scope) -> Problem:
    """Whatever went wrong, as a problem."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, FairleadError):
        problem = of_ours(error, str(scope.get("path_params", {}).get("id_", "")))
        if problem.status_code >= 500:
            _log.error("fairlead: %s %s: %s", scope["method"], _route(scope), error)
        return problem
    if isinstance(error, HTTPException):
        return _of_http(error, scope)
    if isinstance(error, RequestValidationError):
        return _of_validation(error, scope)
    _log.exception("fairlead: %s %s", scope["method"], _route(scope), exc_info=error)
    return Problem(
        "internal", Message("something went wrong here; the operator finds it in the log")
    )


def _route(scope: Scope) -> str:
    """The route, never the address: that may have anything in it."""
    return str(getattr(scope.get("route"), "path", "an unknown address"))


def _of_http(error: HTTPException, scope: Scope) -> Problem:
    kind = _KINDS_BY_STATUS.get(error.status_code, "invalid-request")
    if kind == "not-found":
        return Problem(kind, Message("nothing is at this address; see /docs"))
    if kind == "method-not-allowed":
        problem = Problem(
            kind,
            Message(
                "{method} is not among the methods of this address", method=scope["method"][:20]
            ),
        )
        problem.headers = {"Allow": ", ".join(sorted(scope["app"].state.methods(scope["path"])))}
        return problem
    if error.status_code == 400:  # the framework could not read the body
        return Problem(kind, Message("the body must be JSON in UTF-8, and not nested deeply"))
    return Problem(kind, str(error.detail))


def _of_validation(error: RequestValidationError, scope: Scope) -> Problem:
    """Name what is wrong, but do not repeat what came: it may be a secret."""
    if isinstance(error.body, bytes):  # FastAPI leaves as bytes what does not say that it is JSON
        return _no_json(scope)
    found = [(where(each), what(each)) for each in error.errors()[:20]]
    wrong = [Message("at {where}: {what}", where=at, what=words) for at, words in found[:5]]
    detail = Message("something in the request is not as expected: {wrong}", wrong=wrong)
    listed = [{"where": at, "what": words} for at, words in found]
    return Problem("invalid-request", detail, errors=listed)


def _no_json(scope: Scope) -> Problem:
    given = dict(scope["headers"]).get(b"content-type", b"").decode("latin-1")
    return Problem(
        "unsupported-media-type",
        Message(
            "this address takes application/json; got {type}",
            type=repr(given.partition(";")[0].strip()[:100]),
        ),
    )
