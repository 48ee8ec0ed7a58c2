"""The protocol between a worker and its child: frames with a tag and a length in two pipes.

A job is one JSON message. The child writes frames of progress, parts and files, then a frame with
the number and the seconds of their job, then the answer as one JSON message. Several jobs may wait
in the pipe; their answers are in the same order. The parent's `FrameReader` trusts none of it.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

from fairlead.model.blobs import SHORT_BYTES
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.spool import Spool, SpooledBytes

PartContent = bytes | SpooledBytes
"""The bytes of an attachment or output; long ones are on disk."""
ReceivedPart = tuple[bytes, PartContent]
"""A name and a content, as the child sent them."""
HEADER = struct.Struct(">BI")
PAGES = struct.Struct(">QQ")
WHICH = struct.Struct(">Qd")
MAX_NAME_BYTES = 1_024
_READ_BYTES = 65_536  # the capacity of a pipe; a larger buffer would be mapped for each read
_READS_AT_ONCE = 16  # a child that never stops writing must not keep its parent reading
_MOST_PAGES = 10**9
_NAME = struct.Struct(">H")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Tag(IntEnum):
    """What a frame holds."""

    MESSAGE = 0
    PROGRESS = 1
    PART = 2
    WHICH = 3
    FILE = 4


_TAGS = {tag.value: tag for tag in Tag}


def pack(message: Mapping[str, Any]) -> bytes:
    """A message; raises ValueError if a text does not encode, or it is longer than 4 GiB."""
    return frame(Tag.MESSAGE, _ENCODER.encode(message).encode())


def pack_progress(done: int, pages: int) -> bytes:
    return frame(Tag.PROGRESS, PAGES.pack(done, pages))


def pack_which(document: int, seconds: float) -> bytes:
    """The document whose answer comes next, and how many seconds it took."""
    return frame(Tag.WHICH, WHICH.pack(document, seconds))


def pack_part(name: str, content: bytes, tag: Tag = Tag.PART) -> bytes:
    """A file inside the document, or an output; raises ValueError if it is too long."""
    raw = name.encode()
    if len(raw) > MAX_NAME_BYTES:
        raise ValueError(f"a name of {len(raw)} bytes is too long")
    return frame(tag, _NAME.pack(len(raw)) + raw + content)


def split_part(body: bytes) -> tuple[bytes, bytes]:
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
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class BadFrame(Exception):
    """The child broke the protocol; the message says how."""


class ReceivedParts:
    """The parts or files received for the next answer, within limits."""

    def __init__(self, most: int, most_bytes: int, plural: str) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._plural = plural
        self.clear()

    def clear(self) -> None:
        self._items: list[ReceivedPart] = []
        self._bytes = 0

    def add(self, name: bytes, content: PartContent) -> None:
        self._items.append((name, content))
        self._bytes += len(content)
        if len(self._items) > self._most:
            raise BadFrame(f"it found more {self._plural} than allowed")
        if self._bytes > self._most_bytes:
            raise BadFrame(f"its {self._plural} are longer than allowed")

    def take(self) -> tuple[ReceivedPart, ...]:
        items, self._items = tuple(self._items), []
        return items


class FrameReader:
    """Splits the bytes of a child into frames.

    It collects parts and files until the answer; long ones are written to a file without a name in
    `folder`. `progress` is the latest. `which` and `took` are the number and the seconds of the
    answer's job, as the child reports them.
    """

    def __init__(self, limits: SandboxLimits, folder: Path | None = None) -> None:
        self.progress: tuple[int, int] | None = None
        self.which: int | None = None
        self.took = 0.0
        self._limits = limits
        self._longest = {
            Tag.MESSAGE: limits.answer_bytes,
            Tag.PROGRESS: PAGES.size,
            Tag.PART: limits.read.unpacked_bytes + MAX_NAME_BYTES + 2,
            Tag.WHICH: WHICH.size,
            Tag.FILE: limits.read.output_bytes + MAX_NAME_BYTES + 2,
        }
        self._buffer = bytearray()
        self._folder = folder
        self.parts = ReceivedParts(limits.read.members, limits.read.unpacked_bytes, "parts")
        self.files = ReceivedParts(limits.most_files, limits.file_bytes, "files")
        self._spool = Spool(folder)
        self._spooling: SpooledBytes | None = None
        self._room = limits.all_bytes
        self._progress_room = limits.progress_bytes

    @property
    def has_more(self) -> bool:
        return bool(self._buffer)

    def expect_answer(self) -> None:
        self.progress, self.which, self.took = None, None, 0.0
        self.parts.clear()
        self.files.clear()
        self._spool, self._spooling = Spool(self._folder), None
        self._room = self._limits.all_bytes - len(self._buffer)
        self._progress_room = self._limits.progress_bytes

    def fill(self, descriptor: int) -> bool:
        """Read the available bytes; True at the end of the pipe. Raises BadFrame if too many."""
        with suppress(BlockingIOError):
            for _ in range(_READS_AT_ONCE):
                chunk = os.read(descriptor, _READ_BYTES)
                if not chunk:
                    return True
                self._buffer += chunk
                self._room -= len(chunk)
                if self._room < 0:
                    raise BadFrame("it wrote more than allowed")
                if len(chunk) < _READ_BYTES:  # there was no more
                    break
        return False

    def take(self) -> bytes | None:
        """The next complete answer, or None; collects the progress and parts before it."""
        while (frame := self._next_frame()) is not None:
            tag, body = frame
            if tag is Tag.MESSAGE:
                return body
            if tag in (Tag.PART, Tag.FILE):
                self._received(tag).add(*split_part(body))
            elif len(body) != self._longest[tag]:
                raise BadFrame("it wrote an invalid frame")
            elif tag is Tag.PROGRESS:
                self._note_progress(body)
            else:
                self.which, seconds = WHICH.unpack(body)
                self.took = seconds if math.isfinite(seconds) and seconds > 0 else 0.0
        return None

    def _note_progress(self, body: bytes) -> None:
        self._progress_room -= len(body)
        if self._progress_room < 0:
            raise BadFrame("it wrote more than allowed")
        done, pages = PAGES.unpack(body)
        if done <= pages <= _MOST_PAGES:
            self.progress = done, pages

    def _received(self, tag: Tag) -> ReceivedParts:
        return self.parts if tag is Tag.PART else self.files

    def _next_frame(self) -> tuple[Tag, bytes] | None:
        if not self._finish_spooling() or len(self._buffer) < HEADER.size:
            return None
        number, length = HEADER.unpack_from(self._buffer)
        tag = _TAGS.get(number)
        if tag is None:
            raise BadFrame("it wrote an invalid frame")
        if length > self._longest[tag]:
            raise BadFrame(f"a frame of {length} bytes is longer than allowed")
        end = HEADER.size + length
        is_named = tag in (Tag.PART, Tag.FILE)
        if is_named and length > SHORT_BYTES + MAX_NAME_BYTES + _NAME.size:
            return self._next_frame() if self._begin_spooling(tag, length) else None
        if len(self._buffer) < end:
            return None
        body = bytes(memoryview(self._buffer)[HEADER.size : end])
        if len(self._buffer) == end:
            self._buffer = bytearray()  # frees the memory of a long answer
        else:
            del self._buffer[:end]
        return tag, body

    def _begin_spooling(self, tag: Tag, length: int) -> bool:
        """Begin a long part or file once its name has arrived; False: it has not."""
        at = HEADER.size + _NAME.size
        if len(self._buffer) < at + MAX_NAME_BYTES:
            return False
        (name_bytes,) = _NAME.unpack_from(self._buffer, HEADER.size)
        if name_bytes > MAX_NAME_BYTES:
            raise BadFrame("a part has a name that is longer than allowed")
        name = bytes(self._buffer[at : at + name_bytes])
        del self._buffer[: at + name_bytes]
        self._spooling = self._spool.begin(length - _NAME.size - name_bytes)
        self._received(tag).add(name, self._spooling)
        return True

    def _finish_spooling(self) -> bool:
        """Write the bytes of a long part that have arrived; False if some are missing."""
        if self._spooling is None:
            return True
        chunk = self._buffer[: self._spooling.missing]
        self._spooling.add(chunk)
        del self._buffer[: len(chunk)]
        if self._spooling.missing:
            return False
        self._spooling = None
        return True
