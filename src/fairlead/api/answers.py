"""Answers in JSON, by an encoder that is quicker than Python's own."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json
from starlette import responses


class JSONResponse(responses.JSONResponse):
    """What we answer with."""

    def render(self, content: Any) -> bytes:
        """The bytes of the answer."""
        return to_json(content, inf_nan_mode="null")
