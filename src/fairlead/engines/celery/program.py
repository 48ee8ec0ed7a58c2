"""The program that Celery's workers run: `celery -A fairlead.engines.celery worker`.

Each process of the pool opens the installation that the environment names, after its own start, lets
messages set its crew to work, and rings beside it. The process that forks a pool opens nothing: a
fork with a SQLite file open believes to hold locks that it does not have, and what it writes may be
lost.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from celery import Celery, signals
from celery.concurrency import prefork

from fairlead.app import Fairlead
from fairlead.engines.celery.bell import TASK, make_app
from fairlead.engines.celery.crew import Crew
from fairlead.engines.ringer import Ringer
from fairlead.errors import UsageError
from fairlead.settings import Sources

DEFAULT_DATA = "fairlead-data"


class Program:
    """What a process that does the work holds, for all its threads."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = Lock()
        self._fairlead: Fairlead | None = None
        self._crew: Crew | None = None
        self._ringer: Ringer | None = None

    def claim_next(self) -> None:
        """Claim and process documents, while there are any."""
        self._whole_crew().work()

    def join_the_pool(self, **_others: Any) -> None:
        """In each process of a pool, when it starts: Celery ends one that takes long for it."""
        Thread(target=self.begin_to_ring, name="fairlead-start", daemon=True).start()

    def come_up(self, sender: Any, **_others: Any) -> None:
        """In the first process, when the worker has come up."""
        if not isinstance(sender.pool, prefork.TaskPool):
            self.begin_to_ring()

    def begin_to_ring(self) -> None:
        """Have a ringer, one for the whole process."""
        with self._lock:
            if self._ringer is None:
                self._ringer = self._installation().ringer()

    def stop_ringing(self, **_others: Any) -> None:
        """In the first process, when a signal tells the worker to stop: nothing is waited for."""
        if self._ringer is not None:
            self._ringer.stop()

    def leave(self, **_others: Any) -> None:
        """At the end of each process."""
        crew, self._crew = self._crew, None
        ringer, self._ringer = self._ringer, None
        if ringer is not None:
            ringer.close()
        if crew is not None:
            crew.close()

    def _whole_crew(self) -> Crew:
        with self._lock:
            if self._crew is None:
                fairlead = self._installation()
                self._crew = Crew(lambda: fairlead.engine(workers=1))
            return self._crew

    def _installation(self) -> Fairlead:
        if self._fairlead is None:
            self._fairlead = Fairlead(self._data, patient=True)
        return self._fairlead


def load() -> Celery:
    """The application, with its task and what begins and ends with its processes."""
    data = Path(os.environ.get("FAIRLEAD_DATA", DEFAULT_DATA))
    broker = Sources(data).settings().broker
    if broker is None:
        raise UsageError(
            "no broker is set; name one in FAIRLEAD_BROKER or fairlead.toml, such as "
            'broker = "amqp://localhost"'
        )
    app, program = make_app(broker), Program(data)
    app.set_default()
    app.task(name=TASK)(program.claim_next)
    signals.worker_process_init.connect(program.join_the_pool, weak=False)
    signals.worker_ready.connect(program.come_up, weak=False)
    signals.worker_shutting_down.connect(program.stop_ringing, weak=False)
    signals.worker_process_shutdown.connect(program.leave, weak=False)
    signals.worker_shutdown.connect(program.leave, weak=False)
    return app
