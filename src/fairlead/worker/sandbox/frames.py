"""Reads the frames that a child writes; they are untrusted and bounded."""

from __future__ import annotations

import math
import os
from contextlib import suppress

from fairlead.worker.sandbox.limits import Limits
from fairlead.worker.sandbox.protocol import HEADER, MAX_NAME_BYTES, PAGES, WHICH, Tag, split_part

_READ_BYTES = 65_536  # what a pipe holds; more would cost a mapping of memory each time
_READS_AT_ONCE = 16  # a child that never stops writing must not keep its parent reading
_MOST_PAGES = 10**9
_TAGS = {tag.value: tag for tag in Tag}


class BadFrame(Exception):
    """The child broke the protocol; the message says how."""


class FrameReader:
    """Splits bytes of a child into frames; keeps the latest progress, and parts until the answer.

    `which` and `took` are what the child says the answer belongs to, and how long it took.
    """

    def __init__(self, limits: Limits) -> None:
        self.progress: tuple[int, int] | None = None
        self.which: int | None = None
        self.took = 0.0
        self._limits = limits
        self._longest = {
            Tag.MESSAGE: limits.answer_bytes,
            Tag.PROGRESS: PAGES.size,
            Tag.PART: limits.read.unpacked_bytes + MAX_NAME_BYTES + 2,
            Tag.WHICH: WHICH.size,
        }
        self._buffer = bytearray()
        self._parts: list[tuple[bytes, bytes]] = []
        self._part_bytes = 0
        self._room = limits.all_bytes

    @property
    def has_more(self) -> bool:
        """Whether bytes follow the frame that was taken."""
        return bool(self._buffer)

    def expect_answer(self) -> None:
        """Start with a new job."""
        self.progress, self.which, self.took = None, None, 0.0
        self._parts, self._part_bytes = [], 0
        self._room = self._limits.all_bytes - len(self._buffer)

    def fill(self, descriptor: int) -> bool:
        """Read what is there; True at the end of the pipe. Raises BadFrame if it is too much."""
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
        """The answer, when it is complete; progress and parts before it are kept."""
        while (frame := self._next_frame()) is not None:
            tag, body = frame
            if tag is Tag.MESSAGE:
                return body
            if tag is Tag.PART:
                self._keep_part(body)
            elif len(body) != self._longest[tag]:
                raise BadFrame("it wrote what is no frame")
            elif tag is Tag.PROGRESS:
                done, pages = PAGES.unpack(body)
                if done <= pages <= _MOST_PAGES:
                    self.progress = done, pages
            else:
                self.which, seconds = WHICH.unpack(body)
                self.took = seconds if math.isfinite(seconds) and seconds > 0 else 0.0
        return None

    def take_parts(self) -> tuple[tuple[bytes, bytes], ...]:
        """Names and contents of the parts that came before the answer."""
        parts, self._parts = tuple(self._parts), []
        return parts

    def _next_frame(self) -> tuple[Tag, bytes] | None:
        if len(self._buffer) < HEADER.size:
            return None
        number, length = HEADER.unpack_from(self._buffer)
        tag = _TAGS.get(number)
        if tag is None:
            raise BadFrame("it wrote what is no frame")
        if length > self._longest[tag]:
            raise BadFrame(f"a frame of {length} bytes is longer than allowed")
        end = HEADER.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(memoryview(self._buffer)[HEADER.size : end])
        if len(self._buffer) == end:
            self._buffer = bytearray()  # frees the memory of a long answer
        else:
            del self._buffer[:end]
        return tag, body

    def _keep_part(self, body: bytes) -> None:
        name, content = split_part(body)
        self._parts.append((name, content))
        self._part_bytes += len(content)
        if len(self._parts) > self._limits.read.members:
            raise BadFrame("it found more parts than allowed")
        if self._part_bytes > self._limits.read.unpacked_bytes:
            raise BadFrame("its parts are longer than allowed")
