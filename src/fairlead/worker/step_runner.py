"""Runs the functions of pipelines on documents that the engine has claimed.

Each step has a pool of its own, whose process stays warm. If the pool of its next step is full, a
document waits, and its queue is closed for claims meanwhile. So the order is decided at the claim.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from math import inf
from pathlib import Path

from fairlead.errors import DamagedData, InvalidSetting, TemporarilyUnavailable
from fairlead.model.blobs import ABSENT, BlobStore
from fairlead.model.documents import Broken, Claim, Failed
from fairlead.model.engines import StepUse
from fairlead.model.pipelines import READ, Pipeline, pipeline_of
from fairlead.model.results import Interim
from fairlead.policy.retry import RetryRule
from fairlead.steps.outcomes import Invalid, Outcome, Returned, StepEnd, StepJob, StepOptions
from fairlead.steps.pool import StepPool
from fairlead.worker.pipeline_run import PipelineRun, resumed_run
from fairlead.worker.result_saver import Delay, FinishedJob, Move, Stage
from fairlead.worker.result_writer import ResultWriter
from fairlead.worker.sandbox.answer import Extraction, missing_bytes
from fairlead.worker.step_ends import end_of_step, unknown_pipelines

_CHUNK = 1 << 20


class StepRunner:
    """The documents in steps, and the pools of these steps. Only the engine's thread calls it.

    `folder` gets the files of jobs: it is made for the first job, and removed at the end.
    """

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        make_pool: Callable[[str], StepPool],
        results: ResultWriter,
        files: BlobStore,
        texts: BlobStore,
        retry: Callable[[], RetryRule],
        folder: Path,
    ) -> None:
        self._pipelines = {pipeline.name: pipeline for pipeline in pipelines}
        queues = [queue for pipeline in pipelines for queue in pipeline.queues]
        self.queues = {queue.name: queue for queue in queues if queue.pulled is None}
        """The queues that the engine serves; documents of the others are pulled over HTTP."""
        self._results = results
        self._files = files
        self._texts = texts
        self._retry = retry
        steps = dict.fromkeys(step for queue in self.queues.values() for step in queue.steps)
        self._pools = {step: make_pool(step) for step in steps if step != READ}
        self._running: dict[str, PipelineRun] = {}
        self._lost: set[str] = set()  # running documents whose claim was lost
        self._ends: deque[StepEnd] = deque()  # of running documents, not handled yet
        self._waiting: defaultdict[str, deque[PipelineRun]] = defaultdict(deque)
        self._folder = folder
        self.ran_dry = False  # whether the last claim left room in a pool

    # --- pools ---

    @property
    def is_ready(self) -> bool:
        return all(pool.options is not None for pool in self._pools.values())

    def check(self) -> None:
        """Raise if a step cannot be used."""
        for pool in self._pools.values():
            if pool.problem is not None and pool.options is None:
                raise InvalidSetting(pool.problem)

    def deadline(self) -> float:
        return min((pool.deadline() for pool in self._pools.values()), default=inf)

    def close(self) -> None:
        """End the step processes; the store takes their documents back."""
        for pool in self._pools.values():
            pool.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- capacity for claims ---

    def open_queues(self) -> list[Pipeline]:
        """The queues of which no document waits for room in a pool."""
        waiting = {run.claim.pipeline for runs in self._waiting.values() for run in runs}
        return [queue for queue in self.queues.values() if queue.name not in waiting]

    def free_capacity(self) -> dict[str, tuple[int, list[str]]]:
        """For each first step: how many documents may start, and the queues that begin with it."""
        capacity: dict[str, tuple[int, list[str]]] = {}
        for queue in self.open_queues():
            step = queue.steps[0]
            pool = self._pools.get(step)
            free = 0 if pool is None else pool.free() - len(self._waiting[step])
            if free > 0:
                capacity.setdefault(step, (free, []))[1].append(queue.name)
        return capacity

    def use(self) -> list[StepUse]:
        """The capacity of each step here, and its documents."""
        busy = Counter(run.next_step for run in self._running.values())
        return [
            StepUse(
                step,
                0 if pool.options is None else pool.options.concurrency,
                busy[step],
                pool.problem if pool.options is None else None,
            )
            for step, pool in self._pools.items()
        ]

    # --- documents ---

    @property
    def is_busy(self) -> bool:
        return bool(self._running) or any(self._waiting.values())

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
        for pool in self._pools.values():
            self._ends.extend(pool.poll())
        while self._ends:
            self._handle(self._ends[0])
            self._ends.popleft()
        self.start_waiting()

    def start_waiting(self) -> None:
        """Start the documents that wait for their step, as far as its pool has room."""
        for step, queue in self._waiting.items():
            self._start(step, queue)

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
        self._waiting[step].append(run)

    def _start(self, step: str, queue: deque[PipelineRun]) -> None:
        while queue and queue[0].claim.id not in self._running and self._pools[step].free():
            run = queue[0]
            contents = self._prepare(run)  # if the disk is full it raises, and the document waits
            queue.popleft()
            if not isinstance(contents, dict):
                self._results.add(FinishedJob(run.claim, contents, run.claim_seconds, run))
                continue
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
                    run.add_returned(outcome, end.seconds, self._texts)
                except DamagedData:
                    self._end(run, missing_bytes())
                else:
                    self._go_on_after_step(run)
                return
            outcome = Invalid(unknown)
        run.add_work(end.seconds)
        self._settle(run, outcome)

    def _settle(self, run: PipelineRun, outcome: Outcome) -> None:
        """End a step that did not return: refuse the document, delay it, or let it fail."""
        options = self._pools[run.next_step or ""].options or StepOptions()
        self._end(run, end_of_step(run, outcome, options, self._retry()))

    def _end(self, run: PipelineRun, how: Stage | Failed | Broken | Delay | Move | Interim) -> None:
        self._results.add(FinishedJob(run.claim, how, run.claim_seconds, run))
