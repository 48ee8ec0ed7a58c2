"""What a step process prints, attributed to the job that did, and how an engine reads lines."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LONGEST_LINE = 8_000
_CHUNK = 1 << 18
_MOST_CHUNKS = 64

Emit = Callable[[str | None, str], None]
"""Takes a job's id, or None, and a line."""


class _JobLines:
    """Collects text into lines; threads of one job may mix theirs, as in a terminal."""

    def __init__(self, job: str | None) -> None:
        self.job = job
        self._rest = ""

    def add(self, text: str, emit: Emit) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            emit(self.job, line[:LONGEST_LINE])
        if len(self._rest) > LONGEST_LINE:
            self.end(emit)

    def end(self, emit: Emit) -> None:
        rest, self._rest = self._rest, ""
        if rest:
            emit(self.job, rest[:LONGEST_LINE])


_nobody = _JobLines(None)
_current: ContextVar[_JobLines] = ContextVar("job", default=_nobody)


@contextmanager
def attributed(job: str, emit: Emit) -> Iterator[None]:
    """Attribute what is printed in this context to the job."""
    lines = _JobLines(job)
    token = _current.set(lines)
    try:
        yield
    finally:
        _current.reset(token)
        lines.end(emit)


class AttributedOutput(io.TextIOBase):
    """Replaces `sys.stdout` or `sys.stderr`; `fileno` is still that of the real stream.

    A fork of the process prints to the real stream, because it must not use the socket.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, descriptor: int, emit: Emit) -> None:
        self._descriptor = descriptor
        self._emit = emit
        self._pid = os.getpid()
        self.buffer = io.FileIO(descriptor, "w", closefd=False)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str, /) -> int:
        if os.getpid() == self._pid:
            _current.get().add(text, self._emit)
        else:
            self.buffer.write(text.encode("utf-8", "replace"))
        return len(text)


class LineReader:
    """Reads lines from a non-blocking descriptor; one that is longer than `longest` is cut."""

    def __init__(self, handle: Callable[[bytes], None], longest: int | None = None) -> None:
        self._handle = handle
        self._longest = longest
        self._rest = b""

    @property
    def rest(self) -> int:
        """The length of the last line so far, which lacks its end."""
        return len(self._rest)

    def read_all(self, descriptor: int) -> bool:
        """Read what is there, up to a bound; False: nothing more will come."""
        for _ in range(_MOST_CHUNKS):
            try:
                chunk = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                return True
            except ConnectionResetError:
                return False
            if not chunk:
                return False
            self._add(chunk)
        return True

    def end(self) -> None:
        """Handle the last line, which may lack its end."""
        if self._rest:
            self._handle(self._rest)

    def _add(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._handle(line[: self._longest])
        if self._longest is not None and len(self._rest) > self._longest:
            self._rest = self._rest[: self._longest]
