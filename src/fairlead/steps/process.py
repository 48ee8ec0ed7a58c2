"""The engine's side of one process of a step, and the jobs that it has."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from math import inf

from fairlead.steps.messages import (
    Answer,
    InvalidMessage,
    JobsWithdrawn,
    Printed,
    Request,
    StartJob,
    WithdrawJobs,
    decode_answer,
    encode,
)
from fairlead.steps.outcomes import StepJob, StepOptions
from fairlead.steps.output import LineReader
from fairlead.steps.template import StepTemplate, log_line

STUCK_SECONDS = 0.5
_LONGEST_MESSAGE = 1 << 24


@dataclass(eq=False)
class JobRun:
    """A job, and when it began in its process, if it has."""

    job: StepJob
    began: float = inf
    deadline: float = inf
    spent: float = 0.0  # seconds of runs that others ended
    is_sent: bool = False
    is_alone: bool = False  # no other job may be in its process
    is_cancelled: bool = False
    is_overdue: bool = False


class StepProcess:
    """A process, its socket, and its jobs in the order in which it got them.

    The first `concurrency` jobs run; the others lie ready behind them. It never waits.
    """

    def __init__(
        self, template: StepTemplate, number: int, reference: str, options: StepOptions
    ) -> None:
        self.template = template
        self.options = options
        self.number = number
        self.started_at = time.monotonic()
        self.jobs: deque[JobRun] = deque()
        self.pid: int | None = None
        self.is_ready = False
        self.is_stale = False  # whether it gets no more jobs, and ends without them
        self.is_over_memory = False
        self.jobs_begun = 0
        self.failure: str | None = None
        """What it did against the protocol, for which it was killed."""
        self.is_ending = False
        self.ran_last: list[JobRun] = []
        """The jobs that ran when it ended or was killed; its last words may end some of them."""
        self._is_withdrawing = False
        self._reference = reference
        self._answers: list[Answer] = []
        self._unsent = b""
        self._sending: list[JobRun] = []  # whose message is not in the socket yet
        self._lines = LineReader(self._take)
        self.socket = template.start_process(number)
        setup = template.first_message()
        if setup is not None:
            self.send(setup)

    @property
    def takes_jobs(self) -> bool:
        return not (self.is_stale or self.is_ending or self.is_exclusive)

    @property
    def is_exclusive(self) -> bool:
        """Whether its only job must run alone."""
        return bool(self.jobs) and self.jobs[0].is_alone

    @property
    def has_unsent(self) -> bool:
        """Whether the socket was full, so that `flush` must try again."""
        return bool(self._unsent)

    @property
    def next_end(self) -> float:
        """The time of the next deadline of a job that runs."""
        return min((run.deadline for run in self.running()), default=inf)

    def running(self) -> list[JobRun]:
        """The jobs that run; none before the process is ready."""
        number = self.options.concurrency if self.is_ready else 0
        return list(islice(self.jobs, number))

    def is_stuck(self, now: float) -> bool:
        """Whether its job takes so long that none may lie behind it."""
        running = self.running()
        return bool(running) and now - running[0].began > STUCK_SECONDS

    def behind(self) -> list[JobRun]:
        """The jobs that have not begun."""
        return list(self.jobs)[len(self.running()) :]

    def start(self, run: JobRun) -> None:
        """Give it a job, which begins at once or behind others."""
        self.jobs.append(run)
        if self.is_ready:
            self._send_job(run)
            self._note_begins()

    def note_ready(self) -> None:
        """Send the jobs that waited until it was ready."""
        self.is_ready = True
        for run in self.jobs:
            self._send_job(run)
        self._note_begins()

    def take(self, ids: Iterable[str]) -> list[JobRun]:
        """Take jobs away that have ended or were withdrawn; the next ones begin."""
        wanted = set(ids)
        taken = [run for run in self.jobs if run.job.id in wanted]
        self.jobs = deque(run for run in self.jobs if run.job.id not in wanted)
        self._note_begins()
        return taken

    def withdraw(self) -> None:
        """Ask for the jobs that have not begun."""
        behind = self.behind()
        if behind and not self._is_withdrawing:
            self._is_withdrawing = True
            self.send(WithdrawJobs([run.job.id for run in behind]))

    def send(self, request: Request) -> None:
        """Send a request with the next `flush`."""
        self._unsent += encode(request)

    def receive(self) -> list[Answer]:
        """Its answers since the last call. What is no message ends it."""
        try:
            is_open = self._lines.read_all(self.socket.fileno())
        except InvalidMessage as error:
            self.fail(str(error))
        else:
            if self._lines.rest > _LONGEST_MESSAGE:
                self.fail("it sent a message without an end")
            elif not is_open:  # it has ended, or closed its socket
                self.kill()
        answers, self._answers = self._answers, []
        return answers

    def flush(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._unsent and not self.is_ending:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
            if not self._unsent:
                self._note_sent()

    def memory(self) -> int:
        """Its resident bytes."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as file:  # noqa: PTH123 - called often
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):  # it has ended
            return 0

    def fail(self, why: str) -> None:
        """Kill it because it broke the protocol."""
        self.failure = self.failure or why
        self.kill()

    def kill(self) -> None:
        """Kill it and its forks; its template will report its end."""
        if not self.is_ending:
            self.note_end()
            self.template.kill_process(self.number)

    def note_end(self) -> None:
        """Note which jobs ran; no further one begins."""
        if not self.is_ending:
            self.ran_last = self.running()
            self.is_ending = True

    def close(self) -> None:
        """Close its socket, which ends it."""
        self.is_ending = True
        self.socket.close()

    def _send_job(self, run: JobRun) -> None:
        self.send(StartJob(run.job))
        self._sending.append(run)

    def _note_sent(self) -> None:
        while self._sending:
            self._sending.pop().is_sent = True

    def _note_begins(self) -> None:
        if self.is_ending:
            return
        now = time.monotonic()
        for run in self.running():
            if run.began == inf:
                run.began, run.deadline = now, now + self.options.timeout
                self.jobs_begun += 1

    def _take(self, line: bytes) -> None:
        answer = decode_answer(line)
        if isinstance(answer, Printed):
            log_line(self._reference, answer.id, answer.line)
        else:
            if isinstance(answer, JobsWithdrawn):
                self._is_withdrawing = False
            self._answers.append(answer)
