"""The engine as a service: it runs in a thread, and a failed engine is replaced after a pause."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

from fairlead.backoff import Backoff
from fairlead.service import Service
from fairlead.worker.engine import LocalEngine

PROVEN_SECONDS = 10.0
"""After so long an engine counts as working: one that cannot start its children fails sooner."""


class EngineService(Service):
    """Runs an engine; one that fails is replaced by a new one after a pause.

    The first request to stop drains the engine, the second one stops it at once. `make_engine`
    takes `on_tick`, which the engine calls at least once a second.
    """

    def __init__(self, make_engine: Callable[..., LocalEngine]) -> None:
        backoff = Backoff(1.0, 60.0)
        super().__init__("engine", self._work, backoff=backoff, on_stop=self._stop_engine)
        self._make_engine = make_engine
        self._engine: LocalEngine | None = None
        self._began = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether the engine runs, has not failed lately, and is not held up by an outage."""
        engine, health = self._engine, self.health()
        is_held_up = engine is not None and engine.is_held_up
        return health.is_running and health.error is None and not is_held_up

    def _work(self) -> Generator[float, None, None]:
        self._began = time.monotonic()
        self._engine = self._make_engine(on_tick=self._tick)
        if self.is_stopping:
            self._engine.stop()
        self._engine.run()
        yield 0.0

    def _tick(self) -> None:
        if time.monotonic() >= self._began + PROVEN_SECONDS:
            self.note_success()

    def _stop_engine(self) -> None:
        if self._engine is not None:
            self._engine.stop()
