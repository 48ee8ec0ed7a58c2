"""A seat: the place of one worker, with the child process in it and the documents it has."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from fairlead.errors import FairleadError, TemporarilyUnavailable
from fairlead.model.documents import Broken, Claim, Failed
from fairlead.worker.liveness import worker_name
from fairlead.worker.result_writer import FinishedJob, Result
from fairlead.worker.sandbox.answer import failure, parse_answer
from fairlead.worker.sandbox.forkserver import ForkServer
from fairlead.worker.sandbox.limits import Limits
from fairlead.worker.sandbox.process import MOST_JOBS, ChildDied, Job, JobAnswer, Sandbox

GONE = "The stored bytes of the document are missing or cannot be read."
RECYCLE_AFTER = 100
"""Documents after which a child is replaced, so that what one leaves behind meets few others."""

_numbers = count(1)
"""Seats of this process, over all its engines: what a name holds is its own seat's."""


class WorkerSlot:
    """One worker. It is free, or it reads the document of its claim until a deadline.

    More documents may lie ready behind that one. They are of the same customer: whatever a hostile
    document does to the child, it finds nothing there that is not its own sender's.

    A suspect is read alone, in a child that has read nothing before it and reads nothing after it.
    """

    def __init__(self, limits: Limits, job_dirs: Path, forkserver: ForkServer) -> None:
        self.name = worker_name(next(_numbers))
        self.claims: deque[Claim] = deque()
        self.deadline = float("inf")
        self.limits = limits
        self.is_leaving = False
        """Whether it is to get nothing more."""
        self._job_dir = job_dirs / self.name
        self._forkserver = forkserver
        self._withdrawn = 0  # jobs that come after the claims
        self._job: Job | None = None
        self._had_suspect = False
        self._began = 0.0
        self._sandbox = self._started()

    @property
    def claim(self) -> Claim | None:
        """What is being read."""
        return self.claims[0] if self.claims else None

    @property
    def behind(self) -> int:
        """How many documents lie ready behind the one that is being read."""
        return max(0, len(self.claims) - 1)

    @property
    def is_ready(self) -> bool:
        """Whether its child has started."""
        return self._sandbox.ready

    @property
    def is_free(self) -> bool:
        """Ready for a document, and without one."""
        return self._sandbox.ready and not self._has_jobs and not self.is_leaving

    @property
    def pid(self) -> int:
        """The process id of its child."""
        return self._sandbox.pid

    @property
    def progress(self) -> tuple[int, int] | None:
        """Pages read and pages in all of the document at hand, once its child has told."""
        return self._sandbox.progress if self.claim is not None else None

    def fileno(self) -> int:
        """Readable when `receive` has something to do."""
        return self._sandbox.fileno()

    def is_fit_for(self, claim: Claim) -> bool:
        """Whether its child may read this one; else it is to be replaced before."""
        return not claim.suspect or self._sandbox.jobs_done == 0

    def has_room_for(self, claim: Claim, depth: int) -> bool:
        """Whether it may lie ready behind what is being read, together with so many at most."""
        last = self.claims[-1] if self.claims else None
        return (
            last is not None
            and self._sandbox.ready
            and not self._withdrawn
            and not self.is_leaving
            and self.behind < min(depth, MOST_JOBS - 1)
            and self._sandbox.jobs_sent < RECYCLE_AFTER
            and claim.customer == last.customer
            and not (claim.suspect or last.suspect)
            and claim.password is None  # it may be long, and a job must fit into the pipe
        )

    def start(self, claim: Claim, job: Job) -> FinishedJob | None:
        """Begin with a document, as soon as its turn comes; a result where it is gone.

        Raises:
            ChildDied: there is nobody to do it.
            NotNow: there is no room for it; it was not taken.
        """
        self.claims.append(claim)  # first: whatever interrupts this, it is at hand to give back
        self._had_suspect |= claim.suspect
        if not self.behind:
            self._set_clock()
        if not self._sandbox.ready:
            self._job = job
            return None
        try:
            return self._send(job)
        except TemporarilyUnavailable:
            self.claims.pop()
            if not self._has_jobs:
                self._set_clock()
            raise

    def seconds(self) -> float:
        """How long the document at hand has been worked on."""
        return time.monotonic() - self._began

    def receive(self) -> list[FinishedJob]:
        """Documents that have ended, with their results. A dead child is a result too.

        Raises:
            ChildDied: the child died, and no document was in its hands.
            NotNow: there is no room for the document that it was to begin with.
        """
        try:
            answers = self._sandbox.receive()
        except ChildDied as death:
            if self.claim is None or self._job is not None:
                raise
            return [self.end(self._obituary(death))]
        if self._job is not None and self._sandbox.ready:
            job, self._job = self._job, None
            self._set_clock()
            gone = self._send(job)
            return [] if gone is None else [gone]
        return self._settled(answers) if answers else []

    def end(self, result: Result) -> FinishedJob:
        """The document at hand with its result; what lies behind it is the next."""
        settled = FinishedJob(self.claims.popleft(), result, self.seconds())
        self._set_clock()
        return settled

    def withdraw(self) -> list[Claim]:
        """Take back what lies ready; the child will find nothing there."""
        self._sandbox.withdraw()
        first, *behind = self.claims
        self.claims = deque([first])
        self._withdrawn += len(behind)
        return behind

    @property
    def is_spent(self) -> bool:
        """Whether its child is dead, has read enough, or has read a suspect."""
        is_old = self._sandbox.jobs_done >= RECYCLE_AFTER
        return not self._sandbox.ready or is_old or self._had_suspect

    def emptied(self) -> list[Claim]:
        """End the child at once, whatever it does; what it had and has not ended."""
        self._sandbox.kill()
        self._sandbox.close(leave_desk=True)  # on a full disk there may be no room for a new one
        left = list(self.claims)
        self.claims.clear()
        self._job, self._withdrawn, self._had_suspect = None, 0, False
        self._set_clock()
        return left

    def fill(self, limits: Limits) -> None:
        """Put in a new child."""
        self.limits = limits
        self._sandbox = self._started()

    def close(self) -> None:
        """End the child at once."""
        self._sandbox.kill()
        self._sandbox.close()

    def overlong(self) -> Failed | Broken:
        """The result of a document whose time is over."""
        return failure("time-limit", f"Reading it took longer than {self.limits.seconds:g} s.")

    def _settled(self, answers: Sequence[JobAnswer]) -> list[FinishedJob]:
        """How long they took together is known; which of them how long, the child has to say."""
        together, seconds = sum(answer.took for answer in answers), self.seconds()
        settled = []
        for answer in answers:
            if not self.claims:
                self._withdrawn -= 1
                continue
            share = answer.took / together if together else 1 / len(answers)
            result = parse_answer(answer.raw, answer.parts)
            settled.append(FinishedJob(self.claims.popleft(), result, share * seconds))
        self._set_clock()
        return settled

    @property
    def _has_jobs(self) -> bool:
        return bool(self.claims or self._withdrawn)

    def _obituary(self, death: ChildDied) -> Failed | Broken:
        if death.code == "time-limit":
            return self.overlong()
        return failure(death.code, f"The process that read it ended ({death.how}).")

    def _set_clock(self) -> None:
        self._began = time.monotonic()
        self.deadline = self._began + self.limits.seconds if self._has_jobs else float("inf")

    def _send(self, job: Job) -> FinishedJob | None:
        try:
            self._sandbox.send(job)
        except (FileNotFoundError, PermissionError):
            return FinishedJob(self.claims.pop(), Failed("corrupt", GONE), 0.0)
        return None

    def _started(self) -> Sandbox:
        try:
            sandbox = Sandbox(self.limits, self._job_dir, self._forkserver)
            sandbox.start()
        except OSError as error:
            raise FairleadError(
                f"a worker process could not be started ({error.strerror or error}); "
                "ask for fewer --workers, or let this user have more processes and open files"
            ) from error
        return sandbox
