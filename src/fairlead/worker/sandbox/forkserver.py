"""Where children come from, seen from the worker: a process that is ready, and forks them."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

_PATIENCE_SECONDS = 30.0
"""How long an answer may take; the first one comes when the libraries are imported."""
_LOST = -signal.SIGKILL
"""How a child ended whose nursery is gone: with it, by the kernel."""


class Process(Protocol):
    """A child process, as far as anybody here cares."""

    pid: int
    returncode: int | None

    def kill(self) -> None:
        """End it at once."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""
        ...


class ForkedChild:
    """A child that was forked by the nursery, which keeps its id until its end is asked for."""

    def __init__(self, forkserver: ForkServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forkserver = forkserver
        self._generation = forkserver.generation
        self._descriptor = os.pidfd_open(pid)

    def kill(self) -> None:
        """End it at once."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            if not poll.poll(None if timeout is None else 1000 * timeout):
                raise subprocess.TimeoutExpired("child", timeout or 0.0)
            self.returncode = self._forkserver.reap(self.pid, self._generation)
            os.close(self._descriptor)
        return self.returncode


class ForkServer:
    """Keeps one process to fork children from, and starts another where that has died.

    It dies with the thread that first asked for a child.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def bear(self, arguments: list[str], jobs: int, answers: int) -> ForkedChild | None:
        """A child with these pipes; None: a library has threads, so it is to be spawned.

        Raises:
            OSError: no process can be started.
        """
        request, pipes = {"bear": arguments}, [jobs, answers]
        try:
            pid = self._ask(request, pipes)
        except OSError:  # the first time, and when somebody has killed it
            self.close()
            self._start()
            pid = self._ask(request, pipes)
        return None if pid is None else ForkedChild(self, pid)

    def reap(self, pid: int, generation: int) -> int:
        """The exit code of a child that has ended; minus the number of a signal."""
        if generation != self.generation:  # its own nursery is gone, and took it along
            return _LOST
        try:
            code = self._ask({"reap": pid}, [])
        except OSError:
            self.close()  # it is dead, or stuck and of no use
            return _LOST
        return _LOST if code is None else code

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
        self._requests.settimeout(_PATIENCE_SECONDS)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, fixed arguments
                self._command(),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=environment(),
                close_fds=True,
                start_new_session=True,
            )

    def _command(self) -> list[str]:
        return [*python("fairlead.worker.sandbox.forkserver_main"), str(os.getpid())]

    def _ask(self, request: dict[str, Any], descriptors: list[int]) -> int | None:
        if self._requests is None:
            raise OSError("the process that children are forked from is gone")
        socket.send_fds(self._requests, [json.dumps(request).encode()], descriptors)
        reply = self._requests.recv(100)
        if not reply:
            raise OSError("the process that children are forked from has ended")
        found: int | None = json.loads(reply)
        return found


def python(module: str) -> list[str]:
    """How a module of ours is run as a process."""
    # -P, -s: neither the present folder nor the user's own choose what is imported.
    # -B: the child may not write files, so it must not try to.
    return [sys.executable, "-P", "-s", "-B", "-m", module]


def environment() -> dict[str, str]:
    """All that a child learns from its parent's environment."""
    found = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        # One process for each core is what the worker itself takes care of.
        "OMP_THREAD_LIMIT": "1",
        "RAYON_NUM_THREADS": "1",
        # Each arena of the C library takes from the address space, which is limited.
        "MALLOC_ARENA_MAX": "2",
    }
    if models := os.environ.get("TESSDATA_PREFIX"):
        found["TESSDATA_PREFIX"] = str(Path(models).absolute())
    # Where the parent finds its modules by this, so must the child, which is in another folder.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if any(paths):
        found["PYTHONPATH"] = os.pathsep.join(str(Path(each).absolute()) for each in paths)
    return found
