"""The pool of one step: its template, its processes, and their jobs."""

from __future__ import annotations

import logging
import os
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from fairlead.backoff import Backoff
from fairlead.steps.messages import (
    Answer,
    CancelJob,
    JobAdvanced,
    JobEnded,
    JobsWithdrawn,
    Loaded,
    LoadFailed,
    ProcessEnded,
    ProcessStarted,
    Ready,
    Setup,
    TemplateAnswer,
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
from fairlead.steps.process import STUCK_SECONDS, JobRun, StepProcess
from fairlead.steps.process_slots import ProcessSlots
from fairlead.steps.sources import SourceWatch
from fairlead.steps.template import StepTemplate, TemplateEnded

_log = logging.getLogger(__name__)

DEFAULT_IMPORT_LIMIT = 300.0
SLOW_IMPORT_SECONDS = 10.0
"""After so long an import is reported as the reason why the step does not run."""
MEMORY_CHECK_SECONDS = 1.0
SOURCE_CHECK_SECONDS = 0.5
SLOT_CHECK_SECONDS = 1.0
FLUSH_SECONDS = 0.05
MOST_FAILED_STARTS = 3
"""Templates or processes in a row that end before they are ready: then the step cannot be used."""
RECYCLE_SHARE = 0.8
"""The share of its memory limit from which a process is replaced when its jobs have ended."""
READY_SECONDS = 0.03
MOST_READY = 48
AHEAD_SECONDS = 0.04
MOST_AHEAD = 48
_WEIGHT = 0.1
_CANCELLED = Raised("the document was cancelled", "")


class StepPool:
    """Runs the jobs of one step in processes of its own, which it starts on demand.

    A process is a fork of the template, which has imported the step. It runs `concurrency` jobs at
    once, and there are at most as many processes as `workers`, or as the step's option `processes`.
    Jobs are spread over processes first. Behind the job of a process with `concurrency` 1 lie more
    jobs ready if they take milliseconds only; they are withdrawn if that one takes long.

    If a process with several running jobs ends or is killed, each of them runs again alone: only
    the death of a process with a single running job is an outcome.

    For one thread. The selector tells when `poll` has something to do. Only `close` blocks. With
    `reloads`, for development, a change of the user's source files imports the step anew; after a
    failed import that is always so.
    """

    def __init__(
        self,
        reference: str,
        *,
        search_path: Sequence[str],
        environment: Mapping[str, str],
        selector: selectors.BaseSelector,
        workers: Callable[[], int],
        slots: ProcessSlots,
        result_limit: int = DEFAULT_RESULT_LIMIT,
        import_limit: float = DEFAULT_IMPORT_LIMIT,
        reloads: bool = False,
    ) -> None:
        self.reference = reference
        self.options: StepOptions | None = None
        self.problem: str | None = None
        self.mean: float | None = None
        """The moving average of the seconds that jobs took."""
        self._setup = Setup(reference, list(search_path), result_limit, os.getpid())
        self._environment = environment
        self._selector = selector
        self._workers = workers
        self._slots = slots
        self._import_limit = import_limit
        self._template: StepTemplate | None = None
        self._retired: list[StepTemplate] = []  # with processes that still have jobs
        self._processes: dict[int, StepProcess] = {}
        self._last_number = 0
        self._returned: list[StepJob] = []  # jobs that did not begin
        self._alone: deque[JobRun] = deque()
        self._progress: dict[str, tuple[int, int]] = {}
        self._ends: list[StepEnd] = []
        self._reloads = reloads
        self._watch = SourceWatch()
        self._next_look = inf
        self._backoff = Backoff(1.0, 60.0)
        self._failed_starts = 0  # since the last process that was ready
        self._next_start = 0.0
        self._next_memory_check = 0.0
        self._start_template()

    # --- what the engine calls ---

    @property
    def is_loaded(self) -> bool:
        """Whether the step is imported, so that its jobs can start."""
        return self._template is not None and self._template.loaded is not None

    @property
    def capacity(self) -> int:
        """How many jobs may run at once."""
        if not self.is_loaded or self.options is None or self._is_pausing:
            return 0
        return self._most_processes() * self.options.concurrency

    @property
    def busy(self) -> int:
        """How many jobs run, or will as soon as their process is ready."""
        return sum(self._load(process) for process in self._processes.values())

    def ahead(self, busy: float = 0.0) -> int:
        """How many jobs may wait for a process: a moment of work, and none where jobs take long.

        `busy` is for how many seconds they have had to wait for something else.
        """
        busy = max(busy, self.busy_seconds())
        if self.mean is None or self._alone or busy > STUCK_SECONDS:
            return 0
        seconds = max(self.mean, busy, 1e-6)
        return min(MOST_AHEAD, int(AHEAD_SECONDS * self.capacity / seconds))

    def free(self) -> int:
        """How many jobs may begin now."""
        taken = sum(self._taken(process) for process in self._processes.values())
        return max(0, self.capacity - taken - len(self._alone))

    def gather_seconds(self) -> float:
        """How long answers may gather while every process has jobs ready behind one."""
        behind = min(len(process.jobs) - 1 for process in self._processes.values())
        return 0.0 if self.mean is None else min(READY_SECONDS, max(0, behind) * self.mean) / 2

    def busy_seconds(self) -> float:
        """For how many seconds all processes have been busy with the same jobs."""
        if self.busy < self.capacity:
            return 0.0
        now = time.monotonic()
        return min((now - began for began in self.running_since()), default=0.0)

    def has_room_behind(self) -> bool:
        """Whether a job may lie ready behind one that runs."""
        return self._process_behind() is not None

    def why_not(self, now: float) -> str | None:
        """Why its jobs cannot run now, if that is worth telling."""
        if self.is_loaded and not self._is_pausing:
            return None
        template = self._template
        if self.problem is None and template is not None:
            seconds = now - template.started_at
            if seconds >= SLOW_IMPORT_SECONDS:
                return f"step {self.reference}: its module has been importing for {seconds:.0f} s"
        return self.problem

    def start(self, job: StepJob) -> None:
        """Run the step on a document, behind others if `free` says so."""
        self._place(JobRun(job))

    def cancel_job(self, id_: str) -> None:
        """Tell the job that its result is not needed; `poll` still returns its end."""
        for process in self._processes.values():
            for run in process.jobs:
                if run.job.id == id_:
                    run.is_cancelled = True
                    if process.is_ready:
                        process.send(CancelJob(id_))
            if not process.is_ready:
                self._end_cancelled(process.jobs)
        for run in self._alone:
            run.is_cancelled |= run.job.id == id_
        self._end_cancelled(self._alone)
        self.flush()

    def progress(self) -> dict[str, tuple[int, int]]:
        """The reported progress of jobs: done and total, by the document's id."""
        return dict(self._progress)

    def pids(self) -> list[int]:
        """The processes that run."""
        return [process.pid for process in self._processes.values() if process.pid is not None]

    def running_since(self) -> list[float]:
        """When the jobs began that run now."""
        return [run.began for process in self._processes.values() for run in process.running()]

    def poll(self) -> list[StepEnd]:
        """Jobs that have ended since the last call. Also kills processes over time or memory."""
        self._receive()
        now = time.monotonic()
        self._end_over_time(now)
        self._end_over_memory(now)
        self._end_slow_import(now)
        self._end_slow_starts(now)
        self._withdraw_stuck(now)
        self._reload_changed(now)
        self._replace(now)
        self._start_again()
        self.flush()
        ends, self._ends = self._ends, []
        return ends

    def take_returned(self) -> list[StepJob]:
        """The jobs that have not begun and must be started anew, in their order."""
        returned, self._returned = self._returned, []
        return returned

    def flush(self) -> None:
        """Send what was started; several jobs share a system call."""
        for process in self._processes.values():
            process.flush()

    def deadline(self) -> float:
        """The monotonic time at which to call `poll` even if nothing is readable."""
        now = time.monotonic()
        times = [self._next_look, self._template_deadline()]
        times += [self._process_deadline(process, now) for process in self._processes.values()]
        if self._ends or self._returned:
            times.append(now)
        if self.options is not None and self.options.processes is not None:
            times.append(now + SLOT_CHECK_SECONDS)
        if self.busy and self._memory_limit is not None:
            times.append(self._next_memory_check)
        return min(times)

    def close(self) -> None:
        """End all processes; jobs that they have are lost."""
        for process in self._processes.values():
            self._close_socket(process)
        for template in (*self._retired, *filter(None, [self._template])):
            template.close()
        self._processes.clear()
        self._retired.clear()
        self._template = None
        self._alone.clear()
        self._slots.release()

    # --- jobs ---

    def _place(self, run: JobRun) -> None:
        """Give a job to a process: one with the fewest, or a new one."""
        process = self._process_for_one_more() or self._process_behind()
        if process is None:  # one has ended since the caller looked
            self._returned.append(run.job)
        else:
            process.start(run)

    def _process_for_one_more(self) -> StepProcess | None:
        """The process in which a job begins at once; a new one if all have some."""
        if self.options is None or not self.is_loaded:
            return None
        open_ = [process for process in self._processes.values() if process.takes_jobs]
        least = min(open_, key=lambda process: len(process.jobs), default=None)
        if least is None or least.jobs:
            started = self._start_process()
            if started is not None:
                return started
        if least is not None and len(least.jobs) < self.options.concurrency:
            return least
        return None

    def _process_behind(self) -> StepProcess | None:
        """The process with the fewest jobs ready that may have one more."""
        if self.options is None or self.options.concurrency > 1 or self.mean is None or self._alone:
            return None
        depth = min(MOST_READY, int(READY_SECONDS / max(self.mean, 1e-6)))
        now = time.monotonic()
        return min(
            (
                process
                for process in self._processes.values()
                if process.takes_jobs and process.is_ready and 0 < len(process.jobs) <= depth
                if not process.is_stuck(now)
            ),
            key=lambda process: len(process.jobs),
            default=None,
        )

    def _start_again(self) -> None:
        """Start the jobs that must run alone, each in an empty process."""
        while self._alone and (process := self._empty_process()) is not None:
            process.start(self._alone.popleft())

    def _empty_process(self) -> StepProcess | None:
        if not self.is_loaded:
            return None
        for process in self._processes.values():
            if process.takes_jobs and not process.jobs:
                return process
        return self._start_process()

    def _end(self, run: JobRun, outcome: Outcome, seconds: float) -> None:
        self._progress.pop(run.job.id, None)
        self._ends.append(StepEnd(run.job, outcome, run.spent + seconds))

    def _end_cancelled(self, runs: deque[JobRun]) -> None:
        """A cancelled job does not begin, or not again."""
        for run in [run for run in runs if run.is_cancelled]:
            runs.remove(run)
            self._end(run, _CANCELLED, 0.0)

    def _load(self, process: StepProcess) -> int:
        """How many of the places of a process are taken."""
        number = self._concurrency
        return number if process.is_exclusive else min(number, len(process.jobs))

    @property
    def _concurrency(self) -> int:
        return 1 if self.options is None else self.options.concurrency

    def _taken(self, process: StepProcess) -> int:
        """How many jobs cannot start because of a process: those that it has, or its places."""
        is_closed = self._is_counted(process) and not process.takes_jobs
        return self._concurrency if is_closed else self._load(process)

    def _return(self, runs: Iterable[JobRun]) -> None:
        waiting = deque(runs)
        self._end_cancelled(waiting)
        self._returned += [run.job for run in waiting]

    # --- messages ---

    def _receive(self) -> None:
        for process in list(self._processes.values()):
            for answer in process.receive():
                self._handle(process, answer)
        for template in (*self._retired, *filter(None, [self._template])):
            for message in template.receive():
                self._handle_template(template, message)

    def _handle(self, process: StepProcess, answer: Answer) -> None:
        if isinstance(answer, Ready):
            process.note_ready()
            self._note_good_start()
        elif isinstance(answer, LoadFailed):
            process.failure = answer.sentence
        elif isinstance(answer, JobAdvanced):
            if any(run.job.id == answer.id for run in process.jobs):
                self._progress[answer.id] = (answer.done, answer.total)
        elif isinstance(answer, JobEnded):
            self._handle_job_end(process, answer)
        elif isinstance(answer, JobsWithdrawn):
            self._return(process.take(answer.ids))

    def _handle_job_end(self, process: StepProcess, answer: JobEnded) -> None:
        runs = process.take([answer.id])
        if not runs:
            process.fail(f"it ended the job {answer.id[:40]!r}, which it does not have")
            return
        before = answer.seconds if self.mean is None else self.mean
        self.mean = before + _WEIGHT * (answer.seconds - before)
        self._end(runs[0], answer.outcome, answer.seconds)
        limit = self._memory_limit
        if limit is not None and process.memory() > RECYCLE_SHARE * limit:
            process.is_stale = True  # before the limit hits an innocent job

    def _handle_template(
        self, template: StepTemplate, message: TemplateAnswer | TemplateEnded
    ) -> None:
        match message:
            case Loaded():
                self._note_loaded(message)
            case LoadFailed():
                self.problem = message.sentence
                self._watch, self._next_look = SourceWatch(message.sources), 0.0
            case ProcessStarted():
                if message.number in self._processes:
                    self._processes[message.number].pid = message.pid
            case ProcessEnded():
                if message.number in self._processes:
                    self._handle_process_end(self._processes[message.number], message.how)
            case TemplateEnded():
                self._handle_template_end(template, message.how)

    def _note_loaded(self, loaded: Loaded) -> None:
        self.options, self.problem = loaded.options, None
        self._note_good_start()
        if self._reloads:
            self._watch, self._next_look = SourceWatch(loaded.sources), 0.0

    # --- ends ---

    def _handle_process_end(self, process: StepProcess, how: str) -> None:
        """A single running job is to blame for the end; each of several runs again alone."""
        process.note_end()
        for answer in process.receive():  # its last words
            self._handle(process, answer)
        del self._processes[process.number]
        self._close_socket(process)
        how = process.failure or how
        if not process.is_ready and not process.is_stale:
            self._note_failed_start(f"its process ended before it was ready ({how})")
        begun = [run for run in process.running() if run.is_sent]
        not_begun = [run for run in process.jobs if run not in begun]
        if process.is_exclusive:
            self._alone.extendleft(not_begun)
        else:
            self._return(not_begun)
        now = time.monotonic()
        if begun and begun == process.ran_last and self._is_guilty(process):
            outcome = self._outcome_of_death(begun[0], process, how)
            self._end(begun[0], outcome, now - begun[0].began)
        else:
            self._run_again_alone(begun, now)
        self._end_cancelled(self._alone)

    def _is_guilty(self, process: StepProcess) -> bool:
        """Whether a single job ran last, and no earlier one can have ended the process."""
        is_grown = process.is_over_memory and process.jobs_begun > 1
        return len(process.ran_last) == 1 and not is_grown

    def _outcome_of_death(self, run: JobRun, process: StepProcess, how: str) -> Outcome:
        if run.is_cancelled:
            return _CANCELLED
        if run.is_overdue:
            return TimedOut(process.options.timeout)
        if process.is_over_memory:
            return Died(f"it used more than {self._memory_limit:,} bytes of memory")
        return Died(how)

    def _run_again_alone(self, runs: Iterable[JobRun], now: float) -> None:
        """Queue each job to run alone. Overdue jobs, the likely cause, come last."""
        for run in sorted(runs, key=lambda run: run.is_overdue):
            run.spent += max(0.0, now - run.began)
            run.began = run.deadline = inf
            run.is_sent = run.is_overdue = False
            run.is_alone = True
            self._progress.pop(run.job.id, None)
            self._alone.append(run)

    def _handle_template_end(self, template: StepTemplate, how: str) -> None:
        for process in [own for own in self._processes.values() if own.template is template]:
            self._handle_process_end(process, how)
        if template is not self._template:
            self._retired.remove(template)
            return
        self._template = None
        if template.loaded is not None:
            self._note_failed_start(f"its template ended ({how})")
        elif self.problem is None:
            self._note_failed_start(f"its process ended while it imported the module ({how})")
        else:
            self._next_start = time.monotonic() + self._backoff.failed()

    def _note_good_start(self) -> None:
        self._backoff.succeeded()
        self._failed_starts = 0

    def _note_failed_start(self, why: str) -> None:
        """Log the failure and start again after a pause: the cause may be temporary."""
        self._failed_starts += 1
        sentence = f"step {self.reference}: {why}"
        if self._failed_starts >= MOST_FAILED_STARTS:
            self.problem = sentence
        else:
            _log.warning("fairlead: %s; it is started again", sentence)
        self._next_start = time.monotonic() + self._backoff.failed()

    @property
    def _is_pausing(self) -> bool:
        """Whether processes end before they are ready, and the next one is started later."""
        return self._failed_starts > 0 and time.monotonic() < self._next_start

    # --- processes ---

    def _most_processes(self) -> int:
        workers = self._workers()
        bound = None if self.options is None else self.options.processes
        return workers if bound is None else self._slots.held(min(bound, workers), of=bound)

    def _start_process(self) -> StepProcess | None:
        """A new process; None: there are as many as there may be."""
        number = sum(self._is_counted(process) for process in self._processes.values())
        template, options = self._template, self.options
        is_full = number >= self._most_processes()
        if is_full or template is None or options is None or self._is_pausing:
            return None
        self._last_number += 1
        try:
            process = StepProcess(template, self._last_number, self.reference, options)
        except OSError as error:
            self._note_failed_start(f"no process can be started ({error})")
            return None
        self._processes[process.number] = process
        self._selector.register(process.socket, selectors.EVENT_READ)
        return process

    def _is_counted(self, process: StepProcess) -> bool:
        """Whether it is one of so many. A stale one counts only if the step bounds them itself."""
        is_bounded = self.options is not None and self.options.processes is not None
        return is_bounded or not process.is_stale

    def _close_socket(self, process: StepProcess) -> None:
        self._selector.unregister(process.socket)
        process.close()

    def _replace(self, now: float) -> None:
        """End stale processes without jobs and templates without processes; start a template."""
        surplus = len(self._processes) - max(1, self._workers())
        for process in list(self._processes.values()):
            if not process.jobs and (process.is_stale or surplus > 0):
                surplus -= 1
                process.is_stale = True
                process.kill()
        used = {process.template for process in self._processes.values()}
        for template in [own for own in self._retired if own not in used]:
            template.close()
            self._retired.remove(template)
        if self._template is None and now >= self._next_start:
            self._start_template()

    def _start_template(self) -> None:
        try:
            self._template = StepTemplate(self._setup, self._environment, self._selector)
        except OSError as error:
            self._note_failed_start(f"no process can be started ({error})")

    def _reload_changed(self, now: float) -> None:
        if now < self._next_look:
            return
        self._next_look = now + SOURCE_CHECK_SECONDS
        if self._watch.has_changed():
            _log.warning("fairlead: step %s is imported anew", self.reference)
            self._next_look = inf
            self._next_start = 0.0
            self._retire_template()

    def _retire_template(self) -> None:
        """Let its processes end their jobs; new ones are of another template."""
        for process in self._processes.values():
            process.is_stale = True
        if self._template is not None:
            self._retired.append(self._template)
            self._template = None

    # --- limits ---

    @property
    def _memory_limit(self) -> int | None:
        return None if self.options is None else self.options.memory_limit

    def _end_over_time(self, now: float) -> None:
        for process in self._processes.values():
            overdue = [run for run in process.running() if run.deadline <= now]
            for run in overdue:
                run.is_overdue = True
            if overdue:
                process.kill()

    def _end_over_memory(self, now: float) -> None:
        limit = self._memory_limit
        if limit is None or now < self._next_memory_check:
            return
        self._next_memory_check = now + MEMORY_CHECK_SECONDS
        for process in self._processes.values():
            if process.jobs and process.memory() > limit:
                process.is_over_memory = True
                process.kill()

    def _end_slow_import(self, now: float) -> None:
        template = self._template
        if template is None or template.loaded is not None:
            return
        if now >= template.started_at + self._import_limit:
            self.problem = (
                f"step {self.reference}: its module was not imported within "
                f"{self._import_limit:g} s (import_limit)"
            )
            template.kill()

    def _end_slow_starts(self, now: float) -> None:
        """Kill processes that do not become ready: one that is not forked imports the step."""
        for process in self._processes.values():
            if not process.is_ready and now >= process.started_at + self._import_limit:
                process.fail(f"it was not ready within {self._import_limit:g} s (import_limit)")

    def _template_deadline(self) -> float:
        template = self._template
        if template is None or self._is_pausing:
            return self._next_start
        return inf if template.loaded is not None else template.started_at + self._import_limit

    def _process_deadline(self, process: StepProcess, now: float) -> float:
        if process.is_ending:  # its template will tell the end, which may take a while
            return inf
        if not process.is_ready:
            return process.started_at + self._import_limit
        flush = now + FLUSH_SECONDS if process.has_unsent else inf
        withdrawal = now + STUCK_SECONDS if len(process.jobs) > 1 else inf
        return min(process.next_end, flush, withdrawal)

    def _withdraw_stuck(self, now: float) -> None:
        """Take back jobs from behind one that takes long; they may begin elsewhere."""
        for process in self._processes.values():
            if process.is_stuck(now):
                process.withdraw()
