"""The idle children of an engine: each belongs to one customer.

A child that a hostile document has taken over can read later documents, and report their text as
the text of the attacker's next document. So a child reads documents of one customer only. When its
slot gets a document of another customer, the child is stopped (SIGSTOP) and kept for its customer.
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
"""Idle children; beyond that, the least recently used one is ended."""
MOST_IDLE_BYTES = 64_000_000
"""A child with more memory is ended: keeping it costs more than a fork."""

worker_numbers = count(1)
"""Numbers of slots and job directories, unique over all engines of this process."""


class _Idle(NamedTuple):
    customer: str
    sandbox: Sandbox


class ChildPool:
    """Starts the children of an engine, and keeps idle ones for their customers."""

    def __init__(self, job_dirs: Path, forkserver: ForkServer) -> None:
        self._job_dirs = job_dirs
        self._forkserver = forkserver
        self._limits: SandboxLimits | None = None  # of all idle children
        self._idle: list[_Idle] = []  # least recently used first
        self._folders: list[Path] = []  # empty job directories: a full disk has no room for more

    def take(self, limits: SandboxLimits, customer: str | None = None) -> Sandbox:
        """The idle child of this customer, or a new child.

        Raises TemporarilyUnavailable if there is no idle child and no process can be started.
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
        """Stop a child until the next document of its customer."""
        if sandbox.limits != self._limits or sandbox.memory() > MOST_IDLE_BYTES:
            self.end(sandbox)
            return
        sandbox.pause()
        self._idle.append(_Idle(customer, sandbox))
        if len(self._idle) > MOST_IDLE:
            self.end(self._idle.pop(0).sandbox)

    def end(self, sandbox: Sandbox) -> None:
        """End a child at once; a second call does nothing, as another child may have its folder."""
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
        """Start a child; if the machine has no room for it, end the idle children first."""
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
