"""The hand: documents that are claimed and not begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from fairlead.model.documents import Claim

AHEAD_SECONDS = 0.04
"""Work that may be claimed beforehand for each worker. Whoever comes meanwhile waits that much
longer at most, besides for what lies ready."""
READY_SECONDS = 0.03
"""Work that may lie ready with each worker, so that it goes on without a pause."""
MOST_AHEAD = 32
STUCK_SECONDS = 0.5
"""After which claims go back while no worker becomes free: another engine's may be."""
_WEIGHT = 0.1


class Prefetch:
    """Claims in their order, and how many to hold by how long documents take.

    It is empty where a document takes longer than a moment: then whose turn it is, is decided when
    a worker is free.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.claims: deque[Claim] = deque()
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

    @property
    def depth(self) -> int:
        """How many documents may lie ready with a worker."""
        return 0 if self._mean is None else int(READY_SECONDS / max(self._mean, 1e-6))

    def nap(self, behind: int) -> float:
        """For how long nobody needs to be heard, as each worker has so many more documents."""
        return 0.0 if self._mean is None else min(READY_SECONDS, behind * self._mean) / 2

    def is_stuck(self, busy: float) -> bool:
        """Whether claims wait here for documents that take longer than was to be expected."""
        return bool(self.claims) and busy > STUCK_SECONDS

    def take_back(self, claims: Sequence[Claim]) -> None:
        """Put claims before the others again."""
        self.claims.extendleft(reversed(claims))

    def drop(self, claim: Claim) -> None:
        """Let go of a claim that is held no more."""
        if claim in self.claims:
            self.claims.remove(claim)

    def _ahead(self, busy: float) -> int:
        if self._mean is None:
            return 0
        return min(MOST_AHEAD, int(AHEAD_SECONDS * self.workers / max(self._mean, busy, 1e-6)))
