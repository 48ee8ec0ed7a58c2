"""What an engine reports of itself: its workers, the queues that it serves, and its steps."""

from __future__ import annotations

from msgspec import Struct

from fairlead.model.pipelines import PULL


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

    `queues` are those that it serves now. A program is called `pull:KEY:STEP`, by the id of its API
    key and its step, and has no workers of its own: `workers` is 1 while it claims.
    """

    engine: str
    workers: int
    queues: tuple[str, ...]
    steps: tuple[StepUse, ...] = ()

    @property
    def pulled(self) -> str | None:
        """The step that a program pulls; None: this is an engine."""
        return self.engine.split(":", 2)[2] if self.engine.startswith(PULL) else None

    @property
    def key(self) -> str:
        """The id of the API key of a program that pulls documents."""
        return self.engine.split(":", 2)[1]
