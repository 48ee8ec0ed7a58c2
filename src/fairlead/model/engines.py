"""What an engine reports of itself: its workers, the queues that it serves, and its steps."""

from __future__ import annotations

from msgspec import Struct


class StepUse(Struct, frozen=True):
    """A step in one engine: how many documents it processes at once, and does now.

    With a `problem`, the step cannot run there, and its pipelines are not served by that engine.
    """

    step: str
    capacity: int
    busy: int = 0
    problem: str | None = None


class EngineReport(Struct, frozen=True):
    """An engine that runs, or a program that pulls documents over HTTP.

    `queues` are those that it serves now.
    """

    engine: str
    workers: int
    queues: tuple[str, ...]
    steps: tuple[StepUse, ...] = ()
