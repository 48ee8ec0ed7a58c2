"""The wait of a writer for the lock of another process; also SQLite's busy handler.

SQLite's own busy timeout cannot be cut short: it runs to its end even if this process is about to
stop, and in the main thread it blocks signal handlers.
"""

from __future__ import annotations

import time

from fairlead.backoff import Backoff

BUSY_SECONDS = 30.0
STILL_BUSY_SECONDS = 1.0
"""How long to wait for a lock after the last wait failed, because other threads wait too."""
LAST_SECONDS = 2.0
"""How long to wait when this process is about to stop."""
STILL_LAST_SECONDS = 0.05


class LockWait:
    """Called after each failed attempt; it returns whether to try again.

    `seconds` is how long to wait; None: as long as a writer waits.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self.is_vain = False
        """Whether the last wait ended without the lock."""
        self._is_hurried = False
        self._since = 0.0
        self._backoff = Backoff(0.001, 0.1)

    def __call__(self, attempts: int) -> bool:
        """Pause before the next attempt; False: the time is over."""
        if attempts == 0:
            self._since = time.monotonic()
            self._backoff.succeeded()
        seconds_left = self._since + self.longest - time.monotonic()
        if seconds_left <= 0:
            return False
        time.sleep(min(seconds_left, self._backoff.failed()))
        return True

    @property
    def longest(self) -> float:
        if self._seconds is not None:
            return self._seconds
        if self._is_hurried:
            return STILL_LAST_SECONDS if self.is_vain else LAST_SECONDS
        return STILL_BUSY_SECONDS if self.is_vain else BUSY_SECONDS

    def hurry(self) -> None:
        """Wait only briefly from now on. Signal handlers may call it."""
        self._since = time.monotonic()
        self._is_hurried = True
