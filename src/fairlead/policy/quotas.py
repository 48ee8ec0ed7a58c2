"""Quotas of pipelines: how many documents may start per second, and how many may run at once."""

from __future__ import annotations

from dataclasses import dataclass

_SLACK = 1e-9
"""Sums of floats may end just below one."""


@dataclass(slots=True)
class Quota:
    """A pipeline's quota and its use.

    `rate` is starts per second, kept by a token bucket that holds one second's starts, at least
    one. `tokens` None: the bucket has never been used and is full. `reopened_at` is when documents
    could start again after the quota, or a lack of workers, had held them back; None: never.
    """

    rate: float | None = None
    max_running: int | None = None
    running: int = 0
    tokens: float | None = None
    tokens_at: float = 0.0
    reopened_at: float | None = None

    def is_open(self, now: float) -> bool:
        """Whether a document may start now."""
        if self.max_running is not None and self.running >= self.max_running:
            return False
        return self.has_token(now)

    def has_token(self, now: float) -> bool:
        """Whether the rate lets a document start now; only time brings a token back."""
        return self.rate is None or self._filled(now) >= 1.0

    def tokens_left(self, now: float) -> float:
        """How many documents the rate lets start at once; 0 without a rate."""
        return 0.0 if self.rate is None else self._filled(now)

    def start(self, now: float) -> None:
        self.running += 1
        if self.rate is not None:
            self.tokens = self._filled(now) - 1.0
            self.tokens_at = max(self.tokens_at, now)
            if not self.has_token(now):
                self.reopen(self.opens_at(now))

    def end(self, now: float) -> None:
        if self.max_running is not None and self.running >= self.max_running:
            self.reopen(now)
        self.running = max(0, self.running - 1)

    def reopen(self, at: float) -> None:
        """Documents may start from this time; before it, they could not."""
        self.reopened_at = at if self.reopened_at is None else max(self.reopened_at, at)

    def opens_at(self, now: float) -> float:
        """When the next token is available; `now` if one is."""
        if self.rate is None:
            return now
        missing = 1.0 - self._filled(now)
        return now + (missing + _SLACK) / self.rate if missing > 0 else now

    def _filled(self, now: float) -> float:
        """The tokens at `now`."""
        assert self.rate is not None  # noqa: S101 (called for a rate only)
        burst = max(1.0, self.rate)
        if self.tokens is None:
            return burst
        return min(burst, self.tokens + self.rate * max(0.0, now - self.tokens_at) + _SLACK)


def limit_text(rate: float) -> str:
    """A rate as it is written in the settings, such as 15/s."""
    for unit, seconds in (("s", 1.0), ("min", 60.0)):
        if rate * seconds >= 1 and (rate * seconds).is_integer():
            return f"{rate * seconds:.0f}/{unit}"
    return f"{rate * 3600:.0f}/h"


def quota_text(rate: float | None, max_running: int | None) -> str:
    """A quota in words, for logs."""
    words = [] if rate is None else [limit_text(rate)]
    words += [] if max_running is None else [f"max_running {max_running}"]
    return ", ".join(words) or "none"
