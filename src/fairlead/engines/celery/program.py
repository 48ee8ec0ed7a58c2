"""The program that Celery's workers run: `celery -A fairlead.engines.celery worker`.

Each process of the pool opens the installation that the environment names, after its own start, and
lets messages set its crew to work. A ringer runs beside the pool.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Celery, signals

from fairlead.app import Fairlead
from fairlead.engines.celery.bell import TASK, make_app
from fairlead.engines.celery.crew import Crew
from fairlead.engines.ringer import Ringer
from fairlead.errors import UsageError
from fairlead.settings import Sources

DEFAULT_DATA = "fairlead-data"


class Program:
    """What one process of a worker holds; a fork of it begins with nothing."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._process = os.getpid()
        self._fairlead: Fairlead | None = None
        self._crew: Crew | None = None
        self._ringer: Ringer | None = None
        self._inherited: list[object] = []

    def claim_next(self) -> None:
        """Claim and process documents, while there are any."""
        fairlead = self._installation()  # first, as it forgets what another process had
        if self._crew is None:
            self._crew = Crew(lambda: fairlead.engine(workers=1))
        self._crew.work()

    def begin_to_ring(self, **_others: Any) -> None:
        """In the first process, when the worker has come up."""
        self._ringer = self._installation().ringer()

    def stop_ringing(self, **_others: Any) -> None:
        """In the first process, when the worker is told to stop."""
        ringer, self._ringer = self._ringer, None
        if ringer is not None:
            ringer.close()

    def leave(self, **_others: Any) -> None:
        """At the end of each process."""
        if self._process == os.getpid():
            crew, self._crew = self._crew, None
            if crew is not None:
                crew.close()

    def _installation(self) -> Fairlead:
        if self._process != os.getpid():
            # What was open is the other process's, whose connections would end if it were closed.
            self._inherited += [self._fairlead, self._crew, self._ringer]
            self._fairlead = self._crew = self._ringer = None
            self._process = os.getpid()
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
    signals.worker_ready.connect(program.begin_to_ring, weak=False)
    signals.worker_shutting_down.connect(program.stop_ringing, weak=False)
    signals.worker_process_shutdown.connect(program.leave, weak=False)
    signals.worker_shutdown.connect(program.leave, weak=False)
    return app
