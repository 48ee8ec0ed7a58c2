"""Backoff: how long to wait before the next attempt at something that failed.

`exponential` is the formula, and `Backoff` one series of such pauses, with jitter. `Outage` is a
temporary failure (disk full, database locked) that several threads may meet at once: each retries
with `Attempts`, and the log mentions it only once.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from threading import Lock

from fairlead.errors import TemporarilyUnavailable

_log = logging.getLogger(__name__)

FIRST_SECONDS, LONGEST_SECONDS = 0.1, 5.0
_JITTER = 0.2
_own_random = random.Random()  # noqa: S311 - not a secret; a program's own sequence stays as it is


def exponential(failures: int, first: float, longest: float) -> float:
    """The pause after this number of failures in a row: it doubles from `first` to `longest`."""
    return min(longest, first * 2.0 ** min(failures - 1, 64))  # short of an overflow


class Backoff:
    """Pauses that double from `first` to `longest` seconds; `succeeded` resets them.

    Each pause is shortened at random by up to a fifth, so that processes do not retry in step.
    """

    def __init__(
        self,
        first: float = FIRST_SECONDS,
        longest: float = LONGEST_SECONDS,
        *,
        random: Callable[[], float] = _own_random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pause = 0.0
        self._first, self._longest = first, longest
        self._random, self._clock = random, clock
        self._failures = 0
        self._until = float("-inf")

    @property
    def is_failing(self) -> bool:
        return self._failures > 0

    def is_waiting(self) -> bool:
        return self._clock() < self._until

    def failed(self) -> float:
        """Note a failure; return the seconds to wait before the next attempt."""
        self._failures += 1
        self.pause = exponential(self._failures, self._first, self._longest)
        self.pause *= 1 - _JITTER * self._random()
        self._until = self._clock() + self.pause
        return self.pause

    def succeeded(self) -> None:
        self.pause, self._failures, self._until = 0.0, 0, float("-inf")


class Outage:
    """A temporary failure of several threads; logs when it begins and when it ends.

    Once an outage has lasted for `longest` seconds, errors are raised.
    """

    def __init__(
        self, longest: float = float("inf"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.longest = longest
        self.clock = clock
        self._lock = Lock()
        self._failing: set[Attempts] = set()
        self._since = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the last attempt of any thread failed."""
        return bool(self._failing)

    def failed(self, attempts: Attempts, error: TemporarilyUnavailable) -> bool:
        """Note a failure; False: the outage has lasted too long."""
        with self._lock:
            now = self.clock()
            if not self._failing:
                self._since = now
            if now >= self._since + self.longest:
                return False
            if not self._failing:
                _log.warning("fairlead: workers retry until this succeeds: %s", error)
            self._failing.add(attempts)
            return True

    def succeeded(self, attempts: Attempts) -> None:
        with self._lock:
            if self._failing == {attempts}:
                _log.warning("fairlead: workers continue")
            self._failing.discard(attempts)


class Attempts(Backoff):
    """The attempts of one thread; as a context manager it suppresses temporary failures."""

    def __init__(self, outage: Outage) -> None:
        super().__init__(clock=outage.clock)
        self._outage = outage

    def suppresses(self, error: TemporarilyUnavailable) -> bool:
        """Note a failure; False: the caller raises the error."""
        if not self._outage.failed(self, error):
            return False
        self.failed()
        return True

    def succeeded(self) -> None:
        if self.is_failing:
            super().succeeded()
            self._outage.succeeded(self)

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        return isinstance(error, TemporarilyUnavailable) and self.suppresses(error)
