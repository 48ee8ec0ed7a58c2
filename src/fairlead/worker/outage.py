"""An outage: what cannot be done now is tried again, with growing pauses, until it can.

Nobody ends because of it. It is told once when it begins, and once when all goes on, however many
have met it.
"""

from __future__ import annotations

import logging
import time
from threading import Lock
from types import TracebackType

from fairlead.errors import TemporarilyUnavailable

_log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Outage:
    """What several threads meet together. It is on while one of them cannot do what it has to.

    `patience` says for how many seconds it is borne; later its error is raised.
    """

    def __init__(self, patience: float = float("inf")) -> None:
        self.patience = patience
        self._lock = Lock()
        self._met: set[Tries] = set()
        self._since = 0.0

    @property
    def is_on(self) -> bool:
        """Whether somebody could not do what it had to when it last tried."""
        return bool(self._met)

    def begin(self, who: Tries, error: TemporarilyUnavailable) -> bool:
        """Somebody has met it; False: it has lasted for too long."""
        with self._lock:
            now = time.monotonic()
            self._since = self._since if self._met else now
            if now >= self._since + self.patience:
                return False
            if not self._met:
                _log.warning("fairlead: work is held up, and goes on by itself: %s", error)
            self._met.add(who)
            return True

    def end(self, who: Tries) -> None:
        """Somebody can go on."""
        with self._lock:
            if who in self._met:
                self._met.remove(who)
                if not self._met:
                    _log.warning("fairlead: work goes on")


class Tries:
    """The tries of one thread. Around what may meet the outage: that it does is no end."""

    def __init__(self, outage: Outage) -> None:
        self.pause = 0.0
        """Seconds until the next try."""
        self._outage = outage
        self._until = float("-inf")

    @property
    def is_on(self) -> bool:
        """Whether the last try was in vain."""
        return self.pause > 0

    def is_resting(self) -> bool:
        """Whether the last try was in vain a moment ago, and the next one is better put off."""
        return time.monotonic() < self._until

    def bear(self, error: TemporarilyUnavailable) -> bool:
        """Note that a try was in vain; False: its error is to be raised."""
        if not self._outage.begin(self, error):
            return False
        self.pause = min(LONGEST_PAUSE, 2 * self.pause or FIRST_PAUSE)
        self._until = time.monotonic() + self.pause
        return True

    def over(self) -> None:
        """A try was good."""
        if self.pause:
            self.pause = 0.0
            self._outage.end(self)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return isinstance(error, TemporarilyUnavailable) and self.bear(error)
