"""Runs the functions of pipelines on documents that the engine has claimed.

Each step has a pool of processes. The engine claims no more documents than the pools of all their
steps have room for, but for a moment of work ahead of short steps. So the order is decided at the
claim, and no document holds a claim while it waits long for room.

A *place* is where one document is processed: there are as many as workers. A document takes one
while it is read and while it is in a step with `concurrency` 1. Steps with more are bounded by
their own capacity: their documents wait for something else than a processor.
"""

from __future__ import annotations

import hashlib
import logging
import re
import selectors
import shutil
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from fairlead.errors import (
    DamagedData,
    InvalidResult,
    InvalidSetting,
    TemporarilyUnavailable,
)
from fairlead.model.blobs import ABSENT, BlobStore
from fairlead.model.documents import Broken, Claim, Failed
from fairlead.model.engines import StepUse
from fairlead.model.pipelines import READ, ClaimLimit, Pipeline, pipeline_of
from fairlead.model.results import Interim
from fairlead.policy.retry import RetryRule
from fairlead.steps.outcomes import Invalid, Outcome, Returned, StepEnd, StepJob, StepOptions
from fairlead.steps.pool import StepPool
from fairlead.steps.process import STUCK_SECONDS
from fairlead.worker.pipeline_run import PipelineRun, resumed_run
from fairlead.worker.result_saver import Delay, FinishedJob, Move, Stage
from fairlead.worker.result_writer import ResultWriter
from fairlead.worker.sandbox.answer import Extraction, missing_bytes
from fairlead.worker.step_ends import end_of_step, unknown_pipelines

_log = logging.getLogger(__name__)
_CHUNK = 1 << 20
_SECONDS = re.compile(r" for \d+ s$")


class QueueSets(NamedTuple):
    """The queues that can be served; those that begin with reading; those that take a place."""

    served: tuple[str, ...] = ()
    to_read: frozenset[str] = frozenset()
    in_places: frozenset[str] = frozenset()


class StepRunner:
    """The documents in steps, and the pools of these steps. Only the engine's thread calls it.

    `folder` gets the files of jobs: it is made for the first job, and removed at the end.
    """

    def __init__(
        self,
        pipelines: Callable[[], Sequence[Pipeline]],
        make_pool: Callable[..., StepPool],
        workers: Callable[[], int],
        results: ResultWriter,
        files: BlobStore,
        texts: BlobStore,
        retry: Callable[[], RetryRule],
        folder: Path,
    ) -> None:
        self._read_pipelines = pipelines
        self._served: dict[str, Pipeline] = {}
        self._pipelines: dict[str, Pipeline] = {}  # also those that the settings had before
        self.queues: dict[str, Pipeline] = {}
        """The queues that the engine serves; documents of the others are pulled over HTTP."""
        self._results = results
        self._files = files
        self._texts = texts
        self._retry = retry
        self._selector = selectors.EpollSelector()
        self._make_pool = partial(make_pool, selector=self._selector, workers=workers)
        self._pools: dict[str, StepPool] = {}
        self._running: dict[str, PipelineRun] = {}
        self._lost: set[str] = set()  # running documents whose claim was lost
        self._ends: deque[StepEnd] = deque()  # of running documents, not handled yet
        self._waiting: defaultdict[str, deque[PipelineRun]] = defaultdict(deque)
        self._folder = folder
        self._problems: dict[str, str] = {}  # of pipelines, as they were logged
        self._basis_of_sets: tuple[Any, ...] = ()
        self._sets = QueueSets()
        self.follow_settings()

    def follow_settings(self) -> bool:
        """Serve the pipelines of the settings in force; return whether they have changed.

        Documents that are being processed keep the list of steps with which they were claimed.
        """
        pipelines = {pipeline.name: pipeline for pipeline in self._read_pipelines()}
        has_changed = pipelines != self._served
        if has_changed:
            queues = [queue for pipeline in pipelines.values() for queue in pipeline.queues]
            self._served = pipelines
            self._pipelines |= pipelines
            self.queues = {queue.name: queue for queue in queues if queue.pulled is None}
            for step in dict.fromkeys(
                step for queue in self.queues.values() for step in queue.steps
            ):
                if step != READ:
                    self._need_pool(step)
        self._close_unused()
        return has_changed

    def _need_pool(self, step: str) -> None:
        if step not in self._pools:
            self._pools[step] = self._make_pool(step)

    def _close_unused(self) -> None:
        """End the pools of steps that no pipeline has any more, when they have no documents."""
        used = {step for queue in self.queues.values() for step in queue.steps}
        used |= {step for step, runs in self._waiting.items() if runs}
        for run in self._running.values():
            used.update(run.pipeline.steps)
        for step in [step for step in self._pools if step not in used]:
            self._pools.pop(step).close()
            self._waiting.pop(step, None)

    # --- pools ---

    def fileno(self) -> int:
        """A descriptor that is readable when `poll` has something to do."""
        return self._selector.fileno()

    def has_checked_imports(self) -> bool:
        """Whether all steps were imported; raises if one of them could not be."""
        for pool in self._pools.values():
            if pool.problem is not None and pool.options is None:
                raise InvalidSetting(pool.problem)
        return all(pool.options is not None for pool in self._pools.values())

    def deadline(self) -> float:
        return min((pool.deadline() for pool in self._pools.values()), default=inf)

    def close(self) -> None:
        """End the step processes; the store takes their documents back."""
        for pool in self._pools.values():
            pool.close()
        self._selector.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def served_queues(self) -> list[str]:
        """The queues whose steps can run here; one that is being imported may be among them."""
        problems = self._pool_problems()
        return [queue.name for queue in self.queues.values() if not problems.keys() & queue.steps]

    @property
    def has_steps(self) -> bool:
        """Whether it serves a step besides `read`."""
        return bool(self._pools)

    def queue_sets(self) -> QueueSets:
        """The queues that can be served now, made anew only after a change."""
        problems = self._pool_problems()
        alone = [step for step in self._pools if self._is_alone_in_process(step)]
        basis = (self.queues, list(problems), alone)
        if basis != self._basis_of_sets:
            self._basis_of_sets = basis
            served = [self.queues[name] for name in self.served_queues()]
            self._sets = QueueSets(
                tuple(queue.name for queue in served),
                frozenset(queue.name for queue in served if queue.steps[0] == READ),
                frozenset(queue.name for queue in served if self.takes_place(queue)),
            )
        return self._sets

    def use(self) -> list[StepUse]:
        """The capacity of each step here, its documents, and why it cannot run."""
        problems = self._pool_problems()
        return [
            StepUse(step, pool.capacity, pool.busy, problems.get(step))
            for step, pool in self._pools.items()
        ]

    def _pool_problems(self) -> dict[str, str]:
        now = time.monotonic()
        reasons = {step: pool.why_not(now) for step, pool in self._pools.items()}
        return {step: reason for step, reason in reasons.items() if reason is not None}

    def _log_problems(self) -> None:
        """Log when a pipeline cannot run here, and when it can again."""
        by_step = self._pool_problems()
        if not by_step and not self._problems:
            return
        problems = {
            pipeline.name: by_step[step]
            for pipeline in self._served.values()
            for step in reversed(pipeline.steps)
            if step in by_step
        }
        for name, problem in problems.items():
            if not _is_same(problem, self._problems.get(name)):
                _log.warning("fairlead: pipeline %s cannot run here: %s", name, problem)
        for name in self._problems.keys() - problems.keys():
            _log.warning("fairlead: pipeline %s can run here again", name)
        self._problems = problems

    # --- capacity for claims ---

    def limits(self, being_read: Iterable[Claim], places: int, busy: float) -> list[ClaimLimit]:
        """How many documents each step may get, beside those that are on their way to it.

        So many places are free; `busy` is for how many seconds none has been.
        """
        coming: Counter[str] = Counter()
        for claim in being_read:
            queue = self.queues.get(claim.pipeline)
            coming.update(() if queue is None else queue.steps)
        for step, runs in self._waiting.items():
            for run in runs:
                coming.update(self._steps_from(run, step))
        for run in self._running.values():
            coming.update(self._steps_from(run, run.next_step)[1:])
        return [
            self._limit(step, pool, coming[step], places, busy)
            for step, pool in self._pools.items()
        ]

    def _steps_from(self, run: PipelineRun, step: str | None) -> tuple[str, ...]:
        """The steps of its claim that the document has not passed."""
        queue = self.queues.get(run.claim.pipeline)
        if queue is None or step not in queue.steps:
            return () if step is None else (step,)
        return queue.steps[queue.steps.index(step) :]

    def _limit(
        self, step: str, pool: StepPool, coming: int, places: int, busy: float
    ) -> ClaimLimit:
        free, ahead = pool.free(), pool.ahead()
        if self._is_alone_in_process(step):
            free, ahead = min(free, places + coming), pool.ahead(busy)
        now = max(0, free - coming)
        is_served = pool.busy > 0 and coming > ahead / 2  # claims ahead are made in portions
        total = now if is_served else max(now, free + ahead - coming)
        queues = frozenset(queue.name for queue in self.queues.values() if step in queue.steps)
        return ClaimLimit(now, total, queues)

    def takes_place(self, queue: Pipeline) -> bool:
        """Whether a document of the queue takes a place when it starts."""
        return queue.steps[0] == READ or self._is_alone_in_process(queue.steps[0])

    def places_taken(self) -> int:
        """How many documents are in steps, or between two of them, in places of workers."""
        in_steps = sum(
            pool.busy for step, pool in self._pools.items() if self._is_alone_in_process(step)
        )
        between = sum(
            run.is_under_way
            for step, runs in self._waiting.items()
            if self._is_alone_in_process(step)
            for run in runs
        )
        return in_steps + between

    def places_since(self) -> list[float]:
        """When the documents began that are in places of workers."""
        return [
            began
            for step, pool in self._pools.items()
            if self._is_alone_in_process(step)
            for began in pool.running_since()
        ]

    @property
    def waits_for_place(self) -> bool:
        """Whether a claimed document waits for a place of a worker."""
        return any(
            not run.is_under_way
            for step, runs in self._waiting.items()
            if self._is_alone_in_process(step)
            for run in runs
        )

    def _is_alone_in_process(self, step: str) -> bool:
        options = self._pools[step].options
        return options is None or options.concurrency == 1

    def unstarted(self, busy: float = inf) -> list[Claim]:
        """The claims that no step has begun to process.

        Where places are free, only those of steps whose processes have been busy for long; `busy`
        is for how many seconds no place has been free.
        """
        return [
            run.claim
            for step, runs in self._waiting.items()
            if max(busy, self._pools[step].busy_seconds()) > STUCK_SECONDS
            for run in runs
            if not run.is_under_way
        ]

    def forget(self, claims: Iterable[Claim]) -> None:
        """Drop documents that wait, without an end: their claims were released."""
        released = set(claims)
        for step, runs in self._waiting.items():
            for run in runs:
                if run.claim in released:
                    shutil.rmtree(run.folder, ignore_errors=True)
            self._waiting[step] = deque(run for run in runs if run.claim not in released)

    def gather_seconds(self) -> list[float]:
        """How long answers may gather, for each step whose processes are busy in places."""
        return [
            pool.gather_seconds()
            for step, pool in self._pools.items()
            if pool.busy and self._is_alone_in_process(step)
        ]

    # --- documents ---

    @property
    def is_busy(self) -> bool:
        waiting = (step for step, runs in self._waiting.items() if runs)
        return bool(self._running) or any(self._pools[step].is_loaded for step in waiting)

    def claims(self) -> list[Claim]:
        running = [run for id_, run in self._running.items() if id_ not in self._lost]
        waiting = [run for queue in self._waiting.values() for run in queue]
        return [run.claim for run in (*running, *waiting)]

    def outputs(self, claim: Claim) -> tuple[str, ...]:
        """The optional files that its pipeline wants."""
        pipeline = self._pipelines.get(pipeline_of(claim.pipeline))
        return () if pipeline is None else pipeline.outputs

    def has_more_steps(self, claim: Claim) -> bool:
        pipeline = self._pipelines.get(pipeline_of(claim.pipeline))
        return pipeline is not None and not pipeline.reads_only

    def begin(self, claim: Claim) -> bool:
        """Take over a claim whose next step is a function; False: the next step is `read`.

        `start_waiting` starts the step.
        """
        if not self.has_more_steps(claim):
            return False
        # The pool finds out which job ended its process, so a suspect is no risk for the others.
        run = self._resumed(claim._replace(suspect=False))
        if run.next_step == READ and run.queue == claim.pipeline:
            return False
        self._go_on(run)
        return True

    def go_on_after_reading(self, claim: Claim, extraction: Extraction, seconds: float) -> None:
        run = self._resumed(claim)
        run.add_extraction(extraction, seconds)
        self._go_on_after_step(run)

    def drop(self, lost: Iterable[Claim]) -> None:
        """Cancel the jobs of claims that were cancelled or requeued."""
        gone = set(lost)
        for step, queue in self._waiting.items():
            dropped = [run for run in queue if run.claim in gone]
            self._waiting[step] = deque(run for run in queue if run.claim not in gone)
            for run in dropped:
                self._end(run, Stage.DROPPED)
        for id_, run in self._running.items():
            if run.claim in gone and id_ not in self._lost:
                self._lost.add(id_)
                self._pools[run.next_step or ""].cancel_job(id_)

    def progress(self) -> dict[Claim, tuple[int, int]]:
        return {
            self._running[id_].claim: done
            for pool in self._pools.values()
            for id_, done in pool.progress().items()
            if id_ in self._running and id_ not in self._lost
        }

    def poll(self) -> None:
        """Handle the jobs that have ended, and start waiting documents.

        While blobs are unavailable this raises, and a later call continues where it stopped.
        """
        for step, pool in self._pools.items():
            self._ends.extend(pool.poll())
            returned = [self._running.pop(job.id) for job in pool.take_returned()]
            self._waiting[step].extendleft(reversed(returned))
        while self._ends:
            self._handle(self._ends[0])
            self._ends.popleft()
        self._log_problems()

    def start_waiting(self, places: int, *, behind: bool) -> None:
        """Start the documents that wait for their step, as far as its pool has room.

        So many may take a place. With `behind`, more lie ready behind short ones.
        """
        for step, queue in self._waiting.items():
            takes_place = self._is_alone_in_process(step)
            pool = self._pools[step]
            for run in self._startable(queue):
                is_new = takes_place and not run.is_under_way
                if pool.free() and (places > 0 or not is_new):
                    places -= is_new
                elif not (behind and pool.has_room_behind()):
                    break
                self._start(step, run)
            pool.flush()

    def _startable(self, queue: Iterable[PipelineRun]) -> list[PipelineRun]:
        """Those that wait, without documents of which an earlier claim still runs."""
        return [run for run in queue if run.claim.id not in self._running]

    def _resumed(self, claim: Claim) -> PipelineRun:
        folder = self._folder / f"{claim.id}.{claim.fence}"
        return resumed_run(claim, self._pipelines[pipeline_of(claim.pipeline)], folder)

    def _go_on_after_step(self, run: PipelineRun) -> None:
        if run.queue == run.claim.pipeline:  # else the end of the claim saves the result
            self._end(run, run.interim)
        self._go_on(run)

    def _go_on(self, run: PipelineRun) -> None:
        """Pass the document to its next step, to the queue of that step, or to its end."""
        step, queue = run.next_step, run.queue
        if step is None or queue is None:
            self._end(run, Stage.DONE)
            return
        if queue != run.claim.pipeline:
            self._end(run, Move(queue))
            return
        self._need_pool(step)  # the settings may have lost the pipeline while it was read
        self._waiting[step].append(run)

    def _start(self, step: str, run: PipelineRun) -> None:
        """Start a document that waits, or end it if its bytes are gone."""
        contents = self._prepare(run)  # if the disk is full it raises, and the document waits
        self._waiting[step].remove(run)
        if not isinstance(contents, dict):
            self._results.add(FinishedJob(run.claim, contents, run.claim_seconds, run))
            return
        self._running[run.claim.id] = run
        self._pools[step].start(self._job(run, contents))

    # --- jobs ---

    def _job(self, run: PipelineRun, contents: dict[str, bytes]) -> StepJob:
        claim = run.claim
        return StepJob(
            claim.id,
            claim.customer,
            claim.name,
            run.interim.kind,
            dict(claim.metadata),
            run.interim.attempts + 1,
            self._job_folder(run),
            contents,
        )

    def _job_folder(self, run: PipelineRun) -> Path:
        return run.folder / str(run.interim.done)

    def _prepare(self, run: PipelineRun) -> dict[str, bytes] | Failed | Broken:
        """Return the short contents of the job, and write long ones into its folder.

        Returns a failure if the bytes of the document are gone.
        """
        contents: dict[str, bytes] = {}
        interim = run.interim
        earlier = {
            "text": interim.text,
            "markdown": interim.markdown,
            "data.json": interim.data,
        }
        try:
            if not self._put_original(run, contents):
                return missing_bytes()
            for name, content in earlier.items():
                if content is None:
                    continue
                if content.content is not None:
                    contents[name] = content.content
                else:
                    long = run.read_content(content, self._texts)
                    (self._make_folder(run) / name).write_bytes(long)
        except DamagedData:
            return missing_bytes()
        except OSError as error:
            raise TemporarilyUnavailable(
                f"a document cannot be given to a step ({error}); repair that"
            ) from error
        return contents

    def _make_folder(self, run: PipelineRun) -> Path:
        folder = self._job_folder(run)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _put_original(self, run: PipelineRun, contents: dict[str, bytes]) -> bool:
        """Copy the document, so that a step cannot change the stored bytes; verify its SHA-256."""
        claim, digest = run.claim, hashlib.sha256()
        if claim.content is not None:
            contents["original"] = claim.content
            digest.update(claim.content)
        else:
            source = self._files.path(claim.id)
            try:
                reader = source.open("rb")
            except OSError as error:
                if error.errno not in ABSENT:
                    raise
                self._files.check()
                return False
            with reader, (self._make_folder(run) / "original").open("wb") as target:
                while chunk := reader.read(_CHUNK):
                    digest.update(chunk)
                    target.write(chunk)
        return digest.hexdigest() == claim.sha256

    # --- ends ---

    def _handle(self, end: StepEnd) -> None:
        id_ = end.job.id
        run = self._running[id_]
        if id_ in self._lost:
            self._lost.remove(id_)
            self._end(run, Stage.DROPPED)
        else:
            self._take_over(run, end)
        del self._running[id_]

    def _take_over(self, run: PipelineRun, end: StepEnd) -> None:
        outcome = end.outcome
        if isinstance(outcome, Returned):
            unknown = unknown_pipelines(outcome, self._pipelines)
            if unknown is None:
                try:
                    run.add_returned(outcome, end.seconds)
                except InvalidResult as error:
                    outcome = Invalid(str(error))
                else:
                    self._go_on_after_step(run)
                    return
            else:
                outcome = Invalid(unknown)
        run.add_work(end.seconds)
        self._settle(run, outcome)

    def _settle(self, run: PipelineRun, outcome: Outcome) -> None:
        """End a step that did not return: refuse the document, delay it, or let it fail."""
        options = self._pools[run.next_step or ""].options or StepOptions()
        self._end(run, end_of_step(run, outcome, options, self._retry(), time.time()))

    def _end(self, run: PipelineRun, how: Stage | Failed | Broken | Delay | Move | Interim) -> None:
        self._results.add(FinishedJob(run.claim, how, run.claim_seconds, run))


def _is_same(problem: str, logged: str | None) -> bool:
    """Whether a problem was logged; the seconds of a long import make no difference."""
    return logged is not None and _SECONDS.sub("", problem) == _SECONDS.sub("", logged)
