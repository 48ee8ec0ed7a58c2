"""Fork servers that all tests of a process share: forking a child costs a twentieth of a spawn."""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache

from fairlead.worker.sandbox.forkserver import ForkServer
from fairlead.worker.sandbox.limits import Limits
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


@cache
def shared() -> ForkServer:
    """Forks children as an engine's server does."""
    return until_exit(ForkServer())


class Scripted(Sandbox):
    """A child whose `extract` does what a test wants; forked, or spawned from this process."""

    def __init__(self, script: str, limits: Limits | None = None, *, spawned: bool = False) -> None:
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
