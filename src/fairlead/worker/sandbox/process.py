"""The parent's side of a sandboxed child: one warm process that reads documents."""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from fairlead.errors import MissingExtra, NoSandbox
from fairlead.worker.sandbox.forkserver import ForkServer, Process, python, spawn
from fairlead.worker.sandbox.job_dir import JobDir, JobDirGone
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.protocol import BadFrame, FrameReader, ReceivedPart, pack

MOST_JOBS = 16  # jobs that a child may have at once
_END_SECONDS = 2.0
_DIE_SECONDS = 0.5
"""How long the engine waits for a child to exit after its pipe has ended."""
_MUCH_MEMORY = 0.25
"""A library that gets no memory crashes the process. The child then held at least this share of its
limit: a buffer that doubles is in memory twice."""


class ReadJob(NamedTuple):
    """A document to read: its path or bytes, their SHA-256, and its password.

    `outputs` are the optional files that reading also makes.
    """

    source: Path | bytes
    sha256: str
    password: str | None = None
    outputs: tuple[str, ...] = ()


class JobAnswer(NamedTuple):
    """An untrusted answer with its attachments and files; `parse_answer` checks them.

    `took` is how many seconds the child claims to have worked.
    """

    raw: bytes
    parts: tuple[ReceivedPart, ...] = ()
    took: float = 0.0
    files: tuple[ReceivedPart, ...] = ()


class ChildDied(Exception):
    """The child is dead, or broke the protocol and was killed.

    `how` is "SIGKILL" or "exit code 1", for instance. `code` is the failure code: crashed,
    memory-limit, time-limit, bad-answer, or worker-lost if another process killed the child.
    """

    def __init__(self, how: str, code: str = "crashed") -> None:
        super().__init__(f"the child process ended: {how}")
        self.how = how
        self.code = code


class Sandbox:
    """A child process under limits: start it, wait for `fileno`, call `receive`, send jobs.

    All its jobs must be of one customer: a child that was taken over can see and change them all.
    Jobs may be sent before the last is answered. Nothing here waits for the child except `close`.
    The child dies with the thread that called `start`. `job_dir` gets its documents, best on the
    same disk; the default is a temporary folder. With a fork server the child starts faster.
    """

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        job_dir: Path | None = None,
        forkserver: ForkServer | None = None,
    ) -> None:
        self.limits = limits or SandboxLimits()
        self.job_dir = JobDir(job_dir or Path(tempfile.mkdtemp(prefix="fairlead-")))
        self.ready = False
        self.is_closed = False
        self.jobs_sent = 0
        self.jobs_done = 0
        self._forkserver = forkserver
        self._process: Process | None = None
        self._jobs = -1
        self._answers = -1
        self._seconds = max(1, math.ceil(self.limits.seconds))
        self._cpu_seconds = 0
        self._frames = FrameReader(self.limits, self.job_dir.folder)
        self._violation: str | None = None

    def start(self) -> None:
        """Start the child. It takes jobs once `receive` has set `ready`."""
        jobs, self._jobs = os.pipe()
        self._answers, answers = os.pipe()
        os.set_blocking(self._answers, False)
        try:
            if self._forkserver is not None:
                self._process = self._forkserver.fork(self._arguments(), jobs, answers)
            if self._process is None:
                self._process = spawn(self._command(), stdin=jobs, stdout=answers)
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(jobs)
            os.close(answers)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def process(self) -> Process:
        if self._process is None:
            raise RuntimeError("this sandbox was not started")
        return self._process

    @property
    def busy(self) -> bool:
        return self.jobs_sent > self.jobs_done

    @property
    def is_worn(self) -> bool:
        """Whether its hard limit leaves less CPU time than the next document may use."""
        return self._cpu_used() > self._seconds

    @property
    def progress(self) -> tuple[int, int] | None:
        """Pages read, and pages of the document, as the child reports them."""
        return self._frames.progress

    def fileno(self) -> int:
        return self._answers

    def send(self, job: ReadJob) -> None:
        """Send the child a document, to be read after those that it has.

        Raises ChildDied or DiskFull; or OSError if the document is gone.
        """
        if not self.ready or self.jobs_sent - self.jobs_done >= MOST_JOBS:
            raise RuntimeError("a job can only be sent to a child that is ready and has room")
        try:
            number = self.job_dir.add(job.source)
        except JobDirGone:
            self.kill()
            self._lose_job()
            return
        if not self.busy:
            self._frames.expect_answer()
            self._limit_cpu()
        message = pack(
            {
                "document": number,
                "sha256": job.sha256,
                "password": job.password,
                "outputs": job.outputs,
            }
        )
        try:
            # Jobs are so short that MOST_JOBS of them fit into the pipe.
            os.write(self._jobs, message)
        except BrokenPipeError:
            self._lose_job()
        else:
            self.jobs_sent += 1

    def withdraw(self) -> None:
        """Remove the documents behind the first; the child will answer that they are missing."""
        self.job_dir.remove_behind()

    def receive(self) -> list[JobAnswer]:
        """Read what the child has written; return complete answers, oldest job first.

        Raises ChildDied; and MissingExtra or NoSandbox if the child cannot serve.
        """
        if self._violation is not None:
            raise self._killed(self._violation)
        answers: list[JobAnswer] = []
        try:
            at_end = self._frames.fill(self._answers)
            while (raw := self._frames.take()) is not None:
                if self.ready:
                    answers.append(self._answer(raw))
                else:
                    self._greet(raw)
        except BadFrame as error:
            if not answers:
                raise self._killed(str(error)) from None
            self._violation = str(error)  # of the job after these
            self.kill()
            return answers
        if at_end and not answers:
            raise self._death()
        return answers

    def kill(self) -> None:
        """End the child at once; `receive` raises ChildDied then."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def pause(self) -> None:
        """Stop the child, even one that was taken over, until `resume`."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def memory(self) -> int:
        """Its resident bytes, including those that it shares with the fork server."""
        path = f"/proc/{self.pid}/statm"
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return int(file.read(100).split()[1]) * resource.getpagesize()
        return 0

    def close(self, *, keep_job_dir: bool = False) -> None:
        """End the child, after two seconds by force, and free all resources.

        With `keep_job_dir`, the empty job directory stays for the next child.
        """
        self._close_pipes()
        if self._process is not None:
            _end(self._process, _END_SECONDS)
        if keep_job_dir:
            self.job_dir.clear()
        else:
            self.job_dir.remove()
        self._forget_jobs()
        self.is_closed = True

    def _command(self) -> list[str]:
        return [*python("fairlead.worker.sandbox.child"), *self._arguments()]

    def _arguments(self) -> list[str]:
        mode = "strict" if self.limits.strict else "best"
        read = json.dumps(asdict(self.limits.read))
        return [str(self.limits.memory), str(os.getpid()), str(self.job_dir.folder), mode, read]

    def _lose_job(self) -> None:
        """No child takes the job; if it has others, its death is noticed with theirs."""
        if not self.busy:
            raise self._death()
        self.jobs_sent += 1

    def _answer(self, raw: bytes) -> JobAnswer:
        """The answer to the oldest job; the child reads the next one by now."""
        if not self.busy:
            raise BadFrame("it answered without a job")
        if self.jobs_sent == self.jobs_done + 1 and self._frames.has_more:
            raise BadFrame("it wrote more than one answer")
        if self._frames.which != self.job_dir.first:
            raise BadFrame("it answered another job than the next one")
        frames = self._frames
        answer = JobAnswer(raw, frames.parts.take(), frames.took, frames.files.take())
        self.job_dir.remove_first()
        self.jobs_done += 1
        self._frames.expect_answer()
        if self.busy:
            self._limit_cpu()
        return answer

    def _limit_cpu(self) -> None:
        """Limit the CPU time for the next document; the kernel ends a child that uses more.

        It is set from here, where the child cannot undo it. The hard limit, for all documents of
        the child, also ends one that ignores the signal or works without a document.
        """
        with contextlib.suppress(OSError):
            pid = self.pid
            seconds = math.ceil(self._cpu_used()) + self._seconds
            if seconds != self._cpu_seconds:
                _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
                most = 2 * self._seconds + 1
                hard = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.prlimit(pid, resource.RLIMIT_CPU, (min(seconds, hard), hard))
                self._cpu_seconds = seconds

    def _cpu_used(self) -> float:
        with contextlib.suppress(OSError):
            return time.clock_gettime(~self.pid << 3)  # the clock of that process: its CPU time
        return 0.0

    def _greet(self, raw: bytes) -> None:
        """Read the first message; before its first document the child is trustworthy."""
        greeting = json.loads(raw)
        if greeting["ready"]:
            self.ready = True
            return
        detail = greeting["detail"]
        if greeting["why"] == "extra":
            raise MissingExtra(detail)
        raise NoSandbox(
            f'this machine lacks {detail}; use a kernel that has it, or set sandbox = "best"'
        )

    def _killed(self, violation: str) -> ChildDied:
        self.kill()
        self._finish()
        return ChildDied(f"{violation}; it was killed", "bad-answer")

    def _death(self) -> ChildDied:
        """How the child ended. One that only closed its pipe is ended here."""
        cpu_used = self._cpu_used()
        was_ended_here = self._finish()
        code = self.process.wait()
        if code >= 0:
            return ChildDied(f"exit code {code}")
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return ChildDied(name, "crashed" if was_ended_here else self._cause(name, cpu_used))

    def _cause(self, name: str, cpu_used: float) -> str:
        """The code of a death by this signal."""
        is_over_time = cpu_used >= 2 * self._seconds  # at the hard limit the kernel sends SIGKILL
        if name == "SIGXCPU" or (name == "SIGKILL" and is_over_time):
            return "time-limit"
        if name == "SIGKILL":  # of another process: the kernel that lacks memory, or an operator
            return "worker-lost"
        peak = getattr(self.process, "peak_memory", 0)
        return "memory-limit" if peak > self.limits.memory * _MUCH_MEMORY else "crashed"

    def _finish(self) -> bool:
        """Wait for the end of the child; True if it had to be ended by force."""
        was_ended = _end(self.process, _DIE_SECONDS)
        self._forget_jobs()
        return was_ended

    def _forget_jobs(self) -> None:
        self.ready = False
        self.jobs_sent = self.jobs_done

    def _close_pipes(self) -> None:
        for descriptor in (self._jobs, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._jobs = self._answers = -1


def _end(process: Process, seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False
