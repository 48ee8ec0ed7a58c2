"""Prefetch: documents that are claimed before a worker is free for them.

*Ahead* are claims that wait in the engine. *Ready* are documents in a worker's job directory behind
the one that it reads. *Suspects* are documents that may have killed a process.

1. *Why.* A claim is a commit, and a worker that waits for it is idle. If documents take only
   milliseconds, the engine therefore claims some ahead, so that many share a commit, and sends the
   next ones to the worker, so that it continues without a pause. If documents take longer, nothing
   is prefetched: the order is decided when a worker is free.
2. *How many.* Per worker, claims for about 40 ms of work wait ahead (at most 32 in all; new ones
   are claimed when half of them are used up), and documents for about 30 ms are ready (at most 15).
   Both follow the moving average of the time that documents took. So a new document waits at most
   70 ms longer than without prefetch. While every worker has documents ready, the engine lets
   answers gather for half of the time that these take, at most 15 ms. Where a claim takes long, as
   on a distant database, all workers would wait for it: ahead and ready are then twice the time of
   a claim more, and at most 128 claims wait ahead.
3. *Only of the same customer.* A child that a hostile document has taken over can read the ready
   documents beside it, and all later ones. So a child reads documents of one customer only; for
   another customer, the slot changes its child (`child_pool`). A free slot whose child already
   serves the customer is preferred. A document with a password is never made ready.
4. *Nothing waits behind a long document.* After half a second, the ready documents behind it are
   withdrawn, and when all workers are that busy, the claims ahead are released. They are also
   released when the engine stops.
5. *Blame.* If a child dies, the first document without an answer is to blame. The ready documents
   behind it become claims ahead again, and have used up no attempt.
6. *Lost engines.* A claim tells the store whether it starts at once or is claimed ahead
   (`claim_for(workers, ahead)`). If the engine dies, a document claimed to start at once has used
   up an attempt; one claimed ahead gets it back. Both are suspects from then on, and so is a
   document whose attempt broke, until a person retries them.
7. *Suspects* are read alone, by a child that has read nothing before and reads nothing after, and
   are never claimed ahead: a claim ahead ends before a suspect. So a document that kills its engine
   is claimed at most once more than `max_attempts`. A suspect's result is saved first and alone,
   before the engine makes another claim: otherwise the suspect would be blamed again if the next
   document killed the engine.
8. *No polling.* A claim that ends before a suspect is a commit too, which wakes all engines. So
   after a claim that got less than was wanted, the engine claims ahead again only for a free
   worker.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence

from fairlead.model.documents import Claim
from fairlead.worker.slot import WorkerSlot

AHEAD_SECONDS = 0.04
READY_SECONDS = 0.03
MOST_AHEAD = 32
MOST_AHEAD_OF_SLOW_CLAIMS = 128
SLOW_CLAIM = 0.02
"""Seconds; a claim that takes longer waits for a distant database."""
STUCK_SECONDS = 0.5
_WEIGHT = 0.1


class Prefetch:
    """Claims that no worker has yet, in the order of the queue, and how many to add."""

    def __init__(self) -> None:
        self.claims: deque[Claim] = deque()
        self._mean: float | None = None
        self._claim_seconds = 0.0
        self._asked_at: float | None = None

    def learn(self, seconds: float) -> None:
        before = seconds if self._mean is None else self._mean
        self._mean = before + _WEIGHT * (seconds - before)

    def wanted(self, free: int, workers: int, busy: float = 0.0) -> int:
        """How many claims to add for so many free workers of all: none, or a whole portion.

        `busy` is for how many seconds every worker has been reading its document.
        """
        ahead = 0
        if self._mean is not None and busy <= STUCK_SECONDS:
            seconds = max(self._mean, busy, 1e-6)
            horizon = AHEAD_SECONDS + self._extra_seconds()
            ahead = min(self._most_ahead(), int(horizon * workers / seconds))
        self._asked_at = None
        if len(self.claims) >= max(free, ahead / 2):
            return 0
        self._asked_at = time.monotonic()
        return free + ahead - len(self.claims)

    def add(self, claims: Sequence[Claim]) -> None:
        """Add what was claimed, and learn how long that took."""
        self.claims.extend(claims)
        if self._asked_at is not None:
            self.learn_claim(time.monotonic() - self._asked_at)
            self._asked_at = None

    def learn_claim(self, seconds: float) -> None:
        self._claim_seconds += _WEIGHT * (seconds - self._claim_seconds)

    def _extra_seconds(self) -> float:
        """More work to have ahead and ready, so that workers go on during a slow claim."""
        return 2 * self._claim_seconds if self._claim_seconds > SLOW_CLAIM else 0.0

    def _most_ahead(self) -> int:
        return MOST_AHEAD_OF_SLOW_CLAIMS if self._extra_seconds() else MOST_AHEAD

    def assignments(self, slots: Sequence[WorkerSlot]) -> Iterator[tuple[WorkerSlot, Claim]]:
        """Which slot gets which claim: free slots first, then those that can take more."""
        free = [slot for slot in slots if slot.is_free]
        while free and self.claims:
            claim = self._take_for_free(slots)
            slot = min(free, key=lambda slot: slot.preference(claim))
            free.remove(slot)
            yield slot, claim
        while self.claims and (slot_for := self._slot_for(slots, self.claims[0])) is not None:
            yield slot_for, self.claims.popleft()

    def withdraw_stuck(self, slots: Sequence[WorkerSlot]) -> None:
        """Take back ready documents from behind documents that take long."""
        for slot in slots:
            if slot.behind and slot.seconds() > STUCK_SECONDS:
                self.take_back(slot.withdraw())

    def gather_seconds(self, slots: Sequence[WorkerSlot]) -> float:
        """How long answers may gather while every worker has documents ready."""
        behind = min((slot.behind for slot in slots), default=0)
        return 0.0 if self._mean is None else min(READY_SECONDS, behind * self._mean) / 2

    def take_back(self, claims: Sequence[Claim]) -> None:
        self.claims.extendleft(reversed(claims))

    def drop(self, claims: Sequence[Claim]) -> None:
        self.claims = deque(claim for claim in self.claims if claim not in claims)

    def _take_for_free(self, slots: Sequence[WorkerSlot]) -> Claim:
        """The first claim that cannot be made ready; otherwise the first of all.

        So a customer rarely occupies two children.
        """
        for number, claim in enumerate(self.claims):
            if self._slot_for(slots, claim) is None:
                del self.claims[number]
                return claim
        return self.claims.popleft()

    def _slot_for(self, slots: Sequence[WorkerSlot], claim: Claim) -> WorkerSlot | None:
        """Of the slots in which the claim can be made ready, the one with the least to read."""
        horizon = READY_SECONDS + self._extra_seconds()
        depth = 0 if self._mean is None else int(horizon / max(self._mean, 1e-6))
        possible = [slot for slot in slots if slot.has_room_for(claim, depth)]
        return min(possible, key=lambda slot: slot.behind, default=None)
