"""The step process: it runs one step on the jobs that it receives.

A template forks it with the imported function. Where that is not possible it is run as
`python -P -m fairlead.steps.process_main SOCKET`, with the number of an inherited socket, and
imports the step itself. The main thread reads the socket; jobs run in as many threads as the
`concurrency` of the step, or as tasks on one event loop for an `async def`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Lock, RLock
from typing import Any

from fairlead.errors import InvalidStep
from fairlead.service import run_in_thread
from fairlead.steps.declare import options_of
from fairlead.steps.job import Job
from fairlead.steps.load import load_step
from fairlead.steps.messages import (
    Answer,
    CancelJob,
    JobAdvanced,
    JobEnded,
    JobsWithdrawn,
    LoadFailed,
    Printed,
    Ready,
    Request,
    Setup,
    StartJob,
    WithdrawJobs,
    decode_request,
    encode,
)
from fairlead.steps.outcomes import Outcome, Raised, Returned, StepJob
from fairlead.steps.output import AttributedOutput, attributed
from fairlead.steps.results import write_result
from fairlead.steps.run import encodable, is_async, outcome_of_error, outcome_of_value
from fairlead.steps.signals import die_with, ignore_signals_of_engine

PROGRESS_SECONDS = 0.2


class EngineSocket:
    """The socket to the engine. A fork of this process closes it and never sends."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it has no keyword
        self._socket = socket.socket(fileno=descriptor)
        self._lines = self._socket.makefile("rb")
        self._lock = RLock()  # a finalizer that runs in `send` may print
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=partial(os.close, descriptor))

    def receive(self) -> Request | None:
        """The next request; None: the engine has closed the socket, or is dead."""
        line = self._lines.readline()
        return decode_request(line) if line.endswith(b"\n") else None

    def send(self, answer: Answer) -> None:
        if os.getpid() == self._pid:
            with self._lock:
                self._socket.sendall(encode(answer))

    def print(self, job: str | None, line: str) -> None:
        self.send(Printed(job, encodable(line)))


class Runner:
    """Runs the step on jobs, `concurrency` of them at once; the others wait in order."""

    def __init__(
        self, function: Callable[[Any], Any], connection: EngineSocket, limit: int
    ) -> None:
        self._function = function
        self._connection = connection
        self._limit = limit
        self._concurrency = options_of(function).concurrency
        self._pid = os.getpid()
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._queue: SimpleQueue[tuple[Job, StepJob]] = SimpleQueue()
        self._not_begun: set[str] = set()
        self._lock = Lock()  # of the jobs that have not begun
        self._threads = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        if is_async(function):
            self._loop = asyncio.new_event_loop()
            run_in_thread("step-loop", self._loop.run_forever)

    def start(self, record: StepJob) -> None:
        job = Job(record, _Progress(record.id, self._connection))
        self._jobs[record.id] = job
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._start_task, job, record)
            return
        with self._lock:
            self._not_begun.add(record.id)
        self._queue.put((job, record))
        if self._threads < min(len(self._jobs), self._concurrency):  # a start of one is slow
            self._threads += 1
            run_in_thread("step", self._work)

    def cancel_job(self, id_: str) -> None:
        if job := self._jobs.get(id_):
            job.mark_cancelled()
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._cancel_task, id_)

    def withdraw(self, ids: Sequence[str]) -> None:
        """Give back the jobs that have not begun."""
        with self._lock:
            withdrawn = [id_ for id_ in ids if id_ in self._not_begun]
            self._not_begun.difference_update(withdrawn)
        for id_ in withdrawn:
            del self._jobs[id_]
        self._connection.send(JobsWithdrawn(withdrawn))

    def _start_task(self, job: Job, record: StepJob) -> None:
        self._tasks[job.id] = asyncio.ensure_future(self._run_async(job, record))

    def _cancel_task(self, id_: str) -> None:
        if self._loop is not None and (task := self._tasks.get(id_)):
            self._loop.call_soon(task.cancel)  # after it has begun, else it would tell no end

    def _work(self) -> None:
        while True:
            job, record = self._queue.get()
            with self._lock:
                is_withdrawn = job.id not in self._not_begun
                self._not_begun.discard(job.id)
            if not is_withdrawn:
                copy_context().run(self._run, job, record)

    def _run(self, job: Job, record: StepJob) -> None:
        began = time.monotonic()
        with attributed(job.id, self._connection.print):
            try:
                if job.cancelled:  # while it waited behind others
                    outcome: Outcome = Raised("the document was cancelled", "")
                else:
                    outcome = outcome_of_value(self._function(job), self._writer(job, record))
            except BaseException as error:  # also sys.exit() in a step
                outcome = outcome_of_error(error)
        self._end(job, outcome, began)

    async def _run_async(self, job: Job, record: StepJob) -> None:
        began = time.monotonic()
        with attributed(job.id, self._connection.print):
            try:
                value = await self._function(job)
                outcome = await asyncio.to_thread(
                    outcome_of_value, value, self._writer(job, record)
                )
            except BaseException as error:
                outcome = outcome_of_error(error)
        self._tasks.pop(job.id, None)
        self._end(job, outcome, began)

    def _writer(self, job: Job, record: StepJob) -> Callable[[object], Returned]:
        if os.getpid() != self._pid:  # a fork that has reached the end of the step
            os._exit(0)
        folder = record.folder / "result"
        return partial(write_result, folder=folder, limit=self._limit, earlier=job.earlier_data)

    def _end(self, job: Job, outcome: Outcome, began: float) -> None:
        if os.getpid() != self._pid:
            os._exit(0)
        del self._jobs[job.id]
        self._connection.send(JobEnded(job.id, outcome, time.monotonic() - began))


class _Progress:
    """Reports the progress of a job, at most five times a second."""

    def __init__(self, id_: str, connection: EngineSocket) -> None:
        self._id = id_
        self._connection = connection
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + PROGRESS_SECONDS
            self._connection.send(JobAdvanced(self._id, int(done), int(total)))


def serve(function: Callable[[Any], Any], connection: EngineSocket, limit: int) -> None:
    """Run the step on jobs until the engine closes the socket; their results are not needed then.

    The caller must end the process: threads of jobs may still run.
    """
    sys.stdout = AttributedOutput(1, connection.print)
    sys.stderr = AttributedOutput(2, connection.print)
    ignore_signals_of_engine()
    runner = Runner(function, connection, limit)
    connection.send(Ready())
    while (request := connection.receive()) is not None:
        if isinstance(request, StartJob):
            runner.start(request.job)
        elif isinstance(request, CancelJob):
            runner.cancel_job(request.id)
        elif isinstance(request, WithdrawJobs):
            runner.withdraw(request.ids)


def main(descriptor: int) -> None:
    """Import the step, and serve."""
    connection = EngineSocket(descriptor)
    setup = connection.receive()
    if not isinstance(setup, Setup):
        return
    die_with(setup.parent)
    try:
        function = load_step(setup)
    except InvalidStep as error:
        connection.send(LoadFailed(encodable(str(error))))
        return
    serve(function, connection, setup.result_limit)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    finally:
        os._exit(1)
