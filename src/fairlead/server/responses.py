"""Answers: in JSON, by an encoder that is quicker than Python's own, and long ones in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json
from starlette import responses
from starlette.types import Receive, Scope, Send

PIECE_BYTES = 65_536


class JSONResponse(responses.JSONResponse):
    """What we answer with."""

    def render(self, content: Any) -> bytes:
        """The bytes of the answer."""
        return as_json(content)

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """As Starlette's, which also asks what is always so here: a body, and of which type."""
        given = (headers or {}).items()
        self.raw_headers = [
            *[(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given],
            (b"content-length", b"%d" % len(self.body)),
            (b"content-type", b"application/json"),
        ]


class LongResponse(responses.Response):
    """Leaves in pieces, each when its reader has taken most of those before: others go between."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI)
        """Send it."""
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        for at in range(0, len(self.body) or 1, PIECE_BYTES):
            end = at + PIECE_BYTES
            piece = {"body": self.body[at:end], "more_body": end < len(self.body)}
            await send({"type": "http.response.body", **piece})


def as_json(content: Any) -> bytes:
    """The bytes of an answer in JSON."""
    return to_json(content, inf_nan_mode="null")
