"""The retry rule: when to try again after a failed attempt, and when to give up.

Reading a document is retried by `RetryRule` with the installation's settings, a step with its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.backoff import exponential
from fairlead.errors import InvalidSetting
from fairlead.model.documents import WORKER_LOST

LEAST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class RetryRule:
    """At most `max_attempts`; the delay doubles from `first_delay` up to `longest_delay`."""

    max_attempts: int = 3
    first_delay: float = 2.0
    longest_delay: float = 300.0

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise InvalidSetting(f"max_attempts must be 1 or more; got {self.max_attempts!r}")
        if not 0 <= self.first_delay <= self.longest_delay:
            raise InvalidSetting(
                "retry_delay must be 0 seconds or more and at most "
                f"{self.longest_delay:g}; got {self.first_delay!r}"
            )

    def delay(self, attempts: int) -> float | None:
        """Seconds until the next try after this many attempts; None: no further try."""
        if attempts >= self.max_attempts:
            return None
        return exponential(attempts, self.first_delay, self.longest_delay)


def pause_until_later(asked: float, waited: float) -> float:
    """The seconds until a step is called again that asked for a later call.

    It has been asking for `waited` seconds. A pause is at least a second and a hundredth of that
    time, so that a step that always asks is called about a thousand times a day.
    """
    return max(asked, LEAST_PAUSE, waited / 100)


def is_last_break(code: str, *, broke_before: bool) -> bool:
    """Whether a document that broke its process has failed for good, whatever attempts are left.

    The attempt after the first break ran alone in a fresh process, so the document is to blame. A
    lost worker says nothing about the document.
    """
    return broke_before and code != WORKER_LOST
