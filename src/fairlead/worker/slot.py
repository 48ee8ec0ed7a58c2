"""A worker slot: one worker process, and the documents that it has."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from fairlead.errors import TemporarilyUnavailable
from fairlead.model.blobs import ABSENT
from fairlead.model.documents import Broken, Claim, Failed
from fairlead.worker.liveness import worker_name
from fairlead.worker.result_saver import FinishedJob, Result
from fairlead.worker.sandbox.answer import died, missing_bytes, over_time, parse_answer
from fairlead.worker.sandbox.child_pool import ChildPool, worker_numbers
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import MOST_JOBS, ChildDied, JobAnswer, ReadJob, Sandbox

RECYCLE_AFTER = 100
"""Documents after which a child is replaced, so that leaks of one document meet few others."""


def next_worker_name() -> str:
    return worker_name(next(worker_numbers))


class WorkerSlot:
    """The place of one worker: free, or reading the document of its first claim until a deadline.

    More documents may lie ready behind that one; the rule is in `prefetch`. A child reads documents
    of one customer only: a free slot changes its child for a document of another customer.
    """

    def __init__(self, limits: SandboxLimits, children: ChildPool) -> None:
        self.name = next_worker_name()
        self.claims: deque[Claim] = deque()
        self.deadline = float("inf")
        self.sandbox: Sandbox
        self.is_leaving = False  # whether it gets no more documents
        self._children = children
        self._withdrawn = 0  # jobs of the child whose claims were withdrawn
        self._unsent: ReadJob | None = None  # for a child that is not ready yet
        self._customer = ""  # whose documents the child reads
        self._had_suspect = False
        self._began = 0.0
        self._unheard = 0.0  # of the time since, in which the engine listened to nobody
        self.fill(limits)

    @property
    def claim(self) -> Claim | None:
        return self.claims[0] if self.claims else None

    @property
    def behind(self) -> int:
        """How many documents lie ready behind the one that is being read."""
        return max(0, len(self.claims) - 1)

    @property
    def is_free(self) -> bool:
        return self.sandbox.ready and not self._has_jobs and not self.is_leaving

    @property
    def is_spent(self) -> bool:
        """Whether its child must be replaced: dead, used up, or has read a suspect."""
        is_old = self.sandbox.jobs_done >= RECYCLE_AFTER or self.sandbox.is_worn
        return not self.sandbox.ready or is_old or self._had_suspect

    def fileno(self) -> int:
        return self.sandbox.fileno()

    def is_fit_for(self, claim: Claim) -> bool:
        """Whether its child may read this document; otherwise the child must be changed first."""
        return self._is_new or (claim.customer == self._customer and not claim.suspect)

    def preference(self, claim: Claim) -> int:
        """Lower is better: the child of this customer, then a new child, then one to be changed."""
        return 2 if not self.is_fit_for(claim) else int(self._is_new)

    def change_child(self, claim: Claim) -> None:
        """Set the child of a free slot aside, and take one that may read this document.

        Raises TemporarilyUnavailable if none can be started; then the slot keeps its child.
        """
        sandbox = self._take(None if claim.suspect else claim.customer)
        self._children.keep(self.sandbox, self._customer)
        self.sandbox = sandbox

    def has_room_for(self, claim: Claim, depth: int) -> bool:
        """Whether the claim may lie ready here, at most `depth` documents deep."""
        last = self.claims[-1] if self.claims else None
        return (
            last is not None
            and self.sandbox.ready
            and not self._withdrawn
            and not self.is_leaving
            and self.behind < min(depth, MOST_JOBS - 1)
            and self.sandbox.jobs_sent < RECYCLE_AFTER
            and claim.customer == last.customer
            and not (claim.suspect or last.suspect)
            and claim.password is None  # a long one may not fit into the pipe
        )

    def start(self, claim: Claim, job: ReadJob) -> FinishedJob | None:
        """Send a document to the child once that is ready; return a result if its bytes are gone.

        Raises ChildDied. Raises TemporarilyUnavailable if there is no room; then the slot has not
        taken the claim.
        """
        self.claims.append(claim)  # first, so that the claim of an interrupted start is released
        self._customer = claim.customer
        self._had_suspect |= claim.suspect
        if not self.behind:
            self._set_deadline()
        if not self.sandbox.ready:
            self._unsent = job
            return None
        try:
            return self.send(job)
        except TemporarilyUnavailable:
            self.claims.pop()
            if not self._has_jobs:
                self._set_deadline()
            raise

    def seconds(self) -> float:
        """For how long it has been reading, without the time in which the engine did not listen."""
        return time.monotonic() - self._began - self._unheard

    def note_unheard(self, seconds: float) -> None:
        """The engine waited for the store, so an answer may have come so much earlier."""
        self._unheard += seconds

    def receive(self) -> list[FinishedJob]:
        """Documents that have ended, with their results. The death of a child is a result too.

        Raises ChildDied if the child had no document, and TemporarilyUnavailable as `start` does.
        """
        try:
            answers = self.sandbox.receive()
        except ChildDied as death:
            if self.claim is None or self._unsent is not None:
                raise
            return [self.end(died(death, self.limits))]
        if self._unsent is not None and self.sandbox.ready:
            job, self._unsent = self._unsent, None
            self._set_deadline()
            missing = self.send(job)
            return [] if missing is None else [missing]
        return self._finished(answers) if answers else []

    def end(self, result: Result) -> FinishedJob:
        """End the document that is being read; the child continues with the next one."""
        finished = FinishedJob(self.claims.popleft(), result, self.seconds())
        self._set_deadline()
        return finished

    def withdraw(self) -> list[Claim]:
        """Take back the ready documents; the child will find them missing."""
        self.sandbox.withdraw()
        first, *behind = self.claims
        self.claims = deque([first])
        self._withdrawn += len(behind)
        return behind

    def empty(self) -> list[Claim]:
        """End the child at once; return its unfinished claims."""
        self._children.end(self.sandbox)
        claims = list(self.claims)
        self.claims.clear()
        self._unsent, self._withdrawn, self._had_suspect = None, 0, False
        self._set_deadline()
        return claims

    def fill(self, limits: SandboxLimits) -> None:
        """Start a child with these limits."""
        self.limits = limits
        self.sandbox = self._take()

    def close(self) -> None:
        self._children.end(self.sandbox)

    def over_time(self) -> Failed | Broken:
        return over_time(self.limits)

    def _finished(self, answers: Sequence[JobAnswer]) -> list[FinishedJob]:
        """The engine measures how long all answers took together, the child how long each took.

        So a lying child can only shift costs among documents of one customer. For the time in which
        the engine did not listen, the child is believed.
        """
        seconds_of_child, seconds = sum(answer.took for answer in answers), self.seconds()
        seconds += min(self._unheard, max(0.0, seconds_of_child - seconds))
        finished = []
        for answer in answers:
            if not self.claims:
                self._withdrawn -= 1
                continue
            share = answer.took / seconds_of_child if seconds_of_child else 1 / len(answers)
            result = parse_answer(answer.raw, answer.parts, answer.files)
            finished.append(FinishedJob(self.claims.popleft(), result, share * seconds))
        self._set_deadline()
        return finished

    def _take(self, customer: str | None = None) -> Sandbox:
        try:
            return self._children.take(self.limits, customer)
        except OSError as error:
            raise TemporarilyUnavailable(
                f"a worker process could not be started ({error.strerror or error}); "
                "use fewer --workers, or raise this user's limits of processes and open files"
            ) from error

    @property
    def _is_new(self) -> bool:
        return self.sandbox.jobs_sent == 0

    @property
    def _has_jobs(self) -> bool:
        return bool(self.claims or self._withdrawn)

    def _set_deadline(self) -> None:
        self._began, self._unheard = time.monotonic(), 0.0
        self.deadline = self._began + self.limits.seconds if self._has_jobs else float("inf")

    def send(self, job: ReadJob) -> FinishedJob | None:
        try:
            self.sandbox.send(job)
        except OSError as error:
            if error.errno not in ABSENT:
                raise TemporarilyUnavailable(
                    f"a document cannot be given to a worker process ({error}); repair that"
                ) from error
            return FinishedJob(self.claims.pop(), missing_bytes(), 0.0)
        return None
