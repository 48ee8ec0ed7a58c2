"""One warm child process that opens documents, seen from its parent."""

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
from fairlead.worker.sandbox.forkserver import ForkServer, Process, environment, python
from fairlead.worker.sandbox.frames import BadFrame, FrameReader
from fairlead.worker.sandbox.job_dir import JobDir, JobDirGone
from fairlead.worker.sandbox.limits import Limits
from fairlead.worker.sandbox.protocol import pack

MOST_JOBS = 16
"""Jobs that a child may have at once."""
_END_SECONDS = 2.0
_DIE_SECONDS = 0.5
"""How long a child may take to be gone after its pipe has ended: others wait meanwhile."""


class Job(NamedTuple):
    """A document to be read, the hash its bytes must have, and what opens it if it is locked.

    `source` is where it lies or, where it is short, the document itself.
    """

    source: Path | bytes
    sha256: str
    password: str | None = None


class JobAnswer(NamedTuple):
    """An answer and the parts before it, untrusted: `results.parse_answer` checks them.

    `took` is the child's word on how long it worked on that, in seconds.
    """

    raw: bytes
    parts: tuple[tuple[bytes, bytes], ...] = ()
    took: float = 0.0


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

    Jobs may be sent before the last is answered; the child goes on to them without a pause. Until
    then it can see their documents, so they must be of the same customer.
    Nothing here waits for the child except `close`. The child dies with the thread that
    called `start`, so that thread must live as long as the sandbox. `desk` is the folder where
    it gets its documents, best on their disk; by default one among the temporary files. With a
    nursery the child is forked there, which is faster.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        job_dir: Path | None = None,
        forkserver: ForkServer | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._job_dir = JobDir(job_dir or Path(tempfile.mkdtemp(prefix="fairlead-")))
        self.ready = False
        self.jobs_sent = 0
        self.jobs_done = 0
        self._forkserver = forkserver
        self._process: Process | None = None
        self._jobs = -1
        self._answers = -1
        self._cpu_seconds = 0
        self._inbox = FrameReader(self.limits)
        self._flaw: str | None = None

    def start(self) -> None:
        """Start the child. It is of use once `receive` has made `ready` true."""
        if self._process is not None:
            raise RuntimeError("this sandbox was started before; make a new one")
        jobs, self._jobs = os.pipe()
        self._answers, answers = os.pipe()
        os.set_blocking(self._answers, False)
        try:
            self._process = self._born(jobs, answers) or self._spawned(jobs, answers)
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

    @property
    def busy(self) -> bool:
        """Whether it has a document to read."""
        return self.jobs_sent > self.jobs_done

    @property
    def progress(self) -> tuple[int, int] | None:
        """Pages read and pages in all of the document at hand, as the child says."""
        return self._inbox.progress

    def fileno(self) -> int:
        """The descriptor that becomes readable when `receive` has something to do."""
        return self._answers

    def send(self, job: Job) -> None:
        """Give the child a document, to be read after those that it has.

        Raises:
            ChildDied: there is no child to take it.
            DiskFull: there is no room to lay it on the desk.
            OSError: the document is gone; the child can take another.
        """
        if not self.ready or self.jobs_sent - self.jobs_done >= MOST_JOBS:
            raise RuntimeError("a job can only be sent to a child that is ready and has room")
        try:
            number = self._job_dir.lay(job.source)
        except JobDirGone:
            self.kill()
            self._miss_a_job()
            return
        if not self.busy:
            self._inbox.expect_answer()
            self._limit_cpu()
        message = pack({"document": number, "sha256": job.sha256, "password": job.password})
        try:
            # A job is so short that as many as there may be fit into the pipe.
            os.write(self._jobs, message)
        except BrokenPipeError:
            self._miss_a_job()
        else:
            self.jobs_sent += 1

    def withdraw(self) -> None:
        """Take away the documents behind the first; the child answers that they are missing."""
        self._job_dir.clear_behind()

    def receive(self) -> list[JobAnswer]:
        """Take in what the child has written; the answers that are complete, oldest job first.

        Raises:
            ChildDied: it ended or broke the protocol; the sandbox only wants to be closed.
            MissingExtra: the document libraries are not installed.
            NoSandbox: the machine lacks a lock, and the limits are strict.
        """
        if self._flaw is not None:
            raise self._distrust(self._flaw)
        answers: list[JobAnswer] = []
        try:
            at_end = self._inbox.fill(self._answers)
            while (raw := self._inbox.take()) is not None:
                if self.ready:
                    answers.append(self._checked(raw))
                else:
                    self._greet(raw)
        except BadFrame as error:
            if not answers:
                raise self._distrust(str(error)) from None
            self._flaw = str(error)  # of the job after these
            self.kill()
            return answers
        if at_end and not answers:
            raise self._death()
        return answers

    def kill(self) -> None:
        """End the child at once; its end shows as ChildDied at the next `receive`."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def close(self, *, leave_desk: bool = False) -> None:
        """End the child and free everything: by asking, after two seconds by force.

        An empty desk may be left for the next child.
        """
        self._close_pipes()
        if self._process is not None:
            _end(self._process)
        if leave_desk:
            self._job_dir.clear_all()
        else:
            self._job_dir.remove()
        self._forget_jobs()

    def __enter__(self) -> Sandbox:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is not None or self.busy:
            self.kill()
        self.close()

    @property
    def _child(self) -> Process:
        if self._process is None:
            raise RuntimeError("this sandbox was not started")
        return self._process

    def _born(self, jobs: int, answers: int) -> Process | None:
        if self._forkserver is None:
            return None
        memory, _parent, *others = self._arguments()
        return self._forkserver.bear([memory, *others], jobs, answers)

    def _spawned(self, jobs: int, answers: int) -> Process:
        return subprocess.Popen(  # noqa: S603 - our own module, fixed arguments
            self._command(),
            stdin=jobs,
            stdout=answers,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment(),
            close_fds=True,
            start_new_session=True,  # a Ctrl-C in the terminal is for the parent only
        )

    def _command(self) -> list[str]:
        return [*python("fairlead.worker.sandbox.child"), *self._arguments()]

    def _arguments(self) -> list[str]:
        manner = "strict" if self.limits.strict else "best"
        read = json.dumps(asdict(self.limits.read))
        return [str(self.limits.memory), str(os.getpid()), str(self._job_dir.folder), manner, read]

    def _miss_a_job(self) -> None:
        """There is nobody to take a job; where there are others, that is heard of with theirs."""
        if not self.busy:
            raise self._death()
        self.jobs_sent += 1

    def _checked(self, raw: bytes) -> JobAnswer:
        """The answer to the oldest job; the child is at the next one by now."""
        if not self.busy:
            raise BadFrame("it answered without a job")
        if self.jobs_sent == self.jobs_done + 1 and self._inbox.has_more:
            raise BadFrame("it wrote more than one answer")
        if self._inbox.which != self._job_dir.first:
            raise BadFrame("it answered something else than what it was to read")
        answer = JobAnswer(raw, self._inbox.take_parts(), self._inbox.took)
        self._job_dir.clear()
        self.jobs_done += 1
        self._inbox.expect_answer()
        if self.busy:
            self._limit_cpu()
        return answer

    def _limit_cpu(self) -> None:
        """Processor time for the next document; the kernel ends the child that uses more.

        It is set from here, where the child cannot undo it. The deadline holds in any case.
        """
        with contextlib.suppress(OSError):
            pid = self.pid
            used = time.clock_gettime(~pid << 3)  # the clock of that process: its CPU time
            seconds = math.ceil(used) + max(1, math.ceil(self.limits.seconds))
            if seconds != self._cpu_seconds:
                _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
                soft = seconds if hard == resource.RLIM_INFINITY else min(seconds, hard)
                resource.prlimit(pid, resource.RLIMIT_CPU, (soft, hard))
                self._cpu_seconds = seconds

    def _greet(self, raw: bytes) -> None:
        # Before its first document the child is as trustworthy as this code.
        greeting = json.loads(raw)
        if not greeting["ready"]:
            raise _refusal(greeting["why"], greeting["detail"])
        self.ready = True

    def _distrust(self, reason: str) -> ChildDied:
        self.kill()
        self._finish()
        return ChildDied(f"{reason}; it was killed", "bad-answer")

    def _death(self) -> ChildDied:
        """How the child ended. One that only closed its pipe is ended here."""
        self._finish()
        code = self._child.wait()
        if code >= 0:
            return ChildDied(f"exit code {code}")
        name = _signal_name(-code)
        return ChildDied(name, "time-limit" if name == "SIGXCPU" else "crashed")

    def _finish(self) -> None:
        _end(self._child, _DIE_SECONDS)
        self._forget_jobs()

    def _forget_jobs(self) -> None:
        self.ready = False
        self.jobs_sent = self.jobs_done

    def _close_pipes(self) -> None:
        for descriptor in (self._jobs, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._jobs = self._answers = -1


def _end(process: Process, patience: float = _END_SECONDS) -> None:
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _refusal(why: str, detail: str) -> Exception:
    if why == "extra":
        return MissingExtra(detail)
    return NoSandbox(
        f'this machine lacks {detail}; use a kernel that has it, or set sandbox = "best"'
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
