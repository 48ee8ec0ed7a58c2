"""The messages between a worker and its child: JSON in UTF-8 behind its length in four bytes."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from typing import Any

HEADER = struct.Struct(">I")


def pack(message: Mapping[str, Any]) -> bytes:
    """The message as it goes over the pipe.

    Raises:
        ValueError: a text in it does not encode, or it is longer than four bytes can say.
    """
    body = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
    try:
        return HEADER.pack(len(body)) + body
    except struct.error:
        raise ValueError(f"a message of {len(body)} bytes is too long") from None


def read_exactly(descriptor: int, size: int) -> bytes | None:
    """The next bytes of a blocking pipe; None at its end."""
    data = bytearray()
    while len(data) < size:
        chunk = os.read(descriptor, size - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all the bytes to a blocking pipe."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
