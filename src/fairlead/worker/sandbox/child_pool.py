"""The children of an engine that have no work: each belongs to one customer.

A child that a document has taken over can change what it reads later, and tell it as the text of
the attacker's next document. So a child reads documents of one customer only. When its slot turns
to another customer, the child is stopped (SIGSTOP) and kept for the next document of its own.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from fairlead.errors import TemporarilyUnavailable
from fairlead.worker.liveness import worker_name
from fairlead.worker.sandbox.forkserver import ForkServer
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import Sandbox

MOST_IDLE = 32
"""Children without work; the one that was used longest ago is ended for another."""
MOST_IDLE_BYTES = 64_000_000
"""Memory of a child that is kept: what a large document left behind is not worth a fork."""

worker_numbers = count(1)
"""Of all slots and job directories of this process, over all its engines: none comes twice."""


class _Idle(NamedTuple):
    customer: str
    sandbox: Sandbox


class ChildPool:
    """Starts the children of an engine, and keeps those that wait for their customer."""

    def __init__(self, job_dirs: Path, forkserver: ForkServer) -> None:
        self._job_dirs = job_dirs
        self._forkserver = forkserver
        self._limits: SandboxLimits | None = None  # of all children that are idle
        self._idle: list[_Idle] = []  # the one that was used last is the last
        self._folders: list[Path] = []  # empty ones: a full disk may have no room for another

    def take(self, limits: SandboxLimits, customer: str | None = None) -> Sandbox:
        """The idle child of this customer, or a new one.

        Raises TemporarilyUnavailable if there is neither one nor room for another process.
        """
        if limits != self._limits:
            self._end_idle()
            self._limits = limits
        for number in reversed(range(len(self._idle))):
            if self._idle[number].customer == customer:
                sandbox = self._idle.pop(number).sandbox
                sandbox.resume()
                return sandbox
        return self._start(limits)

    def keep(self, sandbox: Sandbox, customer: str) -> None:
        """Stop a child until the next document of its customer comes."""
        if sandbox.limits != self._limits or sandbox.memory() > MOST_IDLE_BYTES:
            self.end(sandbox)
            return
        sandbox.pause()
        self._idle.append(_Idle(customer, sandbox))
        if len(self._idle) > MOST_IDLE:
            self.end(self._idle.pop(0).sandbox)

    def end(self, sandbox: Sandbox) -> None:
        """End a child at once; again: nothing, as its folder may be another child's by now."""
        if sandbox.is_closed:
            return
        sandbox.kill()
        sandbox.close(keep_job_dir=True)
        self._folders.append(sandbox.job_dir.folder)

    def close(self) -> None:
        self._end_idle()
        for folder in self._folders:
            with suppress(OSError):
                folder.rmdir()

    def _end_idle(self) -> None:
        while self._idle:
            self.end(self._idle.pop().sandbox)

    def _start(self, limits: SandboxLimits) -> Sandbox:
        """Start a child; where there is no room, in the place of those without work."""
        try:
            return self._start_once(limits)
        except (OSError, TemporarilyUnavailable):
            if not self._idle:
                raise
        self._end_idle()
        return self._start_once(limits)

    def _start_once(self, limits: SandboxLimits) -> Sandbox:
        folder = self._folders[-1] if self._folders else self._new_folder()
        sandbox = Sandbox(limits, folder, self._forkserver)
        sandbox.start()
        if self._folders:
            self._folders.pop()
        return sandbox

    def _new_folder(self) -> Path:
        return self._job_dirs / worker_name(next(worker_numbers))
