"""The engine's side of a template: the process that imports a step and starts its processes."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from fairlead.steps.messages import (
    LARGEST_PACKET,
    InvalidMessage,
    KillProcess,
    Loaded,
    Setup,
    StartProcess,
    TemplateAnswer,
    TemplateRequest,
    decode_template_answer,
    encode,
)
from fairlead.steps.output import LONGEST_LINE, LineReader

_log = logging.getLogger(__name__)

_CLOSE_SECONDS = 2.0
_PRIVATE = "FAIRLEAD_"
"""The prefix of environment variables that may contain keys: steps do not get them."""


@dataclass(frozen=True)
class TemplateEnded:
    """The template has ended, and so all processes that it started."""

    how: str


class StepTemplate:
    """A template, its socket, and the output of all its processes. Only `close` waits for it.

    Both descriptors are registered with the selector. It dies with the thread that started it.
    """

    def __init__(
        self, setup: Setup, environment: Mapping[str, str], selector: selectors.BaseSelector
    ) -> None:
        """Start it; raises OSError if that fails."""
        self.loaded: Loaded | None = None
        self.started_at = time.monotonic()
        self._setup = setup
        self._selector = selector
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._output, output = os.pipe()
        try:
            self._popen = _spawn(theirs, output, environment)
        except OSError:
            self._socket.close()
            os.close(self._output)
            raise
        finally:
            theirs.close()
            os.close(output)
        self._socket.settimeout(0.0)
        os.set_blocking(self._output, False)
        self._lines = LineReader(self._log_output, LONGEST_LINE)
        self._is_closed = False
        self._has_output = True
        for readable in (self._socket, self._output):
            selector.register(readable, selectors.EVENT_READ)
        self._send(setup)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def start_process(self, number: int) -> socket.socket:
        """Let it start a process; return the socket of that. A failure to start is its end."""
        ours, theirs = socket.socketpair()
        ours.settimeout(0.0)
        with theirs:
            self._send(StartProcess(number), [theirs.fileno()])
        return ours

    def first_message(self) -> Setup | None:
        """What a new process must be sent before its jobs."""
        if self.loaded is None or self.loaded.is_forked:
            return None
        setup = self._setup
        return Setup(setup.reference, setup.search_path, setup.result_limit, self.pid)

    def kill_process(self, number: int) -> None:
        """Kill a process and its forks; `receive` will return its end."""
        self._send(KillProcess(number))

    def receive(self) -> list[TemplateAnswer | TemplateEnded]:
        """What it has answered since the last call; its end comes last."""
        answers: list[TemplateAnswer | TemplateEnded] = []
        while not self._is_closed:
            try:
                packet = self._socket.recv(LARGEST_PACKET)
                answer = decode_template_answer(packet) if packet else None
            except BlockingIOError:
                break
            except ConnectionResetError:
                answer = None
            except InvalidMessage as error:
                self.kill()
                self._wait()
                answers.append(TemplateEnded(str(error)))
                break
            if answer is None:
                answers.append(TemplateEnded(self._wait()))
                break
            if isinstance(answer, Loaded):
                self.loaded = answer
            answers.append(answer)
        if not self._is_closed:
            self._read_output()
        return answers

    def kill(self) -> None:
        """Kill it, which ends its processes."""
        self._popen.kill()

    def _read_output(self) -> None:
        """Log what was printed. All processes may have redirected their output; then it ends."""
        if self._has_output and not self._lines.read_all(self._output):
            self._has_output = False
            self._selector.unregister(self._output)

    def close(self) -> None:
        """End it and its processes, after two seconds by force."""
        if self._is_closed:
            return
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        if self.loaded is None:  # it imports, and does not listen
            self.kill()
        self._wait()

    def _wait(self) -> str:
        """How it ended; it is killed if it does not end soon."""
        try:
            code = self._popen.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._popen.wait()
        self._read_output()
        self._lines.end()
        self._is_closed = True
        if self._has_output:
            self._selector.unregister(self._output)
        self._selector.unregister(self._socket)
        self._socket.close()
        os.close(self._output)
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def _send(self, request: TemplateRequest, descriptors: list[int] | None = None) -> None:
        try:
            socket.send_fds(self._socket, [encode(request)], descriptors or [])
        except BlockingIOError:  # it does not listen any more
            self.kill()
        except OSError:  # it has ended; `receive` will tell
            pass

    def _log_output(self, line: bytes) -> None:
        log_line(self._setup.reference, None, line.decode("utf-8", "replace"))


def log_line(reference: str, job: str | None, line: str) -> None:
    """Log what a step printed."""
    place = f"step {reference}" + (f", document {job}" if job else "")
    if _log.hasHandlers():
        _log.info("fairlead: %s: %s", place, line)
    else:  # without a log, prints must still be visible
        sys.stderr.write(f"fairlead: {place}: {line}\n")


def _spawn(
    theirs: socket.socket, output: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    module = "fairlead.steps.template_main"
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-u", "-m", module, str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=[theirs.fileno()],
        env={name: value for name, value in environment.items() if not name.startswith(_PRIVATE)},
        start_new_session=True,  # a Ctrl-C in the terminal is for the engine only
    )
