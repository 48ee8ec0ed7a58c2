"""The messages between a worker and its child: frames in two pipes, behind their tag and length.

A job is one message of JSON. What comes back are progress and parts, as many as there are, then
which job it was and how long it took, and one message of JSON, the answer. Several jobs may wait in
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
    """The message as a frame.

    Raises:
        ValueError: a text in it does not encode, or it is longer than four bytes can say.
    """
    return frame(Tag.MESSAGE, _ENCODER.encode(message).encode())


def pack_progress(done: int, pages: int) -> bytes:
    """So many pages are read, of so many."""
    return frame(Tag.PROGRESS, PAGES.pack(done, pages))


def pack_which(document: int, seconds: float) -> bytes:
    """The number of the document whose answer comes next, and how long it was worked on."""
    return frame(Tag.WHICH, WHICH.pack(document, seconds))


def pack_part(name: str, content: bytes) -> bytes:
    """A file that was found in the document.

    Raises:
        ValueError: the name does not encode, or one of them is too long.
    """
    raw = name.encode()
    if len(raw) > MAX_NAME_BYTES:
        raise ValueError(f"a name of {len(raw)} bytes is too long")
    return frame(Tag.PART, _NAME.pack(len(raw)) + raw + content)


def split_part(body: bytes) -> tuple[bytes, bytes]:
    """Name and content of a part, unchecked; what is too short for a name has none."""
    if len(body) < _NAME.size:
        return b"", b""
    end = _NAME.size + _NAME.unpack_from(body)[0]
    return body[_NAME.size : end], body[end:]


def frame(tag: Tag, body: bytes) -> bytes:
    """The body behind its tag and its length.

    Raises:
        ValueError: it is longer than four bytes can say.
    """
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
    """Write all the bytes to a blocking pipe."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
