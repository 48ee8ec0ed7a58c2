"""The template of a step: it imports the step once and starts the processes that run it.

It forks them, so they share the memory of the imported modules. A module that has started a thread
or opened a socket cannot be forked: a lock could stay locked, and two processes would share a
connection. Then the template executes itself anew, without the import, and starts processes that
import the step themselves.

Run as `python -P -m fairlead.steps.template_main SOCKET`; `fairlead.steps.template` starts it.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from fairlead.errors import InvalidStep
from fairlead.steps.declare import options_of
from fairlead.steps.load import load_step, source_of
from fairlead.steps.messages import (
    LARGEST_PACKET,
    KillProcess,
    Loaded,
    LoadFailed,
    ProcessEnded,
    ProcessStarted,
    Setup,
    StartProcess,
    TemplateAnswer,
    TemplateRequest,
    decode_template_request,
    encode,
)
from fairlead.steps.process_main import EngineSocket, serve
from fairlead.steps.run import encodable
from fairlead.steps.signals import die_with
from fairlead.steps.sources import imported_sources

_LONGEST_SENTENCE = 2_000
_FITTING = LARGEST_PACKET // 2
"""Bytes of paths that fit into a packet with a sentence."""

Start = Callable[[socket.socket], int]
"""Starts a process with this socket, and returns its pid; raises OSError."""


class _Control:
    """The socket to the engine, whose messages are packets."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> tuple[TemplateRequest | None, list[int]]:
        """A request and its descriptors; None: the engine has closed the socket."""
        packet, descriptors, _flags, _sender = socket.recv_fds(self._socket, LARGEST_PACKET, 1)
        return (decode_template_request(packet) if packet else None), descriptors

    def send(self, answer: TemplateAnswer) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # `receive` will tell
            self._socket.send(encode(answer))

    def close(self) -> None:
        self._socket.close()


class _EngineDied(Exception):
    """The engine has ended without closing the socket."""


def _raise_if_dead(engine: int, _number: int, _frame: object) -> None:
    """Handle the signal that comes with the death of the parent, and that a terminal may send."""
    if os.getppid() != engine:
        raise _EngineDied


class _Template:
    """The processes of the step, until the engine closes the socket."""

    def __init__(self, control: _Control, start: Start) -> None:
        self._control = control
        self._start = start
        self._numbers: dict[int, int] = {}  # of the processes, by their pidfds
        self._pids: dict[int, int] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self, engine: int) -> None:
        """Start and end processes until the engine closes the socket or dies."""
        with suppress(_EngineDied):
            signal.signal(signal.SIGINT, lambda _number, _frame: None)
            signal.signal(signal.SIGTERM, partial(_raise_if_dead, engine))
            die_with(engine, signal.SIGTERM)
            while self._handle_events():
                pass
        self._end_all()

    def _handle_events(self) -> bool:
        for descriptor, _event in self._poll.poll():
            if descriptor in self._numbers:
                self._reap(descriptor)
            elif not self._handle_request():
                return False
        return True

    def _handle_request(self) -> bool:
        """Handle a request; False: there will be no more."""
        request, descriptors = self._control.receive()
        if isinstance(request, StartProcess):
            with socket.socket(fileno=descriptors[0]) as theirs:
                self._start_process(request.number, theirs)
        elif isinstance(request, KillProcess):
            self._kill(request.number)
        return request is not None

    def _start_process(self, number: int, theirs: socket.socket) -> None:
        try:
            pid = self._start(theirs)
        except OSError as error:
            self._control.send(ProcessEnded(number, f"it cannot be started: {error}"))
            return
        pidfd = os.pidfd_open(pid)
        self._numbers[pidfd], self._pids[pidfd] = number, pid
        self._poll.register(pidfd, select.POLLIN)
        self._control.send(ProcessStarted(number, pid))

    def _kill(self, number: int) -> None:
        for pidfd, own in self._numbers.items():
            if own == number:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)  # not reaped, so it is there

    def _reap(self, pidfd: int) -> None:
        """Kill the forks of a process that has ended, and report how it ended."""
        self._poll.unregister(pidfd)
        number, pid = self._numbers.pop(pidfd), self._pids.pop(pidfd)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # the pid is not reused before it is waited for
        _pid, status = os.waitpid(pid, 0)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(status)
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._control.send(ProcessEnded(number, how))

    def _end_all(self) -> None:
        for pidfd in list(self._numbers):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            self._reap(pidfd)


def main(descriptor: int) -> None:
    control = _Control(descriptor)
    setup, _ = control.receive()
    if not isinstance(setup, Setup):
        return
    die_with(setup.parent)
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        function = load_step(setup)
    except InvalidStep as error:
        sources = [*imported_sources(), *source_of(setup.reference)]
        control.send(LoadFailed(encodable(str(error))[:_LONGEST_SENTENCE], _fitting(sources)))
        return
    can_fork = _can_fork(control)
    control.send(Loaded(options_of(function), _fitting(imported_sources()), can_fork))
    if not can_fork:
        _execute("fairlead.steps.template_main", descriptor, str(setup.parent))
    _Template(control, _forking(control, function, setup.result_limit)).serve(setup.parent)


def main_without_import(descriptor: int, engine: int) -> None:
    """The template after it has executed itself anew."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - it has no keyword
    _Template(_Control(descriptor), _spawn).serve(engine)


def _can_fork(control: _Control) -> bool:
    """Whether the imported modules have started no thread and opened no socket."""
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return False
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this loop is closed by now
            is_socket = str(link.readlink()).startswith("socket:")
            if is_socket and int(link.name) != control.fileno():
                return False
    return True


def _fitting(sources: Sequence[Path]) -> list[Path]:
    """As many of the files as fit into a packet."""
    lengths = accumulate(len(os.fsencode(source)) + 3 for source in sources)
    return [source for source, length in zip(sources, lengths, strict=True) if length < _FITTING]


def _forking(control: _Control, function: Callable[[Any], Any], limit: int) -> Start:
    gc.collect()
    gc.freeze()  # so that a garbage collection in a fork leaves these pages shared
    template = os.getpid()

    def fork(theirs: socket.socket) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _run_fork(template, control, theirs.detach(), function, limit)
        return pid

    return fork


def _run_fork(
    template: int, control: _Control, descriptor: int, function: Callable[[Any], Any], limit: int
) -> NoReturn:
    try:
        control.close()
        os.setsid()
        die_with(template)
        serve(function, EngineSocket(descriptor), limit)
    finally:
        os._exit(1)


def _spawn(theirs: socket.socket) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _execute("fairlead.steps.process_main", theirs.fileno())
        finally:
            os._exit(1)
    return pid


def _execute(module: str, descriptor: int, *arguments: str) -> NoReturn:
    """Run a module in place of this program, with this descriptor."""
    os.set_inheritable(descriptor, True)  # noqa: FBT003 - it has no keyword
    command = [sys.executable, "-P", "-u", "-m", module, str(descriptor), *arguments]
    os.execv(sys.executable, command)  # noqa: S606 - our own modules


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(int(sys.argv[1]))
    else:
        main_without_import(*map(int, sys.argv[1:]))
