"""Answers in JSON, by an encoder that is made once."""

from __future__ import annotations

import json
from typing import Any

from starlette import responses

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class JSONResponse(responses.JSONResponse):
    """The usual one makes an encoder for each answer, which takes longer than to use it."""

    def render(self, content: Any) -> bytes:
        """The bytes of the answer."""
        return _ENCODER.encode(content).encode()
