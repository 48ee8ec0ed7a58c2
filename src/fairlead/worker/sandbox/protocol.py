"""The protocol between a worker and its child: frames with a tag and a length in two pipes.

A job is one JSON message. The child writes any number of progress and part frames, then which job
they belong to and how long it took, then the answer as one JSON message. Several jobs may wait in
the pipe; their answers come in the same order.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

HEADER = struct.Struct(">BI")
PAGES = struct.Struct(">QQ")
WHICH = struct.Struct(">Qd")
MAX_NAME_BYTES = 1_024
_NAME = struct.Struct(">H")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Tag(IntEnum):
    """What a frame holds."""

    MESSAGE = 0
    PROGRESS = 1
    PART = 2
    WHICH = 3


def pack(message: Mapping[str, Any]) -> bytes:
    """A message; raises ValueError if a text does not encode, or it is longer than 4 GiB."""
    return frame(Tag.MESSAGE, _ENCODER.encode(message).encode())


def pack_progress(done: int, pages: int) -> bytes:
    """How many pages of how many are read."""
    return frame(Tag.PROGRESS, PAGES.pack(done, pages))


def pack_which(document: int, seconds: float) -> bytes:
    """The document whose answer comes next, and how many seconds it took."""
    return frame(Tag.WHICH, WHICH.pack(document, seconds))


def pack_part(name: str, content: bytes) -> bytes:
    """A file inside the document; raises ValueError if it or its name is too long."""
    raw = name.encode()
    if len(raw) > MAX_NAME_BYTES:
        raise ValueError(f"a name of {len(raw)} bytes is too long")
    return frame(Tag.PART, _NAME.pack(len(raw)) + raw + content)


def split_part(body: bytes) -> tuple[bytes, bytes]:
    """Name and content of a part, unchecked."""
    if len(body) < _NAME.size:
        return b"", b""
    end = _NAME.size + _NAME.unpack_from(body)[0]
    return body[_NAME.size : end], body[end:]


def frame(tag: Tag, body: bytes) -> bytes:
    """The body behind its tag and its length; raises ValueError if it is longer than 4 GiB."""
    try:
        return HEADER.pack(tag, len(body)) + body
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
    """Write all bytes to a blocking pipe."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
