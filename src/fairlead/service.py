"""Background services: the one way to start a thread.

A `Service` runs a duty until it is stopped. An error of the duty is logged once and retried with
backoff; it never ends the process. `run_in_thread` runs one function once. A `WakePipe` wakes a
thread that waits for file descriptors.
"""

from __future__ import annotations

import logging
import os
import resource
import select
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Event, RLock, Thread
from typing import NamedTuple, TypeVar

from fairlead.backoff import Backoff
from fairlead.errors import FairleadError

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

Duty = Callable[[], Generator[float, None, None]]
"""A generator that yields how many seconds it can wait; when it returns, the service ends.

It is closed when the service stops, and before it is started again after an error."""


class Health(NamedTuple):
    """Whether a service runs, and the error after which it retries."""

    name: str
    is_running: bool
    error: BaseException | None = None


class Service:
    """A named duty in a daemon thread. `on_stop` wakes a duty that waits outside of `yield`."""

    def __init__(
        self,
        name: str,
        duty: Duty,
        *,
        backoff: Backoff | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._duty = duty
        self._backoff = backoff or Backoff()
        self._on_stop = on_stop
        self._stopping, self._woken = Event(), Event()
        self._error: BaseException | None = None
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = _start_thread(self._name, self._run)

    def wake(self) -> None:
        """End the wait of the duty, from any thread."""
        self._woken.set()

    def request_stop(self) -> None:
        """Ask the duty to stop when it next yields; return at once."""
        self._stopping.set()
        self._woken.set()
        self._on_stop()

    def stop(self, timeout: float | None = None) -> None:
        """Stop when the duty next yields, and wait for that."""
        self.request_stop()
        self.join(timeout)

    def join(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def health(self) -> Health:
        is_running = self._thread is not None and self._thread.is_alive()
        return Health(self._name, is_running, self._error)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._perform()
            except BaseException as error:  # also a panic of a Rust library
                self._note(error)
                self._stopping.wait(self._backoff.failed())
            else:
                return

    def _perform(self) -> None:
        with closing(self._duty()) as duty:
            for seconds in duty:
                if self._stopping.is_set():
                    return
                self.note_success()
                if seconds > 0:
                    self._woken.wait(seconds)
                    self._woken.clear()

    def _note(self, error: BaseException) -> None:
        if self._error is None:
            traceback = None if isinstance(error, FairleadError) else error
            _log.warning(
                "fairlead: %s failed and is retried: %s", self._name, error, exc_info=traceback
            )
        self._error = error

    def note_success(self) -> None:
        """Note that the duty works again; every `yield` does so too."""
        if self._error is not None:
            _log.warning("fairlead: %s works again", self._name)
            self._error = None
            self._backoff.succeeded()


@contextmanager
def running(*services: Service) -> Iterator[None]:
    """Run services for as long as the context lasts; they stop in reverse order."""
    with ExitStack() as stack:
        for service in services:
            service.start()
            stack.callback(service.stop)
        yield


def run_in_thread(name: str, function: Callable[[], _Result]) -> Future[_Result]:
    """Run a function once in a daemon thread; raises RuntimeError if no thread can be started."""
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            result = function()
        except BaseException as error:  # raised by `result`
            future.set_exception(error)
        else:
            future.set_result(result)

    _start_thread(name, run)
    return future


def _start_thread(name: str, function: Callable[[], None]) -> Thread:
    thread = Thread(target=function, name=f"fairlead-{name}", daemon=True)
    thread.start()
    return thread


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard one; a shell often leaves it at 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # the old limit stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class WakePipe:
    """Readable after `wake`, which any thread and signal handler may call, even after `close`."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = RLock()  # a signal handler may run while its own thread holds it
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def fileno(self) -> int:
        return self._reader

    def wake(self) -> None:
        """Make the pipe readable, unless it is closed: its number may be another file's."""
        with self._lock, suppress(BlockingIOError):  # a full pipe is readable too
            if self._writer >= 0:
                os.write(self._writer, b"!")

    def wait(self, seconds: float) -> None:
        self._poll.poll(1000 * seconds)

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)

    def close(self) -> None:
        with self._lock:
            reader, writer, self._reader, self._writer = self._reader, self._writer, -1, -1
            if reader >= 0:
                os.close(reader)
                os.close(writer)
