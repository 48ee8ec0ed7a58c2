"""The figures of a pipeline, for operators."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.model.capacity import Capacity
from fairlead.model.json import Record, Time


class PipelineCounts(NamedTuple):
    """The figures of one pipeline from the store; `PipelineFigures` explains them."""

    limit: str | None = None
    max_running: int | None = None
    waiting: int = 0
    processing: int = 0
    open_at: float | None = None
    ended: int = 0
    since: float | None = None
    failures: dict[str, int] = {}  # noqa: RUF012 (a default that nothing changes)
    served: bool = False


class PipelineFigures(Record, frozen=True, kw_only=True):
    """A pipeline: its steps, its quota, and its figures.

    `steps` are those of the settings of the responding process; empty if these do not name it. The
    steps from a pulled one on have a queue of their own, such as `invoices/pull:fields`. `open_at`
    is when the quota permits the next start, if it does not now. `ended` counts the documents that
    were done or failed since the time `since`, at most an hour ago; `failures` counts those that
    failed, by code. `served`: a running worker takes documents from it. `problem` is why none of
    its documents can start.
    """

    name: str
    steps: tuple[str, ...]
    limit: str | None
    max_running: int | None
    waiting: int
    processing: int
    open_at: Time | None
    ended: int
    since: Time | None
    failures: dict[str, int]
    served: bool
    problem: str | None

    @property
    def is_stuck(self) -> bool:
        """Whether documents wait and no worker serves it."""
        return self.waiting > 0 and not self.served

    def per_minute(self, now: float) -> float | None:
        """Recently ended documents per minute, over at least one minute; None without any."""
        return None if self.since is None else 60 * self.ended / max(60.0, now - self.since)


class PipelineList(Record, frozen=True):
    """All pipelines, `default` first, and the capacity of their steps."""

    pipelines: list[PipelineFigures]
    capacity: Capacity
