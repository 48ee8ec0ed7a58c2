"""Threads for what waits for another machine, of which each customer has a share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")

AT_ONCE = 32
SHARE = AT_ONCE // 4
"""How many threads a customer has at most, so that slow files of one hold up no other."""


class _Call(Generic[T]):
    """Something to do, and where its answer goes."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self.answer = Future[T]()

    def run(self) -> None:
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            self.answer.set_result(self._call())
        except BaseException as error:  # for who waits for it
            self.answer.set_exception(error)


class _CustomerQueue:
    """What one customer asked for that has not begun, and how many threads it has."""

    def __init__(self) -> None:
        self.calls: deque[_Call[Any]] = deque()
        self.threads = 0


class SharedThreads:
    """Calls of many customers. What exceeds a customer's share waits in its own line."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=name)
        self._lines: dict[str | None, _CustomerQueue] = {}
        self._lock = Lock()
        self._is_closed = False

    def submit(self, customer: str | None, call: Callable[[], T]) -> Future[T]:
        """The answer, as soon as it is there. `cancel` takes back what has not begun."""
        made = _Call(call)
        with self._lock:
            if self._is_closed:
                made.answer.cancel()
                return made.answer
            line = self._lines.setdefault(customer, _CustomerQueue())
            line.calls.append(made)
            if line.threads < SHARE:
                line.threads += 1
                self._pool.submit(self._serve, customer, line)
        return made.answer

    def _serve(self, customer: str | None, line: _CustomerQueue) -> None:
        """Make one call of a customer. Others have their turns before its next one."""
        with self._lock:
            following = line.calls.popleft() if line.calls else None
        if following is not None:
            following.run()
        with self._lock:
            if line.calls and not self._is_closed:
                self._pool.submit(self._serve, customer, line)
                return
            line.threads -= 1
            if not line.threads:
                del self._lines[customer]

    def close(self) -> None:
        """Finish what was begun, and cancel the rest."""
        with self._lock:
            self._is_closed = True
            left = [each for line in self._lines.values() for each in line.calls]
        for each in left:
            each.answer.cancel()
        self._pool.shutdown(cancel_futures=True)
