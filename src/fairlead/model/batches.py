"""Batches: documents that were submitted together, and their progress."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.model.json import Record, Time


class Batch(Record, frozen=True):
    """Documents that were submitted together, with their attachments.

    `finished_at` is when none of them was pending for the first time. `progress` goes from 0 to 1.
    `expected_end` is null where nothing is pending, or no forecast is possible.
    """

    id: str
    customer: str
    created_at: Time
    finished_at: Time | None
    documents: int
    waiting: int
    processing: int
    done: int
    failed: int
    cancelled: int
    progress: float
    expected_end: Time | None = None

    @property
    def pending(self) -> int:
        return self.waiting + self.processing


class StoredBatch(NamedTuple):
    """A batch, and the id of its pending document that was accepted last."""

    batch: Batch
    last_pending: str | None
