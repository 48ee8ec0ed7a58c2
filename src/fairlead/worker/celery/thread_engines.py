"""The crew: what a message sets to work, in whatever pool Celery runs it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, local

from fairlead.worker.engine import LocalEngine

SECONDS = 1.0
"""For how long a message goes on to claim documents; other messages are there for the rest."""


class ThreadEngines:
    """One worker, warm from message to message, in each thread of each process of the pool."""

    def __init__(self, make_engine: Callable[[], LocalEngine]) -> None:
        self._make_engine = make_engine
        self._own = local()
        self._lock = Lock()
        self._engines: list[LocalEngine] = []

    def work(self) -> None:
        """Claim and process documents, while there are any and the time lasts."""
        engine: LocalEngine | None = getattr(self._own, "engine", None)
        if engine is None:
            engine = self._own.engine = self._make_engine()
            with self._lock:
                self._engines.append(engine)
        try:
            engine.work(SECONDS)
        except BaseException:
            self._own.engine = None
            with self._lock:
                self._engines.remove(engine)
            engine.close()
            raise

    def close(self) -> None:
        """End all workers of this process."""
        with self._lock:
            engines, self._engines = self._engines, []
        for engine in engines:
            engine.close()
