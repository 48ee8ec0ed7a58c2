"""A seat: the place of one worker, with the child process in it and the document it reads."""

from __future__ import annotations

import time
from itertools import count

from fairlead.core.documents import Broken, Claim, Failed
from fairlead.errors import FairleadError
from fairlead.work.liveness import worker_name
from fairlead.work.results import Extraction, failure, parse_answer
from fairlead.work.sandbox import ChildDied, Job, Limits, Sandbox

RECYCLE_AFTER = 200
"""Documents after which a child is replaced, so that what a library leaks stays small."""


_numbers = count(1)
"""Seats of this process, over all its engines: what a name holds is its own seat's."""


class Seat:
    """One worker. It is free, or it reads the document of its claim until a deadline."""

    def __init__(self, limits: Limits) -> None:
        self.name = worker_name(next(_numbers))
        self.claim: Claim | None = None
        self.deadline = float("inf")
        self.limits = limits
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

    def fileno(self) -> int:
        """Readable when `receive` has something to do."""
        return self._sandbox.fileno()

    def start(self, claim: Claim, job: Job) -> None:
        """Begin with a document; raises ChildDied when there is nobody to do it."""
        self.claim = claim  # first: whatever interrupts this, the claim is at hand to give back
        self._began = time.monotonic()
        self.deadline = self._began + self.limits.seconds
        self._sandbox.send(job)

    def seconds(self) -> float:
        """How long the document at hand has been worked on."""
        return time.monotonic() - self._began

    def receive(self) -> Extraction | Failed | Broken | None:
        """The result of the document at hand, when there is one. A dead child is one too."""
        try:
            answer = self._sandbox.receive()
        except ChildDied as death:
            if self.claim is None:
                raise
            return failure(death.code, f"The process that read it ended ({death.how}).")
        return None if answer is None else parse_answer(answer.raw)

    @property
    def is_spent(self) -> bool:
        """Whether its child is dead, or has read enough."""
        return not self._sandbox.ready or self._sandbox.jobs_done >= RECYCLE_AFTER

    def rest(self) -> None:
        """Let go of the document."""
        self.claim = None
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

    def _started(self) -> Sandbox:
        sandbox = Sandbox(self.limits)
        try:
            sandbox.start()
        except OSError as error:
            raise FairleadError(
                f"a worker process could not be started ({error.strerror or error}); "
                "ask for fewer --workers, or let this user have more processes and open files"
            ) from error
        return sandbox
