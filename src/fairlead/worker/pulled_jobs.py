"""Pulled steps: other programs claim documents over HTTP, renew their leases and report results.

A job is a claim of the store like any other. Its token names the document and the fence, and the
claim belongs to the API key that made it. All state is in the store, so any server may answer.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from fairlead.errors import DamagedData, InvalidResult, InvalidStep, JobLost
from fairlead.model.blobs import BlobStore
from fairlead.model.documents import Claim, Failed, JobEnd, Progress, Saved
from fairlead.model.pipelines import ClaimRequest, Pipeline, pipeline_of
from fairlead.policy.retry import RetryRule
from fairlead.steps.outcomes import Outcome, Returned, ReturnedFile, StepOptions
from fairlead.steps.results import merged_data
from fairlead.worker.pipeline_run import PipelineRun, resumed_run
from fairlead.worker.result_saver import Delay, FinishedJob, Move, ResultSaver, Stage
from fairlead.worker.slot import next_worker_name
from fairlead.worker.step_ends import end_of_step, unknown_pipelines

if TYPE_CHECKING:
    from fairlead.storage import Store

_LOST = (
    "the job is lost: its document was cancelled, its lease has ended, or the job was "
    "ended before; stop working on it"
)


class HeldJob(NamedTuple):
    """A claim of a pulled step, and the result of earlier steps."""

    token: str
    step: str
    claim: Claim
    run: PipelineRun

    @property
    def folder(self) -> Path:
        """A folder for the files of one request."""
        return self.run.folder


class EndedJob(NamedTuple):
    """A job that its program has ended: the same request again gets the same answer."""

    end: JobEnd
    folder: Path


LONGEST_JOB = 86_400.0
"""Seconds after which a job is not renewed: a program must not hold a document for ever."""
_LONGEST_FENCE = 16
"""The digits of the largest fence; longer numbers are none."""


class PulledJobs:
    """Claims documents of pulled steps, and ends these claims. All methods block.

    `owner` is the id of an API key. A job of another key is unknown to it.
    """

    def __init__(
        self,
        store: Store,
        files: BlobStore,
        texts: BlobStore,
        pipelines: Callable[[], Sequence[Pipeline]],
        lease: Callable[[], float],
        retry: Callable[[], RetryRule],
        job_dirs: Path,
    ) -> None:
        self._store = store
        self._texts = texts
        self._saver = ResultSaver(store, files, texts)
        self._pipelines = pipelines
        self.lease = lease
        self._retry = retry
        self._job_dirs = job_dirs
        self._attended: dict[tuple[str, str], float] = {}

    # --- claims ---

    def claim(self, steps: Sequence[str], most: int, owner: str) -> tuple[list[HeldJob], float]:
        """Jobs in the order of the queue, and in how many seconds a quota permits more."""
        queues = self._queues(steps)
        for step in steps:
            self._attend(owner, step)
        # Each job has a lease of its own: one that is not renewed ends alone.
        workers = [f"{owner}#{secrets.token_hex(4)}" for _ in range(most)]
        claims, opens_in = self._store.claim_requests([ClaimRequest(workers, (), queues)])
        runs = [self._resumed(claim) for claim in claims]
        jobs = [_job(run) for run in runs if _is_in_its_queue(run)]
        self._start_over(run for run in runs if not _is_in_its_queue(run))
        return jobs, opens_in

    def release(self, jobs: Sequence[HeldJob]) -> None:
        """Release jobs that no program has received; no attempt is used."""
        self._store.release([job.claim for job in jobs])

    def held(self, token: str, owner: str) -> HeldJob:
        """The job of this token; raises JobLost if its lease is not this owner's."""
        id_, fence = _parts_of(token)
        claim = self._store.held_claim(id_, fence)
        if claim is None or claim.worker.partition("#")[0] != owner:
            raise JobLost(_LOST)
        return _job(self._resumed(claim))

    def held_or_ended(self, token: str, owner: str) -> HeldJob | EndedJob:
        """As `held`, or the end of the job that this owner has sent before."""
        try:
            return self.held(token, owner)
        except JobLost:
            end = self._store.job_end(*_parts_of(token))
            if end is None or end.owner != owner:
                raise
            return EndedJob(end, self._job_dirs / next_worker_name())

    def renew(self, job: HeldJob, progress: tuple[int, int] | None = None) -> float:
        """Renew the lease; return for how many seconds it holds."""
        if self._seconds(job) > LONGEST_JOB or self._store.renew([job.claim]):
            raise JobLost(_LOST)
        self._attend(job.claim.worker.partition("#")[0], job.step)
        if progress is not None:
            self._store.progress([Progress(job.claim, *progress)])
        return self.lease()

    # --- ends ---

    def finish(self, job: HeldJob | EndedJob, returned: Returned) -> None:
        """Save the result of a step; the document goes to its next step, or is done.

        The result that ended a job may come again; another one raises JobLost.
        """
        fingerprint = _fingerprint(returned)
        if isinstance(job, EndedJob):
            _check_same(job.end, fingerprint)
            return
        run = job.run
        unknown = unknown_pipelines(returned, (pipeline.name for pipeline in self._pipelines()))
        if unknown is not None:
            raise InvalidResult(unknown)
        try:
            merged = self._with_earlier_data(run, returned)
        except DamagedData:
            if self._store.held_claim(run.claim.id, run.claim.fence) is not None:
                raise
            self._check_repeated(run.claim, fingerprint)  # which removed the earlier data
            return
        run.add_returned(merged, self._seconds(job))
        self._save(run, Stage.DONE if run.queue is None else Move(run.queue), fingerprint)

    def _with_earlier_data(self, run: PipelineRun, returned: Returned) -> Returned:
        earlier = run.interim.data
        if returned.data is None or earlier is None:
            return returned
        before = json.loads(run.read_content(earlier, self._texts))
        content = merged_data(before, json.loads(returned.data.read()))
        data = ReturnedFile("data.json", len(content), "", content)
        return replace(returned, data=data)

    def settle(self, job: HeldJob | EndedJob, outcome: Outcome, options: StepOptions) -> None:
        """End a step that did not return: refuse the document, delay it, or let it fail."""
        fingerprint = _fingerprint(outcome)
        if isinstance(job, EndedJob):
            _check_same(job.end, fingerprint)
            return
        job.run.add_work(self._seconds(job))
        now = self._store.now()
        self._save(job.run, end_of_step(job.run, outcome, options, self._retry(), now), fingerprint)

    def _save(
        self, run: PipelineRun, result: Stage | Move | Failed | Delay, fingerprint: str
    ) -> None:
        claim = run.claim
        end = JobEnd(claim.worker.partition("#")[0], fingerprint)
        saved = self._saver.save([FinishedJob(claim, result, run.claim_seconds, run, end)])
        if saved[claim] is Saved.STALE:
            self._check_repeated(claim, fingerprint)

    def _check_repeated(self, claim: Claim, fingerprint: str) -> None:
        """The job was ended meanwhile: raise JobLost if it was not by the same request."""
        _check_same(self._store.job_end(claim.id, claim.fence), fingerprint)

    def _seconds(self, job: HeldJob) -> float:
        return max(0.0, self._store.now() - job.claim.started_at)

    # --- queues ---

    def _queues(self, steps: Sequence[str]) -> list[str]:
        queues_of: dict[str, list[str]] = {}
        for pipeline in self._pipelines():
            for queue in pipeline.queues:
                if queue.pulled is not None:
                    queues_of.setdefault(queue.pulled, []).append(queue.name)
        for step in steps:
            if step not in queues_of:
                known = ", ".join(sorted(queues_of)) or "none"
                raise InvalidStep(
                    f"no pipeline has the step {f'pull:{step}'[:80]!r}; pulled steps are: {known}"
                )
        return [name for step in dict.fromkeys(steps) for name in queues_of[step]]

    def _attend(self, owner: str, step: str) -> None:
        """Record three times per lease that a program serves the step."""
        now, key = time.monotonic(), (owner, step)
        if now - self._attended.get(key, -self.lease()) >= self.lease() / 3:
            self._attended[key] = now
            self._store.attend(f"pull:{owner}:{step}", 1, self._queues([step]))

    def _resumed(self, claim: Claim) -> PipelineRun:
        pipelines = {pipeline.name: pipeline for pipeline in self._pipelines()}
        pipeline = pipelines.get(pipeline_of(claim.pipeline))
        if pipeline is None:  # the settings have changed since the claim
            raise JobLost(_LOST)
        return resumed_run(claim, pipeline, self._job_dirs / next_worker_name())

    def _start_over(self, runs: Iterable[PipelineRun]) -> None:
        """Move documents whose list of steps has changed to the queue of their first step."""
        for run in runs:
            if run.queue is not None:
                self._saver.save([FinishedJob(run.claim, Move(run.queue), 0.0, run)])


def _is_in_its_queue(run: PipelineRun) -> bool:
    return run.queue == run.claim.pipeline


def _parts_of(token: str) -> tuple[str, int]:
    """The document and the fence of a token."""
    id_, _, fence = token.partition(".")
    if not fence.isascii() or not fence.isdecimal() or len(fence) > _LONGEST_FENCE:
        raise JobLost(_LOST)
    return id_, int(fence)


def _fingerprint(outcome: Outcome) -> str:
    """Tells one end of a job from another, by its contents."""
    described: object = outcome
    if isinstance(outcome, Returned):
        texts = (outcome.text, outcome.markdown, outcome.data)
        described = [
            [None if file is None else file.sha256 for file in texts],
            [(file.name, file.sha256) for file in outcome.files],
            [(part.name, part.sha256, part.pipeline) for part in outcome.parts],
        ]
    return hashlib.sha256(msgspec.json.encode(described)).hexdigest()


def _check_same(end: JobEnd | None, fingerprint: str) -> None:
    if end is None or end.fingerprint != fingerprint:
        raise JobLost(_LOST)


def _job(run: PipelineRun) -> HeldJob:
    claim = run.claim
    step = (run.next_step or "").removeprefix("pull:")
    return HeldJob(f"{claim.id}.{claim.fence}", step, claim, run)
