"""The loop of `run_step`: claims jobs of a pulled step, renews their leases, reports outcomes.

The function gets the same `Job` as in a worker. Its file and results are in a temporary folder.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx

from fairlead import errors
from fairlead.client.transport import decoded
from fairlead.model.jobs import PulledJob, PulledJobList
from fairlead.steps.declare import options_of
from fairlead.steps.job import Job
from fairlead.steps.outcomes import (
    DEFAULT_RESULT_LIMIT,
    Later,
    Outcome,
    Returned,
    StepJob,
    StepRefused,
    TimedOut,
    cause_of,
)
from fairlead.steps.results import write_result
from fairlead.steps.run import is_async, outcome_of_error, outcome_of_value

_log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""How long a claim waits for a job; a stop may take as long."""
PAUSE_SECONDS = 5.0
"""The pause after an unreachable server."""
_OUTAGES = (errors.NoConnection, errors.TemporarilyUnavailable, errors.ServerFailed)
_NOT_TAKEN = (errors.UsageError, errors.TooLarge)


class Requests(Protocol):
    """The method of a transport that the loop uses."""

    async def request(self, method: str, *path: str, **options: Any) -> httpx.Response: ...


class AsyncStepLoop:
    """Runs a function on the documents of a pulled step, until a signal or until idle."""

    def __init__(
        self,
        requests: Requests,
        function: Callable[[Job], Any],
        *,
        name: str | None,
        concurrency: int | None,
        until_idle: bool,
    ) -> None:
        self._requests = requests
        self._function = function
        self._name = name or getattr(function, "__name__", "")
        self._options = options_of(function)
        self._concurrency = concurrency or self._options.concurrency
        self._until_idle = until_idle
        self._is_stopping = False
        self._was_reached = False
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Process documents; SIGINT and SIGTERM let running jobs finish, then end it."""
        threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="step")
        with self._signals():
            try:
                while not self._is_stopping:
                    if not await self._step(threads) and self._until_idle:
                        break
            finally:
                if self._running:
                    await asyncio.wait(self._running)
                threads.shutdown(wait=False)

    async def _step(self, threads: ThreadPoolExecutor) -> bool:
        """Start jobs in free places, or wait for one to end; False: nothing to do."""
        free = self._concurrency - len(self._running)
        jobs = await self._claim(free) if free else []
        for job in jobs:
            if self._is_stopping:  # a signal came during the claim
                await self._send(job, "retry", {"after": 0})
                continue
            task = asyncio.create_task(self._work(job, threads))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if self._running and (not free or (self._until_idle and not jobs)):
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            return True
        return bool(jobs)

    async def _claim(self, number: int) -> list[PulledJob]:
        wait = 0.0 if self._until_idle else POLL_SECONDS
        body = {"steps": [self._name], "max": min(number, 100), "wait": wait}
        try:
            # Not repeated: jobs of a lost response are requeued at the end of their lease.
            response = await self._requests.request(
                "POST", "jobs", "claim", json=body, more_seconds=wait, idempotent=False
            )
        except _OUTAGES as error:
            if not self._was_reached:
                raise
            _log.warning("fairlead: no jobs can be claimed: %s", error)
            await asyncio.sleep(PAUSE_SECONDS)
            return []
        self._was_reached = True
        return decoded(PulledJobList, response).jobs

    # --- one job ---

    async def _work(self, job: PulledJob, threads: ThreadPoolExecutor) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
                await self._process(job, Path(folder), threads)
        except errors.JobLost:
            _log.warning("fairlead: document %s: the job was lost", job.document)
        except errors.FairleadError as error:  # it is requeued at the end of its lease
            _log.warning("fairlead: document %s: %s", job.document, error)

    async def _process(self, job: PulledJob, folder: Path, threads: ThreadPoolExecutor) -> None:
        progress: list[tuple[int, int]] = []
        await self._fetch(job, folder)
        record = StepJob(
            *(job.document, job.customer, job.name, job.kind, job.metadata, job.attempt), folder
        )
        argument = Job(record, lambda done, total: progress.append((done, total)))
        call = asyncio.ensure_future(self._called(argument, threads))
        renewal = asyncio.create_task(self._renew(job, argument, call, progress))
        try:
            outcome = await self._outcome(call, folder, threads)
        finally:
            renewal.cancel()
            with suppress(asyncio.CancelledError):
                await renewal
        if not argument.cancelled:
            await self._report(job, outcome)

    async def _fetch(self, job: PulledJob, folder: Path) -> None:
        names = {"original": job.content, "text": job.text, "data.json": job.data}
        for name, path in (names | {"markdown": job.markdown}).items():
            if path is not None:
                response = await self._requests.request("GET", *path.split("/")[2:])
                (folder / name).write_bytes(response.content)

    async def _called(self, job: Job, threads: ThreadPoolExecutor) -> Any:
        if is_async(self._function):
            return await self._function(job)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, self._function, job)

    async def _outcome(
        self, call: asyncio.Future[Any], folder: Path, threads: ThreadPoolExecutor
    ) -> Outcome:
        try:
            value = await asyncio.wait_for(call, self._options.timeout)
        except TimeoutError as error:
            is_own = call.cancelled() or not call.done()
            return TimedOut(self._options.timeout) if is_own else outcome_of_error(error)
        except asyncio.CancelledError as error:
            return outcome_of_error(error)
        except Exception as error:
            return outcome_of_error(error)
        write = partial(write_result, folder=folder / "result", limit=DEFAULT_RESULT_LIMIT)
        written = partial(outcome_of_value, value, write)
        return await asyncio.get_running_loop().run_in_executor(threads, written)

    async def _renew(
        self,
        job: PulledJob,
        argument: Job,
        call: asyncio.Future[Any],
        progress: list[tuple[int, int]],
    ) -> None:
        """Renew the lease until the task is cancelled; cancel the function if the job is lost."""
        while True:
            await asyncio.sleep(job.lease / 3)
            latest = progress[-1] if progress else None
            body = {} if latest is None else {"json": {"done": latest[0], "total": latest[1]}}
            try:
                await self._requests.request("POST", "jobs", job.token, "renew", **body)
            except errors.JobLost:
                argument.mark_cancelled()
                if is_async(self._function):
                    call.cancel()
                return
            except errors.FairleadError as error:
                _log.warning("fairlead: document %s: %s", job.document, error)

    # --- ends ---

    async def _report(self, job: PulledJob, outcome: Outcome) -> None:
        match outcome:
            case Returned():
                await self._finish(job, outcome)
            case StepRefused():
                await self._send(job, "refuse", {"code": outcome.code, "detail": outcome.message})
            case Later():
                body = {"after": outcome.seconds, "retry_for": self._options.retry_for}
                await self._send(job, "retry", body)
            case _:
                await self._failed(job, cause_of(outcome))

    async def _finish(self, job: PulledJob, returned: Returned) -> None:
        with _form(returned) as form:
            body: dict[str, Any] = {"files": form} if form else {"json": {}}
            try:
                await self._requests.request("POST", "jobs", job.token, "finish", **body)
            except _NOT_TAKEN as error:
                await self._failed(job, str(error))

    async def _failed(self, job: PulledJob, cause: str) -> None:
        _log.warning("fairlead: document %s: step %s: %s", job.document, job.step, cause)
        await self._send(job, "retry", {"error": cause, "attempts": self._options.attempts})

    async def _send(self, job: PulledJob, action: str, body: Mapping[str, Any]) -> None:
        await self._requests.request("POST", "jobs", job.token, action, json=body)

    # --- signals ---

    def _stop(self) -> None:
        self._is_stopping = True

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Drain at SIGINT and SIGTERM, if this is the main thread."""
        loop, handled = asyncio.get_running_loop(), []
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self._stop)
                handled.append(number)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)


class _InThreads:
    """The requests of a sync transport, each in a thread."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    async def request(self, method: str, *path: str, **options: Any) -> httpx.Response:
        call = partial(self._transport.request, method, *path, **options)
        response: httpx.Response = await asyncio.to_thread(call)
        return response


class StepLoop:
    """The same loop over a sync transport."""

    def __init__(self, transport: Any, function: Callable[[Job], Any], **options: Any) -> None:
        self._loop = AsyncStepLoop(_InThreads(transport), function, **options)

    def run(self) -> None:
        asyncio.run(self._loop.run())


@contextmanager
def _form(returned: Returned) -> Iterator[list[tuple[str, Any]]]:
    """The fields of the form with a result; empty if the step found nothing."""
    texts = {"text": returned.text, "markdown": returned.markdown, "data": returned.data}
    form: list[tuple[str, Any]] = [
        (field, (None, file.read())) for field, file in texts.items() if file is not None
    ]
    named = [("file", file) for file in returned.files]
    named += [
        ("part" if part.pipeline is None else f"part.{part.pipeline}", part)
        for part in returned.parts
    ]
    opened = [(field, file.name, file.open()) for field, file in named]
    try:
        yield form + [(field, (name, source)) for field, name, source in opened]
    finally:
        for _, _, source in opened:
            source.close()
