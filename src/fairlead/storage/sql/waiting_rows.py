"""A row of `waiting`, and the event of the queue that says that such rows were added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.policy.queue_events import Arrived


class Waiting(NamedTuple):
    """A row of `waiting`; after its due time, also one of `delayed`."""

    customer: int
    pipeline: str
    slot: int
    slot_seq: int
    document: int
    priority: int
    urgent: int
    displaced: int
    estimate: float
    submitted_at: float
    attempts: int = 0
    suspect: int = 0
    error: str | None = None
    detail: str | None = None

    @property
    def key(self) -> tuple[int, str, int, int, int]:
        """The primary key."""
        return self[:5]

    @property
    def full_slot(self) -> tuple[int, int]:
        """The slot as the queue compares it."""
        return self.slot, self.slot_seq

    @property
    def is_ahead(self) -> bool:
        """Whether it may have to go before the document in the best slot of its customer."""
        return bool(self.urgent or self.displaced)


def arrived(now: float, rows: Sequence[Waiting], *, were_delayed: int = 0) -> Arrived:
    """The event of new rows of one customer and pipeline, in the order of their numbers."""
    oldest = rows[0]
    return Arrived(
        now,
        oldest.customer,
        oldest.pipeline,
        documents=len(rows),
        estimates=sum([row.estimate for row in rows]),
        head=min([row.full_slot for row in rows]),
        oldest=(oldest.document, oldest.submitted_at),
        were_delayed=were_delayed,
        has_ahead=any(row.is_ahead for row in rows),
    )
