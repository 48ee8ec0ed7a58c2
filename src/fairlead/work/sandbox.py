"""One warm child process that opens documents, seen from its parent."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fairlead.errors import MissingExtra
from fairlead.work.wire import HEADER, pack

_END_SECONDS = 2.0
_READ_BYTES = 262_144
_READS_AT_ONCE = 16  # a child that never stops writing must not keep its parent reading
_EXTRA_ANSWER_BYTES = 1_000_000
_BYTES_A_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one document may use. `seconds` bounds processor time in the child."""

    seconds: float = 120.0
    memory: int = 1_500_000_000
    max_characters: int = 20_000_000

    @property
    def answer_bytes(self) -> int:
        """The longest answer that an honest child can give."""
        return self.max_characters * _BYTES_A_CHARACTER + _EXTRA_ANSWER_BYTES


class Job(NamedTuple):
    """A document to be read, and the hash its bytes must have."""

    path: Path
    sha256: str


class Answer(NamedTuple):
    """The bytes of an answer, untrusted: `fairlead.work.results.parse_answer` checks them."""

    raw: bytes


class ChildDied(Exception):
    """The child is gone or cannot be trusted any more; it has been ended.

    `how` says it in words ("SIGKILL", "exit code 1"); `code` is the outcome's: crashed,
    time-limit or bad-answer.
    """

    def __init__(self, how: str, code: str = "crashed") -> None:
        super().__init__(f"the child process ended: {how}")
        self.how = how
        self.code = code


class Sandbox:
    """A child process under limits: start it, wait for `fileno`, call `receive`, send jobs.

    Nothing here waits for the child except `close`. The child dies with the thread that
    called `start`, so that thread must live as long as the sandbox.
    """

    def __init__(self, limits: Limits | None = None, *, show_errors: bool = False) -> None:
        self.limits = limits or Limits()
        self.ready = False
        self.busy = False
        self.jobs_done = 0
        self._show_errors = show_errors
        self._process: subprocess.Popen[bytes] | None = None
        self._jobs = -1
        self._answers = -1
        self._buffer = bytearray()

    def start(self) -> None:
        """Start the child. It is of use once `receive` has made `ready` true."""
        if self._process is not None:
            raise RuntimeError("this sandbox was started before; make a new one")
        jobs, self._jobs = os.pipe()
        self._answers, answers = os.pipe()
        os.set_blocking(self._answers, False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, fixed arguments
                self._command(),
                stdin=jobs,
                stdout=answers,
                stderr=None if self._show_errors else subprocess.DEVNULL,
                cwd="/",
                env=_environment(),
                close_fds=True,
                start_new_session=True,  # a Ctrl-C in the terminal is for the parent only
            )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(jobs)
            os.close(answers)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    def fileno(self) -> int:
        """The descriptor that becomes readable when `receive` has something to do."""
        return self._answers

    def send(self, job: Job) -> None:
        """Give the child its next document.

        Raises:
            ChildDied: there is no child to take it.
        """
        if not self.ready or self.busy:
            raise RuntimeError("a job can only be sent to a child that is ready and not busy")
        message = pack(
            {
                "path": str(job.path.absolute()),
                "sha256": job.sha256,
                "cpu_seconds": max(1, math.ceil(self.limits.seconds)),
                "max_characters": self.limits.max_characters,
            }
        )
        try:
            # An idle child's pipe is empty, and a job is far shorter than what fits in.
            os.write(self._jobs, message)
        except BrokenPipeError:
            raise self._death() from None
        self.busy = True

    def receive(self) -> Answer | None:
        """Take in what the child has written; None while no answer is complete.

        Raises:
            ChildDied: it ended or broke the protocol; the sandbox only wants to be closed.
            MissingExtra: the document libraries are not installed.
        """
        at_end = self._fill()
        raw = self._take()
        if raw is None:
            if at_end:
                raise self._death()
            return None
        if not self.ready:
            self._greet(raw)
            return None
        if not self.busy:
            raise self._distrust("it answered without a job")
        self.busy = False
        self.jobs_done += 1
        return Answer(raw)

    def kill(self) -> None:
        """End the child at once; its end shows as ChildDied at the next `receive`."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def close(self) -> None:
        """End the child and free everything: by asking, after two seconds by force."""
        self._close_pipes()
        if self._process is not None:
            _end(self._process)
        self.ready = self.busy = False

    def __enter__(self) -> Sandbox:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is not None or self.busy:
            self.kill()
        self.close()

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("this sandbox was not started")
        return self._process

    def _command(self) -> list[str]:
        # -P, -s: neither the present folder nor the user's own choose what is imported.
        # -B: the child may not write files, so it must not try to.
        flags = ["-P", "-s", "-B", "-m", "fairlead.work.child"]
        return [sys.executable, *flags, str(self.limits.memory), str(os.getpid())]

    def _fill(self) -> bool:
        """Read what there is into the buffer; True at the end of the pipe."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_READS_AT_ONCE):
                chunk = os.read(self._answers, _READ_BYTES)
                if not chunk:
                    return True
                self._buffer += chunk
        return False

    def _take(self) -> bytes | None:
        """Cut a complete message out of the buffer."""
        if len(self._buffer) < HEADER.size:
            return None
        (length,) = HEADER.unpack_from(self._buffer)
        if length > self.limits.answer_bytes:
            raise self._distrust(f"an answer of {length} bytes is longer than allowed")
        end = HEADER.size + length
        if len(self._buffer) > end:
            raise self._distrust("it wrote more than one answer")
        if len(self._buffer) < end:
            return None
        raw = bytes(memoryview(self._buffer)[HEADER.size :])
        self._buffer = bytearray()
        return raw

    def _greet(self, raw: bytes) -> None:
        # Before its first document the child is as trustworthy as this code.
        greeting = json.loads(raw)
        if not greeting["ready"]:
            raise MissingExtra(greeting["detail"])
        self.ready = True

    def _distrust(self, reason: str) -> ChildDied:
        self.kill()
        self._finish()
        return ChildDied(f"{reason}; it was killed", "bad-answer")

    def _death(self) -> ChildDied:
        """How the child ended. One that only closed its pipe is ended here."""
        self._finish()
        code = self._child.returncode
        if code >= 0:
            return ChildDied(f"exit code {code}")
        name = _signal_name(-code)
        return ChildDied(name, "time-limit" if name == "SIGXCPU" else "crashed")

    def _finish(self) -> None:
        _end(self._child)
        self.ready = self.busy = False

    def _close_pipes(self) -> None:
        for descriptor in (self._jobs, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._jobs = self._answers = -1


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _environment() -> dict[str, str]:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
    }
    # Where the parent finds its modules by this, so must the child, which is in another folder.
    found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if any(found):
        environment["PYTHONPATH"] = os.pathsep.join(str(Path(each).absolute()) for each in found)
    return environment


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
