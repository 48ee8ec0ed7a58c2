"""What waits: documents, and the entries of members in the queue. Pure, as the queue is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.policy.fair import FairClock, FairShare, Place

Slot = tuple[int, int]
Turn = tuple[bool, int, int]


class QueuedDocument:
    """A waiting document. `number` is its arrival number."""

    __slots__ = (
        "customer", "estimate", "is_displaced", "is_waiting", "number", "pipeline", "priority",
        "slot", "submitted_at", "urgent",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        customer: int,
        slot: Slot,
        *,
        priority: int = 1,
        urgent: bool = False,
        estimate: float = 0.0,
        submitted_at: float = 0.0,
        pipeline: str = DEFAULT_PIPELINE,
        is_displaced: bool = False,
    ) -> None:
        self.number = number
        self.customer = customer
        self.slot = slot
        self.priority = priority
        self.urgent = urgent
        self.estimate = estimate
        self.submitted_at = submitted_at
        self.pipeline = pipeline
        self.is_displaced = is_displaced
        self.is_waiting = True

    def __lt__(self, other: QueuedDocument) -> bool:
        return False  # equal keys are of the same document, which was queued again

    @property
    def key(self) -> Slot:
        """Its own slot under classic, which it has unless it swapped slots."""
        return self.priority, self.number

    @property
    def turn(self) -> Turn:
        """The order in which a customer's documents go under classic."""
        return not self.urgent, self.priority, self.number


@dataclass(slots=True, eq=False)
class Member:
    """A customer, or an account that several customers share; `account` is the one it is inside."""

    id: int
    account: int | None = None
    is_account: bool = False
    is_paused: bool = False
    cap: int | None = None
    processing: int = 0
    delayed: int = 0
    last_started_at: float | None = None
    share: FairShare = field(default_factory=FairShare)
    work: float = 0.0
    work_at: float = 0.0
    """Work done for it, fading with the reset interval; for the figures, not for the order."""
    inner_clock: FairClock | None = None
    resumed_at: float | None = None
    told_of: float | None = None
    """Since when it waited as it was last reported that it waited longer than the bound."""
    entries: dict[str, Entry] = field(default_factory=dict)
    inner: dict[int, Member] = field(default_factory=dict)
    """The customers of a shared account, under fair."""

    @property
    def waiting(self) -> int:
        """Documents that wait, those that are delayed included."""
        return self.delayed + sum(entry.waiting for entry in self.entries.values())

    @property
    def may_start_more(self) -> bool:
        return not self.is_paused and (self.cap is None or self.processing < self.cap)

    def entry(self, pipeline: str) -> Entry:
        entry = self.entries.get(pipeline)
        if entry is None:
            entry = self.entries[pipeline] = Entry(self, pipeline)
        return entry


class Entry:
    """A member's waiting documents of one pipeline, or the first of them.

    `head` is the best slot and `oldest` (arrival number, time) of the oldest document; None while
    documents wait: it is to be loaded. Documents are loaded from the front of each order, up to
    `last_slot`, `last_age` and `last_turn`; None: all are. `has_ahead`: some may be urgent or
    displaced.

    After a start the oldest document need not be known at once: the member waits anew from then on.
    `is_oldest_stale`: it was started, and the next one is not loaded.

    `queued_as` is its valid key among the places, with `place`; `lane_key` the one among the waits.
    """

    __slots__ = (
        "ages", "ahead", "has_ahead", "head", "is_oldest_stale", "lane_key", "last_age",
        "last_slot", "last_turn", "member", "oldest", "pipeline", "place", "queued_as", "slots",
        "waiting",
    )  # fmt: skip

    def __init__(self, member: Member, pipeline: str) -> None:
        self.member = member
        self.pipeline = pipeline
        self.waiting = 0
        self.head: Slot | None = None
        self.oldest: tuple[int, float] | None = None
        self.is_oldest_stale = False
        self.has_ahead = False
        self.last_slot: Slot | None = None
        self.last_age: int | None = None
        self.last_turn: Turn | None = None
        self.slots: list[tuple[Slot, int, QueuedDocument]] = []
        self.ages: list[tuple[int, QueuedDocument]] = []
        self.ahead: list[tuple[Turn, QueuedDocument]] = []
        self.place: Place | None = None
        self.queued_as: PlaceKey | None = None
        self.lane_key: WaitKey | None = None

    def __lt__(self, other: Entry) -> bool:
        return False  # equal keys are of the same entry

    @property
    def is_loaded(self) -> bool:
        """Whether documents of it were loaded."""
        return bool(self.slots) or self.last_slot is not None

    @property
    def is_known(self) -> bool:
        """Whether its place can be told without loading more."""
        return not self.waiting or (self.head is not None and self.oldest is not None)

    def load(
        self,
        documents: Iterable[QueuedDocument],
        last_slot: Slot | None = None,
        last_age: int | None = None,
        last_turn: Turn | None = None,
    ) -> None:
        """Replace what is loaded, by the first documents in each of the orders.

        The orders are those by slot, by age and, under classic, by turn of the urgent and displaced
        ones. The last of each is given; None: all of that order were loaded.
        """
        self.slots, self.ages, self.ahead = [], [], []
        for document in documents:
            self.push(document)
        self.last_slot, self.last_age, self.last_turn = last_slot, last_age, last_turn
        self.look()

    def push(self, document: QueuedDocument) -> None:
        heappush(self.slots, (document.slot, document.number, document))
        heappush(self.ages, (document.number, document))
        if document.urgent or document.is_displaced:
            heappush(self.ahead, (document.turn, document))
            self.has_ahead = True

    def add(self, documents: int, head: Slot, oldest: tuple[int, float]) -> bool:
        """Count documents that arrived; return whether head or oldest are theirs."""
        is_first = not self.waiting
        self.waiting += documents
        is_best = is_first or (self.head is not None and head < self.head)
        is_oldest = is_first or (self.oldest is not None and oldest < self.oldest)
        if is_best:
            self.head = head
        if is_oldest:
            self.oldest, self.is_oldest_stale = oldest, False
        return is_best or is_oldest

    def look(self) -> None:
        """Find head and oldest among the loaded documents; remove outdated keys before them."""
        slots, ages = self.slots, self.ages
        while slots and not (slots[0][2].is_waiting and slots[0][2].slot == slots[0][0]):
            heappop(slots)
        while ages and not ages[0][1].is_waiting:
            heappop(ages)
        best, oldest = self.best(), self.oldest_document()
        self.head = None if best is None else best.slot
        if oldest is not None:
            self.oldest, self.is_oldest_stale = (oldest.number, oldest.submitted_at), False
        elif self.last_age is None:
            self.oldest = None

    def best(self) -> QueuedDocument | None:
        """The holder of the best slot; None: it is not loaded."""
        if not self.slots or (self.last_slot is not None and self.slots[0][0] > self.last_slot):
            return None
        return self.slots[0][2]

    def oldest_document(self) -> QueuedDocument | None:
        if not self.ages or (self.last_age is not None and self.ages[0][0] > self.last_age):
            return None
        return self.ages[0][1]

    def take(self, document: QueuedDocument) -> None:
        document.is_waiting = False
        self.waiting -= 1
        if not self.waiting:
            self.slots, self.ages, self.ahead = [], [], []
            self.head = self.oldest = None
            return
        if self.oldest is not None and document.number == self.oldest[0]:
            self.is_oldest_stale = True
        self.look()

    def first_in_turn(self, best: QueuedDocument) -> QueuedDocument | None:
        """The document that goes at the best slot: urgent ones first. None: it is not loaded."""
        ahead = self.ahead
        if not ahead and self.last_turn is None:
            return best
        while ahead and not ahead[0][1].is_waiting:
            heappop(ahead)
        first = best if not ahead or ahead[0][0] >= best.turn else ahead[0][1]
        if self.last_turn is not None and first.turn > self.last_turn:
            return None
        if first.is_displaced and not first.urgent and best.slot < first.key:
            return self._first_with_own_slot(first)
        return first

    def _first_with_own_slot(self, displaced: QueuedDocument) -> QueuedDocument | None:
        """The first document that goes before a displaced one, which may have a better slot."""
        bound = displaced.key
        found = [
            (slot, document)
            for slot, _, document in self.slots
            if slot < bound and document.is_waiting and slot == document.slot == document.key
        ]
        slot, first = min(found, default=(bound, displaced))
        return first if self.last_slot is None or slot <= self.last_slot else None

    def oldest_slot(self) -> QueuedDocument | None:
        """The holder of the slot that came first; the overdue lane uses it up."""
        waiting = (document for _, _, document in self.slots if document.is_waiting)
        return min(waiting, key=lambda document: document.slot[1], default=None)

    def swap(self, best: QueuedDocument, jumping: QueuedDocument) -> None:
        """Give the best slot to the document that goes, and its own slot to the displaced one."""
        best.slot, jumping.slot = jumping.slot, best.slot
        jumping.is_displaced = True  # where it waits again, its slot is not its key
        if not best.is_displaced:
            best.is_displaced = True
            heappush(self.ahead, (best.turn, best))
        heappush(self.slots, (best.slot, best.number, best))


PlaceKey = tuple[int, float, int, Entry]
WaitKey = tuple[float, int, Entry]
