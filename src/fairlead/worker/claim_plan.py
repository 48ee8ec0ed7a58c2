"""What an engine claims next: documents that can start now, then some ahead, within all limits."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.model.documents import Claim
from fairlead.model.pipelines import ClaimLimit, ClaimRequest
from fairlead.worker.prefetch import Prefetch
from fairlead.worker.step_runner import StepRunner
from fairlead.worker.worker_pool import WorkerPool

NO_LIMIT = 1 << 30


class ClaimPlan:
    """Makes requests from the free workers and steps, and notes which queues had too few documents.

    After such a claim, a queue is *dry* until something is committed.
    """

    def __init__(self, workers: WorkerPool, prefetch: Prefetch, runner: StepRunner) -> None:
        self._workers = workers
        self._prefetch = prefetch
        self._runner = runner
        self.open_queues: set[str] = set()
        """The queues whose documents could start now."""
        self.dry_queues: set[str] = set()
        """The queues of which the last claim found fewer documents than could start."""
        self._fell_short = False
        """Whether the last claim got less than was wanted; the next document may be a suspect."""

    @property
    def has_idle(self) -> bool:
        """Whether a document of a dry queue could start at once."""
        return bool(self.dry_queues & self.open_queues)

    def may_find_work(self) -> bool:
        """Whether a claim may get what the last one did not."""
        if self.open_queues:
            return bool(self.open_queues - self.dry_queues)
        return not self._fell_short

    def free_places(self) -> int:
        """How many workers process no document."""
        slots = self._workers.slots
        reading = sum(slot.claim is not None for slot in slots)
        return max(0, len(slots) - reading - self._runner.places_taken())

    def request(self, busy: float) -> ClaimRequest | None:
        """What to claim; None: nothing. `busy` is for how many seconds no place has been free."""
        places, slots = self.free_places(), self._workers.slots
        free = min(sum(slot.is_free for slot in slots), places)
        wanted = self._prefetch.wanted(free, len(slots), busy)
        prefetched = len(self._prefetch.claims)
        now = max(0, free - prefetched)
        self.open_queues = set()
        if not wanted and not now and not self._runner.has_steps:
            return None
        sets = self._runner.queue_sets()
        being_read = [claim for slot in slots for claim in slot.claims]
        of_steps = self._runner.limits([*self._prefetch.claims, *being_read], places, busy)
        to_read = ClaimLimit(now, max(now, wanted), sets.to_read)
        in_places = ClaimLimit(max(0, places - prefetched), NO_LIMIT, sets.in_places)
        limits = [to_read, in_places, *of_steps]
        left = {name: _least(limits, name) for name in sets.served}
        self.open_queues = {name for name, least in left.items() if least.now}
        names = [name for name, least in left.items() if least.total]
        at_once = to_read.now + sum(limit.now for limit in of_steps)
        total = to_read.total + sum(limit.total for limit in of_steps)
        if not total:
            return None
        engine = self._workers.names[0]
        return ClaimRequest([engine] * at_once, [engine] * (total - at_once), names, limits)

    def note(self, request: ClaimRequest, claims: Sequence[Claim]) -> None:
        """Note the queues that had fewer documents than were wanted."""
        left = [
            limit._replace(now=limit.now - taken, total=limit.total - taken)
            for limit in request.limits
            for taken in [sum(claim.pipeline in limit.queues for claim in claims)]
        ]
        of_queues = {name: _least(left, name) for name in request.pipelines or ()}
        self.dry_queues = {name for name, least in of_queues.items() if least.now > 0}
        self._fell_short = any(least.total > 0 for least in of_queues.values())


def _least(limits: Sequence[ClaimLimit], queue: str) -> ClaimLimit:
    """What all limits together leave for documents of a queue."""
    own = [limit for limit in limits if queue in limit.queues]
    least, total = min(limit.now for limit in own), min(limit.total for limit in own)
    return ClaimLimit(least, total, frozenset([queue]))
