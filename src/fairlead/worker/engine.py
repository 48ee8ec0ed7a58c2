"""The engine: claims documents for the worker processes of this machine and saves their results.

It claims a document for each free worker and, where documents are short, prefetches some (the rule
is in `prefetch`). It sleeps until a worker answers, a deadline passes, or a transaction commits.
Temporary failures are retried with backoff: they neither end the engine nor use up attempts.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fairlead.backoff import Attempts, Outage
from fairlead.errors import FairleadError, TemporarilyUnavailable
from fairlead.model.blobs import BlobStore
from fairlead.model.documents import Broken, Claim, Failed, Progress
from fairlead.model.engines import StepUse
from fairlead.model.pipelines import READ, Pipeline
from fairlead.policy.retry import RetryRule
from fairlead.service import WakePipe
from fairlead.steps.pool import StepPool
from fairlead.worker.claim_plan import ClaimPlan
from fairlead.worker.liveness import requeue_from_dead_workers
from fairlead.worker.prefetch import STUCK_SECONDS, Prefetch
from fairlead.worker.result_saver import FinishedJob
from fairlead.worker.result_writer import ResultWriter
from fairlead.worker.sandbox.answer import Extraction
from fairlead.worker.sandbox.job_dir import remove_old_job_dirs
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import ChildDied, ReadJob
from fairlead.worker.slot import WorkerSlot, next_worker_name
from fairlead.worker.step_runner import StepRunner
from fairlead.worker.worker_pool import WorkerPool

if TYPE_CHECKING:
    from fairlead.storage import Store

LEASE_CHECK_SECONDS = 0.25
"""How often the engine checks for cancelled documents and for leases that need a heartbeat."""
CHECK_SECONDS = 1.0
"""How often the engine checks for due retries, ended leases, dead workers and the worker count."""
FAR_CHECK_SECONDS = 30.0
PROGRESS_SECONDS = 1.0
LONGEST_OUTAGE = 30.0  # seconds after which `run(until_idle=True)` raises the error of an outage


class Stop(IntEnum):
    """How far the engine was asked to stop."""

    NO = 0
    DRAIN = 1
    NOW = 2


class StepSettings(NamedTuple):
    """The pipelines that an engine serves, and the factory of the pools of their steps.

    `use_quotas` stores their quotas, after a change.
    """

    pipelines: Callable[[], Sequence[Pipeline]]
    use_quotas: Callable[[], None]
    make_pool: Callable[..., StepPool]
    retry: Callable[[], RetryRule]


class LocalEngine:
    """Processes documents in worker processes until it is stopped or idle. Runs once."""

    def __init__(
        self,
        store: Store,
        files: BlobStore,
        texts: BlobStore,
        *,
        workers: Callable[[], int],
        limits: Callable[[], SandboxLimits],
        lease: Callable[[], float],
        job_dirs: Path,
        steps: StepSettings,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._files = files
        self._texts = texts
        self._lease = lease
        self._job_dirs = job_dirs
        self._on_tick = on_tick
        self._wake_pipe = WakePipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_pipe, selectors.EVENT_READ)
        self._has_news = False  # whether anything was committed since the last look for work
        self._has_idle = False  # whether a worker waits for work
        self._use_quotas = steps.use_quotas
        self._changes = store.changes.subscribe(self._note_commit)
        self._outage = Outage()
        self._attempts = Attempts(self._outage)
        self._results = ResultWriter(store, files, texts, self._wake_pipe.wake, self._outage)
        self.runner = StepRunner(
            steps.pipelines,
            steps.make_pool,
            workers,
            self._results,
            files,
            texts,
            steps.retry,
            job_dirs / next_worker_name(),
        )
        self._selector.register(self.runner, selectors.EVENT_READ)
        self._is_readers_turn = True  # whether a free place goes to a document to read
        self._reported_use: list[StepUse] = []
        self._lease_check_seconds = LEASE_CHECK_SECONDS
        self._may_claim = False  # whether there was room for more documents
        self._opens_at = inf  # when a quota permits the next start
        self._reported: dict[Claim, tuple[int, int]] = {}
        self.prefetch = Prefetch()
        self.workers = WorkerPool(workers, limits, job_dirs, self._selector, self.prefetch)
        self._plan = ClaimPlan(self.workers, self.prefetch, self.runner)
        self.stopping = Stop.NO
        self._done_at = {"progress": time.monotonic()}
        self._listened_at = inf

    def run(self, *, until_idle: bool = False) -> None:
        """Work until stopped or, with `until_idle`, until no document is left that could run.

        The engine waits out an outage of any length; with `until_idle`, half a minute.
        """
        if until_idle:
            self._outage.longest = LONGEST_OUTAGE
        try:
            self._begin()
            while not self._is_over(until_idle=until_idle):
                self._turn(claims=self.stopping is Stop.NO)
        finally:
            self.close()
        self._raise_if_unsaved()

    def work(self, seconds: float) -> None:
        """Process the documents that can run now, and start none after so many seconds.

        The workers stay warm for the next call; `close` ends them.
        """
        if not self.workers.slots:
            self._begin()
        with self._attempts:
            self.runner.poll()  # what happened since the last call
        until = time.monotonic() + seconds
        self._plan.dry_queues.clear()
        self._listened_at = inf  # between two calls nothing was running
        while (
            self._claims()
            or self.runner.is_busy
            or self._results.unsaved()
            or not (self._plan.dry_queues or time.monotonic() >= until)
        ):
            self._turn(claims=time.monotonic() < until)
        self._raise_if_unsaved()

    def stop(self) -> None:
        """First call: finish what runs and claim no more. Second: stop now.

        May be called from any thread and from signal handlers.
        """
        self.stopping = Stop(min(self.stopping + 1, Stop.NOW))
        self._wake_pipe.wake()

    @property
    def is_held_up(self) -> bool:
        """Whether an outage prevents starting documents or saving results."""
        return self._outage.is_on

    def worker_pids(self) -> list[int]:
        return [slot.sandbox.pid for slot in self.workers.slots]

    def close(self) -> None:
        """End the children, save their results, and release all other claims.

        The store looks up which those are: a claim may have been interrupted on its way here.
        """
        self._changes.close()
        self.workers.close()
        self._results.close()
        self.runner.close()
        with suppress(FairleadError):  # else the leases end by themselves
            self._store.release_from(self.workers.names)
            for name in self.workers.names[:1]:
                self._store.leave(name)
        self._selector.close()
        self._wake_pipe.close()

    def _begin(self) -> None:
        """Start the first worker, with backoff; the others follow."""
        remove_old_job_dirs(self._job_dirs)
        while not self.workers.slots and self.stopping is Stop.NO:
            with self._attempts:
                self.workers.match_count()
            if not self.workers.slots:
                self._wake_pipe.wait(self._attempts.pause)
                self._wake_pipe.clear()

    def _is_over(self, *, until_idle: bool) -> bool:
        if self.stopping is Stop.NOW:
            return True
        if any(slot.claim for slot in self.workers.slots) or self.runner.is_busy:
            return False
        if self.prefetch.claims and not self._outage.is_on:  # else `close` releases them
            return False
        if self.stopping is Stop.DRAIN:
            return True
        if until_idle and not self._results.unsaved() and self.runner.has_checked_imports():
            with self._attempts:
                self._on_tick()  # it may submit more, now that all is saved
                return self._store.is_idle(list(self.runner.queues))
        return False

    def _turn(self, *, claims: bool) -> None:
        """One turn of the loop. It claims first, so that no wake-up waits for anything else."""
        self._has_news = False
        with self._attempts:
            self._use_store(claims=claims)
        self._has_idle = self._plan.has_idle
        self._results.set_urgent(is_urgent=self._has_idle or not claims)
        with self._attempts:
            if not self._attempts.is_failing:  # else leases and claims come first
                self._report_progress()
            self._on_tick()
        if self.stopping is Stop.NO and (seconds := self._gather_seconds()):
            self._wake_pipe.wait(seconds)  # receiving answers one by one interrupts the workers
        self.workers.extend_deadlines(time.monotonic() - self._listened_at)
        for key, _ in self._selector.select(self._sleep_seconds()):
            if isinstance(key.fileobj, WorkerSlot):
                with self._attempts:
                    self._receive(key.fileobj)
            elif key.fileobj is self._wake_pipe:
                self._wake_pipe.clear()
        self._listened_at = time.monotonic()
        self._raise_if_unsaved()
        with self._attempts:
            self._end_over_time()
            self.runner.poll()

    def _gather_seconds(self) -> float:
        """How long answers may gather while every worker has documents ready."""
        if self._plan.free_places():
            return 0.0
        reading = [slot for slot in self.workers.slots if slot.claim]
        by_sort = [self.prefetch.gather_seconds(reading)] if reading else []
        return min([*by_sort, *self.runner.gather_seconds()], default=0.0)

    def _note_commit(self) -> None:
        """Wake the engine if a worker is idle. Any thread may call this."""
        self._has_news = True
        if self._has_idle:
            self._wake_pipe.wake()

    def _report_progress(self) -> None:
        """Report pages read, at most once a second; a short document is never reported."""
        if not self._is_due("progress", PROGRESS_SECONDS):
            return
        slots = [(slot.claim, slot.sandbox.progress) for slot in self.workers.slots]
        pages = {claim: progress for claim, progress in slots if claim and progress}
        pages |= self.runner.progress()
        changed = [Progress(claim, *done) for claim, done in pages.items() - self._reported.items()]
        self._reported = pages
        if changed:
            self._store.progress(changed)

    def _use_store(self, *, claims: bool) -> None:
        self._may_claim = False
        if self._attempts.is_waiting():
            return
        self._keep_leases()  # before a claim, which requeues documents whose lease has ended
        if claims:
            if not self.workers.slots or self._is_due("count", CHECK_SECONDS):
                self.workers.match_count_if_possible()
                if self.runner.follow_settings():
                    self._use_quotas()
            self._claim()
        else:
            self._release_prefetched(inf)
            self._start_claimed()
        if not self.workers.are_failing:  # else that outage goes on
            self._attempts.succeeded()

    def _sleep_seconds(self) -> float:
        if self._has_news and self._has_idle:
            return 0.0
        is_busy = any(slot.claim for slot in self.workers.slots) or self.runner.is_busy
        is_free = bool(self._plan.open_queues)
        longest = min(
            LEASE_CHECK_SECONDS if is_busy else CHECK_SECONDS,
            self._changes.poll_seconds if is_free else CHECK_SECONDS,
        )
        deadlines = [slot.deadline for slot in self.workers.slots]
        opens_at = self._opens_at if self._may_claim else inf  # else it may be over long since
        soonest = min(*deadlines, self.runner.deadline(), opens_at, inf)
        return max(0.0, min(longest, soonest - time.monotonic()))

    def _is_due(self, duty: str, seconds: float) -> bool:
        """True at most once in so many seconds for each duty."""
        now = time.monotonic()
        is_due = now >= self._done_at.get(duty, -inf) + seconds
        if is_due:
            self._done_at[duty] = now
        return is_due

    def _raise_if_unsaved(self) -> None:
        if self._results.error is not None:
            raise self._results.error

    # --- claims ---

    def _claim(self) -> None:
        """Fill free places with prefetched claims, and claim more from the store."""
        if self._results.is_behind():
            return
        self.prefetch.withdraw_stuck(self.workers.slots)
        self._start_claimed()
        busy = self._busy_seconds()
        self._release_prefetched(busy)
        request = self._plan.request(busy)
        self._may_claim = request is not None
        if request is not None and self._may_find_work():
            self.workers.apply_new_limits()
            self._check_blobs()
            claims, opens_in = self._store.claim_requests([request])
            self._opens_at = time.monotonic() + opens_in
            self._plan.note(request, claims)
            self.prefetch.add([claim for claim in claims if not self.runner.begin(claim)])
            self._start_claimed()

    def _being_read(self) -> list[Claim]:
        return [claim for slot in self.workers.slots for claim in slot.claims]

    def _busy_seconds(self) -> float:
        """For how many seconds every worker has been processing its document."""
        if self._plan.free_places():
            return 0.0
        now = time.monotonic()
        reading = [slot.seconds() for slot in self.workers.slots if slot.claim]
        in_steps = [now - began for began in self.runner.places_since()]
        return min(reading + in_steps, default=0.0)

    def _check_blobs(self) -> None:
        """Claim nothing while blobs are unavailable; object storage is checked less often."""
        seconds = FAR_CHECK_SECONDS if self._files.is_far else CHECK_SECONDS
        if self._attempts.is_failing or self._is_due("blobs", seconds):
            self._files.check()
            self._texts.check()

    def _may_find_work(self) -> bool:
        """After a claim that got too few: only after a commit, or when time has passed."""
        if self._is_due("check", CHECK_SECONDS):
            requeue_from_dead_workers(self._store)
            return True
        if time.monotonic() >= self._opens_at:
            return True
        if self._changes.changed():
            self._plan.dry_queues.clear()
        return self._plan.may_find_work()

    def _start_claimed(self) -> None:
        """Start claimed documents; if some to read and others wait for places, in turns."""
        places = self._plan.free_places()
        share = places
        is_shared = bool(self.prefetch.claims) and self.runner.waits_for_place
        if is_shared:
            share = places // 2 + (places % 2 and self._is_readers_turn)
            self._is_readers_turn ^= bool(places % 2)
        self._start_prefetched(share, behind=not is_shared)
        others = places - share if is_shared else self._plan.free_places()
        self.runner.start_waiting(others, behind=not is_shared)

    def _start_prefetched(self, places: int, *, behind: bool) -> None:
        """Assign claims to so many free slots; with `behind`, also behind short documents."""
        free = [slot for slot in self.workers.slots if slot.is_free][:places]
        others = [slot for slot in self.workers.slots if behind and not slot.is_free]
        for slot, claim in self.prefetch.assignments([*free, *others]):
            self._start(slot, claim)

    def _start(self, slot: WorkerSlot, claim: Claim) -> None:
        try:
            if not slot.is_fit_for(claim):
                self.workers.change_child(slot, claim)
            source = self._files.path(claim.id) if claim.content is None else claim.content
            outputs = self.runner.outputs(claim)
            gone = slot.start(claim, ReadJob(source, claim.sha256, claim.password, outputs))
        except TemporarilyUnavailable:  # the blob cannot be fetched, or the disk is full
            self.prefetch.take_back([claim])
            raise
        except ChildDied:
            self.workers.replace_child(slot)  # which takes the claim back
            return
        if gone is not None:
            self._finish(slot, [gone])

    def _release_prefetched(self, busy: float) -> None:
        """Give back claims that nothing has begun to process, and that would wait for long.

        `busy` is for how many seconds no place has been free.
        """
        to_read = list(self.prefetch.claims) if busy > STUCK_SECONDS else []
        for_steps = self.runner.unstarted(busy)
        if to_read or for_steps:
            self._store.release([*to_read, *for_steps])
            self.prefetch.drop(to_read)
            self.runner.forget(for_steps)

    # --- workers ---

    def _receive(self, slot: WorkerSlot) -> None:
        was_ready = slot.sandbox.ready
        try:
            finished = slot.receive()
        except ChildDied as death:
            if was_ready:
                self.workers.replace_child(slot)
            else:
                self.workers.replace_at_start(slot, death)
            return
        except TemporarilyUnavailable:  # the disk has no room for its first document
            self.workers.replace_child(slot)
            raise
        self.workers.deaths_at_start = 0
        self._finish(slot, finished)

    def _finish(self, slot: WorkerSlot, finished: Sequence[FinishedJob]) -> None:
        """Pass results on, and replace a child that must not read another document."""
        outage = self._blob_outage(finished)
        for job in finished:
            if outage is not None and _is_missing(job):
                self.prefetch.take_back([job.claim])
            elif isinstance(job.result, Extraction) and self._has_more(job.claim, job.result):
                self.prefetch.learn(job.seconds)
                self.runner.go_on_after_reading(job.claim, job.result, job.seconds)
            else:
                self.prefetch.learn(job.seconds)
                self._results.add(job)
        has_broken = any(isinstance(job.result, Broken) for job in finished)
        if finished and (slot.is_spent or has_broken):
            self.workers.replace_child(slot)
        if outage is not None:
            raise outage

    def _has_more(self, claim: Claim, extraction: Extraction) -> bool:
        """Whether the result has files besides texts and attachments, or other steps follow."""
        return bool(extraction.files) or self.runner.has_more_steps(claim)

    def _blob_outage(self, finished: Sequence[FinishedJob]) -> TemporarilyUnavailable | None:
        """The outage that explains missing blobs; None: only these blobs are missing."""
        if any(_is_missing(job) for job in finished):
            try:
                self._files.check()
            except TemporarilyUnavailable as error:
                return error
        return None

    def _end_over_time(self) -> None:
        now = time.monotonic()
        for slot in self.workers.slots[:]:
            if slot.deadline <= now:
                if slot.claim is not None:
                    self._finish(slot, [slot.end(slot.over_time())])
                else:  # its last document was withdrawn
                    self.workers.replace_child(slot)

    # --- leases ---

    def _keep_leases(self) -> None:
        """Send heartbeats for all claims, and drop claims that were cancelled or requeued."""
        was_away = self._attempts.is_failing  # leases may be about to end
        if not (self._is_due("leases", self._lease_check_seconds) or was_away):
            return
        began, use = time.monotonic(), self._step_use()
        is_news = use != self._reported_use and self._is_due("use", 8 * self._lease_check_seconds)
        is_heartbeat = self._is_due("heartbeat", self._lease() / 3) or was_away
        if is_news or is_heartbeat:
            slots, queues = self.workers.slots, self.runner.served_queues()
            self._store.attend(self.workers.names[0], len(slots), queues, use)
            self._reported_use = use
        if is_heartbeat:
            claims = [*self._claims(), *self._results.unsaved()]
            self._drop(self._store.renew(claims) if claims else [])
        elif claims := self._claims():
            self._drop(self._store.lost(claims))
        spent = 10 * (time.monotonic() - began)  # a distant store is asked less often
        self._lease_check_seconds = min(max(LEASE_CHECK_SECONDS, spent), self._lease() / 10)

    def _step_use(self) -> list[StepUse]:
        slots = self.workers.slots
        reading = sum(slot.claim is not None for slot in slots)
        return [StepUse(READ, len(slots), reading), *self.runner.use()]

    def _claims(self) -> list[Claim]:
        return [*self._being_read(), *self.prefetch.claims, *self.runner.claims()]

    def _drop(self, lost: Sequence[Claim]) -> None:
        if lost:
            self.prefetch.drop(lost)
            self.runner.drop(lost)
        for slot in self.workers.slots[:]:
            if slot.claim in lost:
                self.workers.replace_child(slot, unwanted=lost)


def _is_missing(job: FinishedJob) -> bool:
    is_corrupt = isinstance(job.result, Failed | Broken) and job.result.code == "corrupt"
    return is_corrupt and job.claim.content is None
