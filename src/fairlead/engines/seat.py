"""A seat: the place of one worker, with the child process in it and the document it reads."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

from fairlead.core.documents import Broken, Claim, Failed
from fairlead.errors import FairleadError
from fairlead.work.finisher import Result
from fairlead.work.limits import Limits
from fairlead.work.liveness import worker_name
from fairlead.work.nursery import Nursery
from fairlead.work.results import failure, parse_answer
from fairlead.work.sandbox import ChildDied, Job, Sandbox

GONE = "The stored bytes of the document are missing or cannot be read."
RECYCLE_AFTER = 100
"""Documents after which a child is replaced, so that what one leaves behind meets few others."""

_numbers = count(1)
"""Seats of this process, over all its engines: what a name holds is its own seat's."""


class Seat:
    """One worker. It is free, or it reads the document of its claim until a deadline.

    An attempt after the first is a suspect's: it is read alone, in a child that has read nothing
    before it and reads nothing after it.
    """

    def __init__(self, limits: Limits, desks: Path, nursery: Nursery) -> None:
        self.name = worker_name(next(_numbers))
        self.claim: Claim | None = None
        self.deadline = float("inf")
        self.limits = limits
        self._desk = desks / self.name
        self._nursery = nursery
        self._job: Job | None = None
        self._began = 0.0
        self._sandbox = self._started()

    @property
    def is_free(self) -> bool:
        """Ready for a document."""
        return self.claim is None and self._sandbox.ready

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
        return claim.attempts == 1 or self._sandbox.jobs_done == 0

    def start(self, claim: Claim, job: Job) -> Failed | None:
        """Begin with a document, as soon as the child is ready; a result where it is gone.

        Raises:
            ChildDied: there is nobody to do it.
        """
        self.claim = claim  # first: whatever interrupts this, the claim is at hand to give back
        self._job = job
        self._set_clock()
        return self._send() if self._sandbox.ready else None

    def seconds(self) -> float:
        """How long the document at hand has been worked on."""
        return time.monotonic() - self._began

    def receive(self) -> Result | None:
        """The result of the document at hand, when there is one. A dead child is one too.

        Raises:
            ChildDied: the child died, and no document was in its hands.
        """
        try:
            answer = self._sandbox.receive()
        except ChildDied as death:
            if self.claim is None or self._job is not None:
                raise
            return self._obituary(death)
        if self._job is not None and self._sandbox.ready:
            return self._send()
        return None if answer is None else parse_answer(answer.raw, answer.parts)

    @property
    def is_spent(self) -> bool:
        """Whether its child is dead, has read enough, or has read a suspect."""
        had_suspect = self.claim is not None and self.claim.attempts > 1
        is_old = self._sandbox.jobs_done >= RECYCLE_AFTER
        return not self._sandbox.ready or is_old or had_suspect

    def rest(self) -> None:
        """Let go of the document."""
        self.claim = self._job = None
        self.deadline = float("inf")

    def replace(self, limits: Limits) -> None:
        """End the child at once, whatever it does, and put in a new one."""
        self.close()
        self.rest()
        self.limits = limits
        self._sandbox = self._started()

    def close(self) -> None:
        """End the child at once."""
        self._sandbox.kill()
        self._sandbox.close()

    def overlong(self) -> Failed | Broken:
        """The result of a document whose time is over."""
        return failure("time-limit", f"Reading it took longer than {self.limits.seconds:g} s.")

    def _obituary(self, death: ChildDied) -> Failed | Broken:
        if death.code == "time-limit":
            return self.overlong()
        return failure(death.code, f"The process that read it ended ({death.how}).")

    def _set_clock(self) -> None:
        self._began = time.monotonic()
        self.deadline = self._began + self.limits.seconds

    def _send(self) -> Failed | None:
        job, self._job = self._job, None
        assert job is not None  # noqa: S101 (both callers have one)
        self._set_clock()
        try:
            self._sandbox.send(job)
        except (FileNotFoundError, PermissionError):
            return Failed("corrupt", GONE)
        return None

    def _started(self) -> Sandbox:
        try:
            sandbox = Sandbox(self.limits, self._desk, self._nursery)
            sandbox.start()
        except OSError as error:
            raise FairleadError(
                f"a worker process could not be started ({error.strerror or error}); "
                "ask for fewer --workers, or let this user have more processes and open files"
            ) from error
        return sandbox
