"""The engine's side of a step process."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from fairlead.service import run_in_thread
from fairlead.steps.messages import (
    Answer,
    JobAdvanced,
    Printed,
    Request,
    Setup,
    decode_answer,
    encode,
)
from fairlead.steps.output import LONGEST_LINE

_log = logging.getLogger(__name__)

_CLOSE_SECONDS = 2.0
_CHUNK = 1 << 16
_MOST_CHUNKS = 64
_PRIVATE = "FAIRLEAD_"
"""The prefix of environment variables that may contain keys: step processes do not get them."""


class ProcessEnd(NamedTuple):
    """The process has ended; `how` is "exit code 3" or "SIGSEGV", for instance."""

    how: str


class ReceivedMessage(NamedTuple):
    """A message of the process, or its end, and the time of its arrival."""

    at: float
    message: Answer | ProcessEnd


class StepProcess:
    """A process that runs one step. Only `close` waits for it.

    A thread reads its messages and calls `wake` when there is something to `take`. The process dies
    with the thread that started it. The pidfd shows its end: a fork of it may keep the socket open.
    """

    def __init__(
        self, setup: Setup, environment: Mapping[str, str], wake: Callable[[], None]
    ) -> None:
        """Start the process; raises OSError if that fails."""
        self._reference = setup.reference
        self._wake = wake
        self._received: deque[ReceivedMessage] = deque()
        self._unsent = b""
        self._lock = Lock()  # of the pidfd, which the reader closes
        self.is_ending = False  # whether it was killed or closed, or has ended
        self._socket, theirs = socket.socketpair()
        self._output, output = os.pipe()
        try:
            self._process = _spawn(theirs, output, environment)
        except OSError:
            self._socket.close()
            os.close(self._output)
            raise
        finally:
            theirs.close()
            os.close(output)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._socket.settimeout(0.0)
        os.set_blocking(self._output, False)
        self._reader: Future[None] = run_in_thread("step-reader", self._read)
        self.send(setup)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_unsent(self) -> bool:
        """Whether the socket was full, so that `flush` must try again."""
        return bool(self._unsent)

    def send(self, request: Request) -> None:
        self._unsent += encode(request)
        self.flush()

    def flush(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._unsent and not self.is_ending:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def take(self) -> list[ReceivedMessage]:
        """Its messages since the last call; its end comes last."""
        messages = []
        while self._received:
            messages.append(self._received.popleft())
        return messages

    def memory(self) -> int:
        """Its resident bytes."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as file:  # noqa: PTH123 - called often
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):  # it has ended
            return 0

    def kill(self) -> None:
        """Kill it and its forks; `take` will return its end."""
        self.is_ending = True
        with self._lock, suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Let it end, after two seconds by force; its jobs are lost."""
        self.is_ending = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        with suppress(TimeoutError):
            self._reader.result(_CLOSE_SECONDS)
        self.kill()
        self._reader.result()
        self._socket.close()

    # --- the reader thread ---

    def _read(self) -> None:
        streams = {
            self._socket.fileno(): _LineReader(self._take_message),
            self._output: _LineReader(self._log_output, LONGEST_LINE),
        }
        with selectors.DefaultSelector() as selector:
            for descriptor in (*streams, self._pidfd):
                selector.register(descriptor, selectors.EVENT_READ)
            while self._pidfd not in (ready := {key.fd for key, _ in selector.select()}):
                for descriptor in ready:
                    if not streams[descriptor].read(descriptor):
                        selector.unregister(descriptor)
        how = self._reap()
        for descriptor, lines in streams.items():
            lines.read_rest(descriptor)
        os.close(self._output)
        self._arrive(ProcessEnd(how))

    def _take_message(self, line: bytes) -> None:
        answer = decode_answer(line)
        if isinstance(answer, Printed):
            self._log_line(answer.id, answer.line)
        else:
            self._arrive(answer)

    def _arrive(self, message: Answer | ProcessEnd) -> None:
        self._received.append(ReceivedMessage(time.monotonic(), message))
        if not isinstance(message, JobAdvanced):
            self._wake()

    def _log_output(self, line: bytes) -> None:
        self._log_line(None, line.decode("utf-8", "replace"))

    def _log_line(self, job: str | None, line: str) -> None:
        place = f"step {self._reference}" + (f", document {job}" if job else "")
        if _log.hasHandlers():
            _log.info("fairlead: %s: %s", place, line)
        else:  # without a log, prints must still be visible
            sys.stderr.write(f"fairlead: {place}: {line}\n")

    def _reap(self) -> str:
        """Kill its forks, and return how it ended."""
        self.is_ending = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # the pid is not reused before `wait`
        code = self._process.wait()
        with self._lock:
            os.close(self._pidfd)
            self._pidfd = -1
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


class _LineReader:
    """Reads lines from a descriptor; one that is longer than `longest` is cut."""

    def __init__(self, handle: Callable[[bytes], None], longest: int | None = None) -> None:
        self._handle = handle
        self._longest = longest
        self._rest = b""

    def read(self, descriptor: int) -> bool:
        """Read the available bytes; False: there are none, or the stream has ended."""
        try:
            chunk = os.read(descriptor, _CHUNK)
        except (BlockingIOError, ConnectionResetError):
            return False
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._handle(line[: self._longest])
        if self._longest is not None and len(self._rest) > self._longest:
            self._rest = self._rest[: self._longest]
        return bool(chunk)

    def read_rest(self, descriptor: int) -> None:
        """Read the rest of the output of an ended process; its forks may still write."""
        for _ in range(_MOST_CHUNKS):
            if not self.read(descriptor):
                break
        if self._rest and self._longest is not None:
            self._handle(self._rest)


def _spawn(
    theirs: socket.socket, output: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "fairlead.steps.process_main", str(theirs.fileno())]
    return subprocess.Popen(  # noqa: S603 - our own module
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=[theirs.fileno()],
        env={name: value for name, value in environment.items() if not name.startswith(_PRIVATE)},
        start_new_session=True,  # a Ctrl-C in the terminal is for the engine only
    )
