"""Fork servers that all tests of a process share: forking a child costs a twentieth of a spawn."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from functools import cache
from typing import Any

from fairlead.worker.sandbox.forkserver import ForkedProcess, ForkServer
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import Sandbox

SCRIPTED = """
import os, sys
from fairlead.worker.sandbox import child, forkserver_main
honest, run = child.extract, child.run_as
def run_as(*arguments):
    *arguments, script = arguments
    exec(script, globals())
    return run(*arguments)
child.run_as = run_as
"""
"""Before the program of a child or of a fork server: a child runs its last argument first."""


def until_exit(forkserver: ForkServer) -> ForkServer:
    """The server, which is closed when this process ends."""
    atexit.register(forkserver.close)
    return forkserver


class SharedForkServer(ForkServer):
    """Forks children as an engine's server does, for any thread."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it now: it ends with the thread that starts it."""
        if self._process is None:
            self._start()

    def _ask(self, request: dict[str, Any], descriptors: list[int]) -> Any:
        with self._lock:
            return super()._ask(request, descriptors)


@cache
def shared() -> SharedForkServer:
    forkserver = SharedForkServer()
    atexit.register(forkserver.close)
    return forkserver


class LentForkServer:
    """In the place of an engine's own: its children come from the shared server."""

    def __init__(self) -> None:
        self._children: list[ForkedProcess] = []

    def fork(self, arguments: list[str], jobs: int, answers: int) -> ForkedProcess | None:
        child = shared().fork(arguments, jobs, answers)
        if child is not None:
            self._children.append(child)
        return child

    def close(self) -> None:
        for child in self._children:
            child.kill()


class Scripted(Sandbox):
    """A child whose `extract` does what a test wants; forked, or spawned from this process."""

    def __init__(
        self, script: str, limits: SandboxLimits | None = None, *, spawned: bool = False
    ) -> None:
        super().__init__(limits, forkserver=None if spawned else _shared_scripted())
        self._script = script

    def _command(self) -> list[str]:
        return _python("sys.exit(child.run_as(*sys.argv[1:]))", *self._arguments())

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), self._script]


class _ScriptedForkServer(ForkServer):
    def _command(self) -> list[str]:
        return _python("sys.exit(forkserver_main.main(int(sys.argv[1])))", str(os.getpid()))


@cache
def _shared_scripted() -> ForkServer:
    return until_exit(_ScriptedForkServer())


def _python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-B", "-c", SCRIPTED + program, *arguments]
