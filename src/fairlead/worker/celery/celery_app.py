"""The program that Celery's workers run: `celery -A fairlead.worker.celery worker`.

Each process of the pool opens the installation that the environment names, after its own start, and
lets messages set its crew to work. One of them rings. The process that forks a pool opens nothing:
a fork with a SQLite file open believes to hold locks that it does not have, and what it writes may
be lost.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from celery import Celery, signals
from celery.concurrency import prefork, solo

from fairlead.app import Fairlead
from fairlead.config.settings import DEFAULT_DATA, Sources
from fairlead.worker.celery.broker import TASK, make_app
from fairlead.worker.celery.thread_engines import ThreadEngines
from fairlead.worker.outage import Outage, Tries
from fairlead.worker.wakeup import WakeupPublisher

TURN = "ringer.lock"


class CeleryProgram:
    """What a process that does the work holds, for all its threads."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = Lock()
        self._fairlead: Fairlead | None = None
        self._crew: ThreadEngines | None = None
        self._ringer: WakeupPublisher | None = None
        self._turn: int | None = None

    def claim_next(self) -> None:
        """Claim and process documents, while there are any."""
        self._whole_crew().work()

    def join_the_pool(self, **_others: Any) -> None:
        """In each process of a pool, when it starts: Celery ends one that takes long for it."""
        Thread(target=self._ring_in_turn, name="fairlead-turn", daemon=True).start()

    def come_up(self, sender: Any, **_others: Any) -> None:
        """In the first process, when the worker has come up: its pool may be threads of it."""
        if not isinstance(sender.pool, (prefork.TaskPool, solo.TaskPool)):
            self.join_the_pool()

    def leave(self, **_others: Any) -> None:
        """At the end of each process."""
        crew, self._crew = self._crew, None
        wakeup_publisher, self._ringer = self._ringer, None
        if wakeup_publisher is not None:
            wakeup_publisher.close()
        if crew is not None:
            crew.close()

    def _ring_in_turn(self) -> None:
        """Ring, as soon as no other pool process at this data folder does: one is enough."""
        tries = Tries(Outage())
        while self._ringer is None:
            with tries:
                fairlead = self._installation()
                self._take_turn(fairlead)
                self._ringer = fairlead.wakeup_publisher()
                tries.over()
            time.sleep(tries.pause)

    def _take_turn(self, fairlead: Fairlead) -> None:
        """Wait until it is ours, until this process ends."""
        if self._turn is None:
            self._turn = fairlead.folder.open_lock(TURN)
        fcntl.flock(self._turn, fcntl.LOCK_EX)

    def _whole_crew(self) -> ThreadEngines:
        fairlead = self._installation()
        with self._lock:
            if self._crew is None:
                self._crew = ThreadEngines(lambda: fairlead.engine(workers=1))
            return self._crew

    def _installation(self) -> Fairlead:
        with self._lock:
            if self._fairlead is None:
                self._fairlead = Fairlead(self._data, patient=True)
            return self._fairlead


def load() -> Celery:
    """The application, with its task and what begins and ends with its processes."""
    data = Path(os.environ.get("FAIRLEAD_DATA", DEFAULT_DATA))
    app, program = make_app(Sources(data).settings().needed_broker()), CeleryProgram(data)
    app.set_default()
    app.task(name=TASK)(program.claim_next)
    signals.worker_process_init.connect(program.join_the_pool, weak=False)
    signals.worker_ready.connect(program.come_up, weak=False)
    signals.worker_process_shutdown.connect(program.leave, weak=False)
    signals.worker_shutdown.connect(program.leave, weak=False)
    return app
