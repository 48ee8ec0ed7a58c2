"""Writes that belong together leave together: the head of an answer with its body."""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from typing import Any

STALL_SECONDS = 30.0
"""For a reader to take some more of what is on its way."""
MOST_HELD_BYTES = 65_536
"""More than this leaves at once, so that the transport can say when its reader is slow."""


class Joined:
    """A transport that sends what is written in one turn of the event loop with one call.

    Each call to the network costs as much as a good part of an answer, here and at the reader.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self.is_closing = transport.is_closing  # asked with every request, as is what follows
        self.abort = transport.abort
        self._held: list[bytes] = []
        self._size = 0
        self._written = 0
        self._watch: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        """Everything else is as it was."""
        return getattr(self._transport, name)

    def write(self, content: bytes) -> None:
        """Send this when the turn ends."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(content)
        self._size += len(content)
        if self._size > MOST_HELD_BYTES:
            self._send()

    def write_eof(self) -> None:
        """Send what is left, and say that no more will come."""
        self._send()
        self._transport.write_eof()

    def close(self) -> None:
        """Send what is left, and close; who takes nothing of it is not waited for."""
        self._send()
        self._transport.close()

    def watch_reader(self, seconds: float) -> None:
        """Break off when the other side takes nothing for so long of what is on its way."""
        if self._watch is not None:
            self._watch.cancel()
        self._look(seconds, before=-1)

    def _look(self, seconds: float, before: int) -> None:
        left = self._transport.get_write_buffer_size() + _unacknowledged(self._transport)
        taken = self._written - left
        if left and taken == before:
            self._transport.abort()
        elif left or not self._transport.is_closing():
            # Where nothing is on its way, nobody can be late with it at the next look.
            known = taken if left else -1
            self._watch = self._loop.call_later(seconds, self._look, seconds, known)

    def _send(self) -> None:
        if self._held and not self._transport.is_closing():
            self._transport.write(b"".join(self._held))
            self._written += self._size
            if self._watch is None and self._transport.get_write_buffer_size():
                self.watch_reader(STALL_SECONDS)  # what is not taken stays in memory
        self._held, self._size = [], 0


def _unacknowledged(transport: asyncio.Transport) -> int:
    """Bytes that the network has not brought to the other side, as far as it tells."""
    line = transport.get_extra_info("socket")
    try:
        found: tuple[int] = struct.unpack("i", fcntl.ioctl(line, termios.TIOCOUTQ, bytes(4)))
    except (OSError, TypeError, ValueError):  # it is closed, or no socket
        return 0
    return found[0]
