"""HTTP/1.0 knows no chunks: an answer of unknown length is plain bytes, and ends with the line."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def speak_plainly(cycle: RequestResponseCycle) -> None:
    """Let the answer of this request go without chunks; uvicorn knows of nothing else."""
    send, has_length = cycle.send, True

    async def send_plainly(message: Any) -> None:
        nonlocal has_length
        if message["type"] == "http.response.start":
            has_length = any(name == b"content-length" for name, _ in message["headers"])
            if not has_length:
                cycle.chunked_encoding = False
        elif not has_length:
            cycle.expected_content_length = len(message.get("body", b""))  # so much as comes
        await send(message)

    cycle.send = send_plainly  # type: ignore[method-assign]
