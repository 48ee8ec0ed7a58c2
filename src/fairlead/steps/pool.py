"""The pool of one step: a warm process, its jobs, and the jobs that must run alone."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from fairlead.backoff import Backoff
from fairlead.steps.messages import (
    CancelJob,
    JobAdvanced,
    JobEnded,
    Loaded,
    LoadFailed,
    Setup,
    StartJob,
)
from fairlead.steps.outcomes import (
    DEFAULT_RESULT_LIMIT,
    Died,
    Outcome,
    Raised,
    StepEnd,
    StepJob,
    StepOptions,
    TimedOut,
)
from fairlead.steps.process import ProcessEnd, ReceivedMessage, StepProcess
from fairlead.steps.sources import SourceWatch

_log = logging.getLogger(__name__)

MEMORY_CHECK_SECONDS = 1.0
SOURCE_CHECK_SECONDS = 0.5
FLUSH_SECONDS = 0.05
MOST_FAILED_STARTS = 3
"""Processes in a row that end before they are ready: then the step cannot be used."""
RECYCLE_SHARE = 0.8
"""The share of its memory limit from which a process is replaced when its jobs have ended."""
_CANCELLED = Raised("the document was cancelled", "")


@dataclass
class _Run:
    """A job, and when it started in the process, if it has."""

    job: StepJob
    began: float = 0.0
    deadline: float = inf
    spent: float = 0.0  # seconds of runs that others ended
    is_cancelled: bool = False


class StepPool:
    """Runs the jobs of one step in a process of its own, which it replaces when necessary.

    For one thread. Another thread calls `wake` when `poll` has something to return. Only `close`
    blocks. If a process with several jobs ends or is killed, each of them runs again alone: only
    the death of a process with a single job is an outcome. With `reloads`, for development, a
    change of the user's source files imports the step anew.
    """

    def __init__(
        self,
        reference: str,
        *,
        search_path: Sequence[str],
        environment: Mapping[str, str],
        wake: Callable[[], None],
        result_limit: int = DEFAULT_RESULT_LIMIT,
        reloads: bool = False,
    ) -> None:
        self.reference = reference
        self.options: StepOptions | None = None
        self.problem: str | None = None
        self._setup = Setup(reference, list(search_path), result_limit, os.getpid())
        self._environment = environment
        self._wake = wake
        self._process: StepProcess | None = None
        self._is_ready = False
        self._is_stale = False  # whether the process is to be replaced once it has no jobs
        self._jobs_begun = 0  # in this process
        self._running: dict[str, _Run] = {}
        self._alone: deque[_Run] = deque()
        self._overdue: set[str] = set()
        self._over_memory = False
        self._progress: dict[str, tuple[int, int]] = {}
        self._ends: list[StepEnd] = []
        self._reloads = reloads
        self._watch = SourceWatch()
        self._next_look = inf
        self._backoff = Backoff(1.0, SOURCE_CHECK_SECONDS if reloads else 60.0)
        self._failed_starts = 0  # since the last process that was ready
        self._next_start = 0.0
        self._next_memory_check = 0.0
        self._replace_process()

    # --- what the engine calls ---

    def free(self) -> int:
        """How many jobs may be started now."""
        if not self._takes_jobs or self._alone or self.options is None:
            return 0
        return max(0, self.options.concurrency - len(self._running))

    def start(self, job: StepJob) -> None:
        """Run the step on a document. The caller has checked `free`."""
        if self._takes_jobs:
            self._start(_Run(job))
        else:  # the process has ended since `free` was called; `poll` handles that
            self._alone.append(_Run(job))

    def cancel_job(self, id_: str) -> None:
        """Tell the job that its result is not needed; `poll` still returns its end."""
        for run in (*self._running.values(), *self._alone):
            if run.job.id == id_:
                run.is_cancelled = True
        if id_ in self._running and self._process is not None:
            self._process.send(CancelJob(id_))
        self._end_cancelled()

    def progress(self) -> dict[str, tuple[int, int]]:
        """The reported progress of jobs: done and total, by the document's id."""
        return dict(self._progress)

    def poll(self) -> list[StepEnd]:
        """Jobs that have ended since the last call. Also kills processes over time or memory."""
        now = time.monotonic()
        self._receive()
        self._end_over_time(now)
        self._end_over_memory(now)
        self._reload_changed(now)
        self._replace_process()
        self._start_alone()
        if self._process is not None:
            self._process.flush()
        ends, self._ends = self._ends, []
        return ends

    def deadline(self) -> float:
        """The monotonic time at which to call `poll` even without a `wake`."""
        times = [self._next_look, *(run.deadline for run in self._running.values())]
        if self._process is None:
            times.append(self._next_start)
        elif self._process.has_unsent:
            times.append(time.monotonic() + FLUSH_SECONDS)
        if self._running and self._memory_limit is not None:
            times.append(self._next_memory_check)
        return min(times)

    def close(self) -> None:
        """End the process; jobs that it has are lost."""
        if self._process is not None:
            self._process.close()
            self._process = None
        self._running.clear()
        self._alone.clear()

    # --- jobs ---

    @property
    def _takes_jobs(self) -> bool:
        return (
            self._process is not None
            and self._is_ready
            and not self._is_stale
            and not self._process.is_ending
        )

    def _start(self, run: _Run) -> None:
        if self._process is None or self.options is None:
            raise RuntimeError("the step process is not ready")
        run.began = time.monotonic()
        run.deadline = run.began + self.options.timeout
        if not self._running:
            self._next_memory_check = run.began + MEMORY_CHECK_SECONDS
        self._running[run.job.id] = run
        self._jobs_begun += 1
        self._process.send(StartJob(run.job))

    def _start_alone(self) -> None:
        if self._alone and not self._running and self._takes_jobs:
            self._start(self._alone.popleft())

    def _end(self, run: _Run, outcome: Outcome, at: float) -> None:
        self._running.pop(run.job.id, None)
        self._progress.pop(run.job.id, None)
        self._ends.append(StepEnd(run.job, outcome, run.spent + at - run.began))

    def _end_cancelled(self) -> None:
        """A cancelled job does not run again."""
        for run in [run for run in self._alone if run.is_cancelled]:
            self._alone.remove(run)
            self._end(run, _CANCELLED, run.began)
            self._wake()

    # --- the process ---

    def _receive(self) -> None:
        for received in self._process.take() if self._process is not None else ():
            self._handle(received)

    def _handle(self, received: ReceivedMessage) -> None:
        message = received.message
        if isinstance(message, Loaded):
            self.options, self.problem, self._is_ready = message.options, None, True
            self._backoff.succeeded()
            self._failed_starts = 0
            if self._reloads:
                self._watch, self._next_look = SourceWatch(message.sources), 0.0
        elif isinstance(message, LoadFailed):
            self._note_problem(message.sentence)
        elif isinstance(message, JobAdvanced):
            if message.id in self._running:
                self._progress[message.id] = (message.done, message.total)
        elif isinstance(message, JobEnded):
            self._end(self._running[message.id], message.outcome, received.at)
            self._recycle_large()
        elif isinstance(message, ProcessEnd):
            self._handle_process_end(message.how, received.at)

    def _note_problem(self, sentence: str) -> None:
        """The step cannot be imported: at the start the engine raises an error; later, log it."""
        if self.options is not None and sentence != self.problem:
            _log.warning("fairlead: %s", sentence)
        self.problem = sentence

    def _handle_process_end(self, how: str, at: float) -> None:
        """A single job is to blame for the end of its process; each of several jobs runs again."""
        if not self._is_ready:
            self._note_failed_start(f"its process ended while it imported the module ({how})")
        runs = list(self._running.values())
        if len(runs) == 1 and not (self._over_memory and self._jobs_begun > 1):
            self._end(runs[0], self._outcome_of_death(runs[0], how), at)
        else:
            self._run_again(runs, at)
        if self._process is not None:
            self._process.close()
        self._process = None

    def _outcome_of_death(self, run: _Run, how: str) -> Outcome:
        if run.is_cancelled:
            return _CANCELLED
        if run.job.id in self._overdue and self.options is not None:
            return TimedOut(self.options.timeout)
        if self._over_memory:
            return Died(f"it used more than {self._memory_limit:,} bytes of memory")
        return Died(how)

    def _run_again(self, runs: Sequence[_Run], at: float) -> None:
        """Queue each job to run alone. Overdue jobs, the likely cause, come last."""
        for run in runs:
            run.spent += at - run.began
            run.began = at
        self._running.clear()
        self._progress.clear()
        self._alone.extend(sorted(runs, key=lambda run: run.job.id in self._overdue))
        self._end_cancelled()

    def _note_failed_start(self, why: str) -> None:
        """Log the failure and start again after a pause: the cause may be temporary."""
        self._failed_starts += 1
        sentence = f"step {self.reference}: {why}"
        if self.problem is None and self._failed_starts >= MOST_FAILED_STARTS:
            self.problem = sentence
        elif self.problem is None:
            _log.warning("fairlead: %s; it is started again", sentence)
        self._next_start = time.monotonic() + self._backoff.failed()

    def _replace_process(self) -> None:
        """Start a process if none runs; replace a stale one once it has no jobs."""
        if self._process is not None and self._is_stale and not self._running:
            self._process.close()
            self._process = None
        if self._process is None and time.monotonic() >= self._next_start:
            self._start_process()

    def _reload_changed(self, now: float) -> None:
        if now < self._next_look:
            return
        self._next_look = now + SOURCE_CHECK_SECONDS
        if self._watch.has_changed():
            _log.warning("fairlead: step %s is imported anew", self.reference)
            self._is_stale = True

    def _start_process(self) -> None:
        self._is_ready = self._is_stale = self._over_memory = False
        self._jobs_begun = 0
        self._overdue.clear()
        try:
            self._process = StepProcess(self._setup, self._environment, self._wake)
        except OSError as error:
            self._note_failed_start(f"no process can be started ({error})")

    # --- limits ---

    @property
    def _memory_limit(self) -> int | None:
        return None if self.options is None else self.options.memory_limit

    def _end_over_time(self, now: float) -> None:
        overdue = [id_ for id_, run in self._running.items() if run.deadline <= now]
        if overdue and self._process is not None and not self._process.is_ending:
            self._overdue.update(overdue)
            self._process.kill()

    def _end_over_memory(self, now: float) -> None:
        limit, process = self._memory_limit, self._process
        if limit is None or process is None or not self._running or now < self._next_memory_check:
            return
        self._next_memory_check = now + MEMORY_CHECK_SECONDS
        if not process.is_ending and process.memory() > limit:
            self._over_memory = True
            process.kill()

    def _recycle_large(self) -> None:
        """Replace a process that grew over many jobs, before the limit hits an innocent job."""
        limit, process = self._memory_limit, self._process
        if limit is not None and process is not None and process.memory() > RECYCLE_SHARE * limit:
            self._is_stale = True
