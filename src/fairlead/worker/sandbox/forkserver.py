"""The engine's side of the fork server: starts it, and asks it to fork children."""

from __future__ import annotations

import json
import os
import select
import signal
import site
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_TIMEOUT = 30.0
"""Seconds to wait for an answer; before the first one the fork server imports the libraries."""
_LOST = -signal.SIGKILL  # exit code of a child whose fork server died: the kernel killed it too


class ForkedProcess:
    """A child of the fork server, with the methods of `subprocess.Popen` that a sandbox uses.

    The pid is not reused before `wait` has returned: until then the fork server does not reap it.
    """

    def __init__(self, forkserver: ForkServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.peak_memory = 0  # bytes, once it has ended
        self._forkserver = forkserver
        self._generation = forkserver.generation
        self._descriptor = os.pidfd_open(pid)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            if not poll.poll(None if timeout is None else 1000 * timeout):
                raise subprocess.TimeoutExpired("child", timeout or 0.0)
            self.returncode, kilobytes = self._forkserver.end_of(self.pid, self._generation)
            self.peak_memory = 1024 * kilobytes
            os.close(self._descriptor)
        return self.returncode


class ForkServer:
    """Keeps one process that forks children, and starts another if that has died.

    The process dies with the thread that first called `fork`.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def fork(self, arguments: list[str], jobs: int, answers: int) -> ForkedProcess | None:
        """Fork a child with these pipes; None: a library has threads, so it must be spawned."""
        request, pipes = {"fork": arguments}, [jobs, answers]
        try:
            pid = self._ask(request, pipes)
        except OSError:  # it is not started yet, or was killed
            self.close()
            self._start()
            pid = self._ask(request, pipes)
        return None if pid is None else ForkedProcess(self, pid)

    def end_of(self, pid: int, generation: int) -> tuple[int, int]:
        """The exit code of a child that has ended, and its peak memory in kilobytes.

        A child that a signal has ended has minus the number of that signal as its code.
        """
        if generation != self.generation:
            return _LOST, 0
        try:
            code, kilobytes = self._ask({"wait": pid}, [])
        except OSError:
            self.close()  # it is dead, or hangs
            return _LOST, 0
        return code, kilobytes

    def close(self) -> None:
        """End the process, and so all its children."""
        self.generation += 1
        if self._requests is not None:
            self._requests.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._requests = None

    def _start(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(_TIMEOUT)
        with theirs:
            self._process = spawn(self._command(), stdin=theirs.fileno(), stdout=subprocess.DEVNULL)

    def _command(self) -> list[str]:
        return [*python("fairlead.worker.sandbox.forkserver_main"), str(os.getpid())]

    def _ask(self, request: dict[str, Any], descriptors: list[int]) -> Any:
        if self._requests is None:
            raise OSError("the fork server is gone")
        socket.send_fds(self._requests, [json.dumps(request).encode()], descriptors)
        reply = self._requests.recv(100)
        if not reply:
            raise OSError("the fork server has ended")
        return json.loads(reply)


Process = ForkedProcess | subprocess.Popen[bytes]


def python(module: str) -> list[str]:
    # -P, -s: neither the current folder nor the user's site-packages decide what is imported.
    # -B: the child may not write files, so it must not try to.
    return [sys.executable, "-P", "-s", "-B", "-m", module]


def spawn(command: list[str], *, stdin: int, stdout: int) -> subprocess.Popen[bytes]:
    """Start a process that inherits nothing but these two descriptors."""
    return subprocess.Popen(  # noqa: S603 - our own modules, fixed arguments
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=_environment(),
        close_fds=True,
        start_new_session=True,  # a Ctrl-C in the terminal is for the parent only
    )


def _environment() -> dict[str, str]:
    """The environment of a child: nothing else of its parent's."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        # The worker itself starts one process for each core.
        "OMP_THREAD_LIMIT": "1",
        "RAYON_NUM_THREADS": "1",
        # Each arena of the C library uses up address space, which is limited.
        "MALLOC_ARENA_MAX": "2",
    }
    if models := os.environ.get("TESSDATA_PREFIX"):
        environment["TESSDATA_PREFIX"] = str(Path(models).absolute())
    # The child runs in another folder, so relative paths would not lead to the same modules.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if Path(__file__).is_relative_to(site.getusersitepackages()):  # pip install --user
        paths.append(site.getusersitepackages())
    if any(paths):
        environment["PYTHONPATH"] = os.pathsep.join(
            str(Path(path).absolute()) for path in paths if path
        )
    return environment
