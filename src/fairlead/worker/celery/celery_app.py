"""The app of Celery's workers: `celery -A fairlead.worker.celery worker`.

Each process of the pool opens the installation of FAIRLEAD_DATA after its fork, and processes
documents when messages wake it. One of the processes publishes wake-ups. The parent of the pool
opens no database: a fork of a process with an open SQLite file would rely on locks that it lacks.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from pathlib import Path
from threading import Lock, local
from typing import Any

from celery import Celery, signals
from celery.concurrency import prefork, solo

from fairlead.app import Fairlead
from fairlead.config import DEFAULT_DATA
from fairlead.config.settings import Sources
from fairlead.sd_notify import READY, STOPPING, notify
from fairlead.service import Service
from fairlead.worker.celery.broker import TASK, make_app
from fairlead.worker.engine import LocalEngine
from fairlead.worker.wakeup import WakeupPublisher

PUBLISHER_LOCK = "publisher.lock"
SECONDS = 1.0
"""How long one message keeps claiming documents; other messages wake workers for the rest."""


class CeleryProgram:
    """The installation and the publisher of one process, and one engine in each of its threads.

    An engine and its worker process stay warm between messages.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = Lock()
        self._fairlead: Fairlead | None = None
        self._own = local()
        self._engines: list[LocalEngine] = []
        self._publisher: WakeupPublisher | None = None
        self._publisher_lock: int | None = None

    def claim_next(self) -> None:
        """Claim and process documents until none waits or the time has passed."""
        engine: LocalEngine | None = getattr(self._own, "engine", None)
        if engine is None:
            engine = self._own.engine = self._installation().services.engine(workers=1)
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

    def on_process_start(self, **_others: Any) -> None:
        """Run when a process of a pool starts. It must return soon, or Celery ends the process."""
        Service("publisher start", self._start_publisher).start()

    def on_worker_ready(self, sender: Any, **_others: Any) -> None:
        """Run in the parent process when the worker is up: the pool may be threads of it."""
        notify(READY)
        if not isinstance(sender.pool, (prefork.TaskPool, solo.TaskPool)):
            self.on_process_start()

    def on_shutdown(self, **_others: Any) -> None:
        """Run at the end of each process."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.stop()
        with self._lock:
            engines, self._engines = self._engines, []
        for engine in engines:
            engine.close()

    def _start_publisher(self) -> Generator[float, None, None]:
        """Publish as soon as no other pool process on this data folder does."""
        fairlead = self._installation()
        if self._publisher_lock is None:
            self._publisher_lock = fairlead.folder.open_lock(PUBLISHER_LOCK)
        fcntl.flock(self._publisher_lock, fcntl.LOCK_EX)  # held until this process ends
        self._publisher = fairlead.services.wakeup_publisher()
        self._publisher.start()
        yield 0.0

    def _installation(self) -> Fairlead:
        with self._lock:
            if self._fairlead is None:
                self._fairlead = Fairlead(self._data, patient=True)
            return self._fairlead


def _on_shutting_down(**_others: Any) -> None:
    notify(STOPPING)


def load() -> Celery:
    data = Path(os.environ.get("FAIRLEAD_DATA", DEFAULT_DATA))
    app, program = make_app(Sources(data).settings().needed_broker()), CeleryProgram(data)
    app.set_default()
    app.task(name=TASK)(program.claim_next)
    signals.worker_process_init.connect(program.on_process_start, weak=False)
    signals.worker_ready.connect(program.on_worker_ready, weak=False)
    signals.worker_shutting_down.connect(_on_shutting_down, weak=False)
    signals.worker_process_shutdown.connect(program.on_shutdown, weak=False)
    signals.worker_shutdown.connect(program.on_shutdown, weak=False)
    return app
