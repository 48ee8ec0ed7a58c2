"""Children that have the hostile behaviours in them."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from forkkit import until_exit

from fairlead.worker.sandbox.forkserver import ForkServer
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import Sandbox

HERE = Path(__file__).parent
SCRIPT = (
    "import importlib.util, sys\n"
    "spec = importlib.util.spec_from_file_location('hostile', {path!r})\n"
    "hostile = importlib.util.module_from_spec(spec)\n"
    "sys.modules['hostile'] = hostile\n"
    "spec.loader.exec_module(hostile)\n"
    "hostile.install(unlocked={unlocked})\n"
)
CHILD = "sys.exit(hostile.child.run_as(*sys.argv[1:]))\n"
FORKSERVER = (
    "from fairlead.worker.sandbox import forkserver_main\n"
    "sys.exit(forkserver_main.main(int(sys.argv[1])))\n"
)


def hostile_command(sandbox: Sandbox, *, unlocked: bool = False) -> list[str]:
    """How to start a child that does what hostile documents say."""
    script = SCRIPT.format(path=str(HERE / "hostile.py"), unlocked=unlocked)
    return [sys.executable, "-I", "-B", "-c", script + CHILD, *sandbox._arguments()]


def hostile_forkserver(before: str = "", *, unlocked: bool = False) -> list[str]:
    """How to start a process that forks such children."""
    script = SCRIPT.format(path=str(HERE / "hostile.py"), unlocked=unlocked) + before + FORKSERVER
    return [sys.executable, "-I", "-B", "-c", script, str(os.getpid())]


class HostileForkServer(ForkServer):
    """Forks children that do what hostile documents say."""

    def __init__(self, *, unlocked: bool) -> None:
        super().__init__()
        self._unlocked = unlocked

    def _command(self) -> list[str]:
        return hostile_forkserver(unlocked=self._unlocked)


@cache
def _shared(*, unlocked: bool) -> ForkServer:
    return until_exit(HostileForkServer(unlocked=unlocked))


class HostileSandbox(Sandbox):
    """A child that does what hostile documents say, with its locks or without them.

    It is forked by a server that all tests share, or spawned from this process.
    """

    def __init__(
        self, limits: SandboxLimits | None = None, *, unlocked: bool = False, spawned: bool = False
    ) -> None:
        super().__init__(limits, forkserver=None if spawned else _shared(unlocked=unlocked))
        self._unlocked = unlocked

    def _command(self) -> list[str]:
        return hostile_command(self, unlocked=self._unlocked)
