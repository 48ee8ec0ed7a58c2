"""Waiting for the lock of another process, for as long as there is time for it.

SQLite's own way of waiting cannot be cut short: it goes on to its end although this process was
told to stop, and in the main thread not even a signal is heard before.
"""

from __future__ import annotations

import time

BUSY_SECONDS = 30.0
STILL_BUSY_SECONDS = 1.0
"""How long to wait for a lock that was just waited for in vain: others wait behind whoever does."""
LAST_SECONDS = 2.0
"""How long to wait when this process is about to stop."""
STILL_LAST_SECONDS = 0.05
_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.025, 0.05, 0.1)
"""Between two looks, as SQLite makes them."""


class LockWait:
    """Called by SQLite after each look in vain; whether to look again. For one connection."""

    def __init__(self) -> None:
        self.is_vain = False
        """Whether the last wait was in vain."""
        self._is_hurried = False
        self._since = 0.0

    def __call__(self, looks: int) -> bool:
        """Pause, and look again; False: it has been waited for long enough."""
        if looks == 0:
            self._since = time.monotonic()
        left = self._since + self.longest - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, _PAUSES[min(looks, len(_PAUSES) - 1)]))
        return True

    @property
    def longest(self) -> float:
        """How many seconds a lock is waited for."""
        if self._is_hurried:
            return STILL_LAST_SECONDS if self.is_vain else LAST_SECONDS
        return STILL_BUSY_SECONDS if self.is_vain else BUSY_SECONDS

    def hurry(self) -> None:
        """Wait only for a moment from now on. May be called anywhere, also by a signal."""
        self._since = time.monotonic()
        self._is_hurried = True
