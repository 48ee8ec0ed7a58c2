"""Waiting documents, members of the queue and their entries. Pure, like the queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from heapq import heappop, heappush

from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.policy.fair import FairClock, FairShare, Place

Slot = tuple[int, int]
Turn = tuple[bool, int, int]


@dataclass(slots=True, eq=False)
class QueuedDocument:
    """A waiting document. `number` is its arrival number."""

    number: int
    customer: int
    slot: Slot
    _: KW_ONLY
    priority: int = 1
    urgent: bool = False
    estimate: float = 0.0
    submitted_at: float = 0.0
    pipeline: str = DEFAULT_PIPELINE
    is_displaced: bool = False
    is_waiting: bool = True

    def __lt__(self, other: QueuedDocument) -> bool:
        return False  # equal keys belong to the same document, which was queued again

    @property
    def key(self) -> Slot:
        """Its own slot under classic; it holds another one after a swap."""
        return self.priority, self.number

    @property
    def turn(self) -> Turn:
        """The order among a customer's documents under classic."""
        return not self.urgent, self.priority, self.number


@dataclass(slots=True, eq=False)
class Member:
    """A customer, or an account that several customers share; `account` is a customer's account."""

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
    """The time of `work`, which fades with the reset interval; for figures, not for the order."""
    inner_clock: FairClock | None = None
    resumed_at: float | None = None
    """Since when its documents may start: it was resumed, is below its cap again, or an old
    document returned to the queue. A wait before that does not count for the bound on starts."""
    told_of: float | None = None
    """When the wait began that was last reported for exceeding the bound."""
    entries: dict[str, Entry] = field(default_factory=dict)
    inner: dict[int, Member] = field(default_factory=dict)
    """The customers of a shared account, under fair."""

    @property
    def waiting(self) -> int:
        """The number of waiting documents, including those that are delayed."""
        return self.delayed + sum(entry.waiting for entry in self.entries.values())

    @property
    def may_start_more(self) -> bool:
        return not self.is_paused and (self.cap is None or self.processing < self.cap)

    def entry(self, pipeline: str) -> Entry:
        entry = self.entries.get(pipeline)
        if entry is None:
            entry = self.entries[pipeline] = Entry(self, pipeline)
        return entry


@dataclass(slots=True, eq=False, repr=False)
class Entry:
    """A member's waiting documents of one pipeline, or the first of them.

    `head` is the best slot and `oldest` the (arrival number, time) of the oldest document; None
    while documents wait: it must be loaded. Documents are loaded from the front of each order, up
    to `last_slot`, `last_age` and `last_turn`; None: all are. `has_ahead`: some may be urgent or
    displaced.

    After a start the oldest document can be loaded later, because the member's wait begins anew.
    `is_oldest_stale`: the oldest document was started, and the next one is not loaded.

    `queued_as` is its valid key among the places, with `place`; `lane_key` is its valid key among
    the waits.
    """

    member: Member
    pipeline: str
    waiting: int = 0
    head: Slot | None = None
    oldest: tuple[int, float] | None = None
    is_oldest_stale: bool = False
    has_ahead: bool = False
    last_slot: Slot | None = None
    last_age: int | None = None
    last_turn: Turn | None = None
    slots: list[tuple[Slot, int, QueuedDocument]] = field(default_factory=list)
    ages: list[tuple[int, QueuedDocument]] = field(default_factory=list)
    ahead: list[tuple[Turn, QueuedDocument]] = field(default_factory=list)
    place: Place | None = None
    queued_as: PlaceKey | None = None
    lane_key: WaitKey | None = None

    def __lt__(self, other: Entry) -> bool:
        return False  # equal keys belong to the same entry

    @property
    def is_loaded(self) -> bool:
        """Whether documents of it were loaded."""
        return bool(self.slots) or self.last_slot is not None

    @property
    def is_known(self) -> bool:
        """Whether its place follows from what is loaded."""
        return not self.waiting or (self.head is not None and self.oldest is not None)

    def load(
        self,
        documents: Iterable[QueuedDocument],
        last_slot: Slot | None = None,
        last_age: int | None = None,
        last_turn: Turn | None = None,
    ) -> None:
        """Replace the loaded documents by the first ones of each order.

        The orders are by slot, by age and, under classic, by turn for urgent and displaced ones.
        The `last_…` arguments are the end of each order; None: all of it is loaded.
        """
        self.slots, self.ages, self.ahead = [], [], []
        for document in documents:
            self.push(document)
        self.last_slot, self.last_age, self.last_turn = last_slot, last_age, last_turn
        self.update_front()

    def push(self, document: QueuedDocument) -> None:
        heappush(self.slots, (document.slot, document.number, document))
        heappush(self.ages, (document.number, document))
        if document.urgent or document.is_displaced:
            heappush(self.ahead, (document.turn, document))
            self.has_ahead = True

    def add(self, documents: int, head: Slot, oldest: tuple[int, float]) -> bool:
        """Count documents that arrived; return whether one of them is the head or the oldest."""
        is_first = not self.waiting
        self.waiting += documents
        is_best = is_first or (self.head is not None and head < self.head)
        is_oldest = is_first or (self.oldest is not None and oldest < self.oldest)
        if is_best:
            self.head = head
        if is_oldest:
            self.oldest, self.is_oldest_stale = oldest, False
        return is_best or is_oldest

    def update_front(self) -> None:
        """Update head and oldest from the loaded documents; remove outdated keys before them."""
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
        """The document that holds the best slot; None: it is not loaded."""
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
        self.update_front()

    def first_in_turn(self, best: QueuedDocument) -> QueuedDocument | None:
        """The document that takes the best slot: urgent ones first. None: it is not loaded."""
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
        """The first document in its own slot before a displaced one; that one, if there is none."""
        bound = displaced.key
        candidates = [
            (slot, document)
            for slot, _, document in self.slots
            if slot < bound and document.is_waiting and slot == document.slot == document.key
        ]
        slot, first = min(candidates, default=(bound, displaced))
        return first if self.last_slot is None or slot <= self.last_slot else None

    def oldest_slot(self) -> QueuedDocument | None:
        """The document that holds the slot of the earliest arrival, which the overdue lane uses."""
        waiting = (document for _, _, document in self.slots if document.is_waiting)
        return min(waiting, key=lambda document: document.slot[1], default=None)

    def swap(self, best: QueuedDocument, jumping: QueuedDocument) -> None:
        """Give the best slot to the document that starts, and its own slot to the displaced one."""
        best.slot, jumping.slot = jumping.slot, best.slot
        jumping.is_displaced = True  # if it is requeued, its slot is not its key
        if not best.is_displaced:
            best.is_displaced = True
            heappush(self.ahead, (best.turn, best))
        heappush(self.slots, (best.slot, best.number, best))


PlaceKey = tuple[int, float, int, Entry]
WaitKey = tuple[float, int, Entry]
