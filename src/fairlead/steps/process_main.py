"""The step process: it imports one step and runs it on the jobs that it receives.

Run as `python -P -m fairlead.steps.process_main SOCKET`, with the number of an inherited socket;
`fairlead.steps.process` starts it. The main thread reads the socket; each job is a thread, or a
task on one event loop for an `async def`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Lock
from typing import Any

from fairlead.errors import InvalidStep
from fairlead.service import run_in_thread
from fairlead.steps.declare import options_of
from fairlead.steps.job import Job
from fairlead.steps.load import load
from fairlead.steps.messages import (
    Answer,
    CancelJob,
    JobAdvanced,
    JobEnded,
    Loaded,
    LoadFailed,
    Printed,
    Request,
    Setup,
    StartJob,
    decode_request,
    encode,
)
from fairlead.steps.outcomes import Outcome, Returned, StepJob
from fairlead.steps.output import AttributedOutput, attributed
from fairlead.steps.reference import note_import
from fairlead.steps.results import write_result
from fairlead.steps.run import encodable, is_async, outcome_of_error, outcome_of_value
from fairlead.steps.sources import imported_sources

PROGRESS_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1


class EngineSocket:
    """The socket to the engine. A fork of this process closes it and never sends."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it has no keyword
        self._socket = socket.socket(fileno=descriptor)
        self._lines = self._socket.makefile("rb")
        self._lock = Lock()
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
    """Runs the step on jobs, many at once."""

    def __init__(
        self, function: Callable[[Any], Any], connection: EngineSocket, limit: int
    ) -> None:
        self._function = function
        self._connection = connection
        self._limit = limit
        self._pid = os.getpid()
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._queue: SimpleQueue[tuple[Job, StepJob]] = SimpleQueue()
        self._threads = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        if is_async(function):
            self._loop = asyncio.new_event_loop()
            run_in_thread("step-loop", self._loop.run_forever)

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs)

    def start(self, record: StepJob) -> None:
        job = Job(record, _Progress(record.id, self._connection))
        self._jobs[record.id] = job
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._start_task, job, record)
            return
        self._queue.put((job, record))
        if self._threads < len(self._jobs):  # threads stay for later jobs, as a start is slow
            self._threads += 1
            run_in_thread("step", self._work)

    def cancel_job(self, id_: str) -> None:
        if job := self._jobs.get(id_):
            job.mark_cancelled()
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._cancel_task, id_)

    def _start_task(self, job: Job, record: StepJob) -> None:
        self._tasks[job.id] = asyncio.ensure_future(self._run_async(job, record))

    def _cancel_task(self, id_: str) -> None:
        if task := self._tasks.get(id_):
            task.cancel()

    def _work(self) -> None:
        while True:
            job, record = self._queue.get()
            copy_context().run(self._run, job, record)

    def _run(self, job: Job, record: StepJob) -> None:
        with attributed(job.id, self._connection.print):
            try:
                outcome = outcome_of_value(self._function(job), self._writer(record))
            except BaseException as error:  # also sys.exit() in a step
                outcome = outcome_of_error(error)
        self._end(job, outcome)

    async def _run_async(self, job: Job, record: StepJob) -> None:
        with attributed(job.id, self._connection.print):
            try:
                value = await self._function(job)
                outcome = await asyncio.to_thread(outcome_of_value, value, self._writer(record))
            except BaseException as error:
                outcome = outcome_of_error(error)
        self._tasks.pop(job.id, None)
        self._end(job, outcome)

    def _writer(self, record: StepJob) -> Callable[[object], Returned]:
        if os.getpid() != self._pid:  # a fork that has reached the end of the step
            os._exit(0)
        return partial(write_result, folder=record.folder / "result", limit=self._limit)

    def _end(self, job: Job, outcome: Outcome) -> None:
        if os.getpid() != self._pid:
            os._exit(0)
        del self._jobs[job.id]
        self._connection.send(JobEnded(job.id, outcome))


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


def main(descriptor: int) -> int:
    connection = EngineSocket(descriptor)
    setup = connection.receive()
    if not isinstance(setup, Setup):
        return 1
    _die_with(setup.parent)
    sys.stdout = AttributedOutput(1, connection.print)
    sys.stderr = AttributedOutput(2, connection.print)
    sys.path[:] = setup.search_path
    sys.argv = [sys.argv[0]]
    note_import(setup.reference)
    try:
        function = load(setup.reference)
    except InvalidStep as error:
        connection.send(LoadFailed(encodable(str(error))))
        return 1
    runner = Runner(function, connection, setup.result_limit)
    connection.send(Loaded(options_of(function), imported_sources()))
    _serve(connection, runner)
    if runner.is_busy:
        os._exit(1)  # the engine is gone, so the results are not needed
    return 0


def _serve(connection: EngineSocket, runner: Runner) -> None:
    while (request := connection.receive()) is not None:
        if isinstance(request, StartJob):
            runner.start(request.job)
        elif isinstance(request, CancelJob):
            runner.cancel_job(request.id)


def _die_with(parent: int) -> None:
    """Die with the parent. Ignore signals that are meant for the parent, which lets jobs end first.

    The handler does nothing. Unlike SIG_IGN it is not inherited by programs that the step starts;
    forks restore the default, so that they can be terminated.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
        os.register_at_fork(after_in_child=partial(signal.signal, number, signal.SIG_DFL))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
