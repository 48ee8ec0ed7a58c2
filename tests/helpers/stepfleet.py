"""Real engines (`fairlead worker`) that run steps, and that a test may kill in whole or in part."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

SLOWEST_STOP = 60.0
STEP_PROCESS = b"fairlead.steps.template_main"
"""A template, or a fork of one."""


class StepEngine:
    """One `fairlead worker`, started in the folder of the module with the steps."""

    def __init__(self, data: Path, *options: str) -> None:
        program = str(Path(sys.executable).with_name("fairlead"))
        self._command = [program, "worker", "--data", str(data), "--quiet", *options]
        self._folder = data.parent
        self._log = data / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True
            )

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        assert self._process.poll() is None, self.log()
        return self._process.pid

    def step_processes(self) -> list[int]:
        """Its templates and their forks."""
        return [pid for pid in descendants(self.pid) if STEP_PROCESS in command_of(pid)]

    def kill(self) -> None:
        """Kill the engine only, and wait until its step processes have followed it."""
        with ExitStack() as stack:
            ends = []
            for pid in self.step_processes():
                with suppress(ProcessLookupError):
                    ends.append(os.pidfd_open(pid))
                    stack.callback(os.close, ends[-1])
            assert self._process is not None
            self._process.kill()
            self._process.wait()
            self._process = None
            for end in ends:
                readable, _, _ = select.select([end], [], [], SLOWEST_STOP)
                assert readable, "a step process lives on without its engine"

    def stop(self) -> None:
        """End it in order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(SLOWEST_STOP) == 0, self.log()
        self._process = None

    def end(self) -> None:
        """At the end of a test, however it ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def step_engines(folders: Sequence[Path], *options: str) -> Iterator[list[StepEngine]]:
    """One on each data folder; several folders share a server and the files."""
    engines = [StepEngine(data, *options) for data in folders]
    try:
        for engine in engines:
            engine.start()
        yield engines
    finally:
        for engine in engines:
            engine.end()


def descendants(pid: int) -> Iterator[int]:
    """The children of all threads of a process, their children, and so on."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))


def parent_of(pid: int) -> int:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    return int(after_name.split()[1])


def command_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
