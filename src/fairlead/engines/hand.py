"""The hand: documents that are claimed and not begun."""

from __future__ import annotations

from collections import deque

from fairlead.core.documents import Claim

AHEAD_SECONDS = 0.05
"""Work that may be claimed beforehand. Whoever comes meanwhile waits that much longer at most."""
MOST_AHEAD = 32
STUCK_SECONDS = 0.5
"""After which claims go back while no worker becomes free: another engine's may be."""
_WEIGHT = 0.1


class Hand:
    """Claims in their order, and how many to hold by how long documents take.

    It is empty where a document takes longer than a moment: then whose turn it is, is decided when
    a worker is free.
    """

    def __init__(self, workers: int) -> None:
        self.claims: deque[Claim] = deque()
        self._workers = workers
        self._mean: float | None = None

    def learn(self, seconds: float) -> None:
        """A document took so long."""
        before = seconds if self._mean is None else self._mean
        self._mean = before + _WEIGHT * (seconds - before)

    def wanted(self, free: int, busy: float = 0.0) -> int:
        """How many claims to add, with so many workers free: none, or a whole portion.

        `busy` says for how many seconds every worker has been at its document.
        """
        ahead = self._ahead(busy)
        if len(self.claims) >= max(free, ahead / 2):
            return 0
        return free + ahead - len(self.claims)

    def is_stuck(self, busy: float) -> bool:
        """Whether claims wait here for documents that take longer than was to be expected."""
        return bool(self.claims) and busy > STUCK_SECONDS

    def drop(self, claim: Claim) -> None:
        """Let go of a claim that is held no more."""
        if claim in self.claims:
            self.claims.remove(claim)

    def _ahead(self, busy: float) -> int:
        if self._mean is None:
            return 0
        return min(MOST_AHEAD, int(AHEAD_SECONDS * self._workers / max(self._mean, busy, 1e-6)))
