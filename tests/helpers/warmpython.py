"""Commands in processes of their own, forked from one that has imported all modules.

The imports are most of what starting a server costs.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

PRELOADED = ["fairlead.cli.serve", "fairlead.server.server"]


class WarmProcess:
    """A command of `fairlead`, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        ours, theirs = os.pipe()
        self.stderr = os.fdopen(ours, encoding="utf-8")
        start = (list(arguments), dict(environment), str(Path.cwd()))
        self._process = _context().Process(target=_run, args=(*start, DupFd(theirs)))
        try:
            self._process.start()
        finally:
            os.close(theirs)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("fairlead", timeout or 0.0)
        return self.returncode

    def communicate(self) -> None:
        """Read what it still writes, and wait for its end."""
        with self.stderr:
            self.stderr.read()
        self.wait()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _run(arguments: list[str], environment: dict[str, str], folder: str, stderr: Any) -> None:
    """Be `python -m fairlead`."""
    os.dup2(stderr.detach(), 2)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    here = str(Path(__file__).parent)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [folder, *filter(None, paths), *(path for path in sys.path if path != here)]
    sys.argv = ["fairlead", *arguments]

    from fairlead.cli import main  # noqa: PLC0415 (only in the new process)

    main(prog_name="fairlead")
