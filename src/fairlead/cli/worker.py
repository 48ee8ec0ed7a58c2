"""`fairlead worker`: process documents until stopped."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from fairlead.app import Fairlead
from fairlead.cli.options import (
    data_option,
    no_url_option,
    reload_option,
    setting_option,
    warn_of_unread_settings,
)
from fairlead.cli.output import announce_stop, counted, duration, safe
from fairlead.cli.progress import ProgressLine, page_progress
from fairlead.config.settings import Sources
from fairlead.model.documents import Document, EventKind
from fairlead.sd_notify import READY, notify
from fairlead.service import raise_descriptor_limit, running
from fairlead.worker.engine import LocalEngine, Stop

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@click.command("worker")
@data_option
@no_url_option
@setting_option("workers")
@setting_option("engine")
@click.option(
    "--pipelines",
    metavar="A,B",
    help="Process only these pipelines.  [default: all of the settings]",
)
@reload_option
@click.option("--until-idle", is_flag=True, help="Stop when no document is left to process.")
@click.option("--quiet", is_flag=True, help="Do not print a line for each document.")
def worker_command(
    *,
    data: Path,
    workers: int | None,
    engine: str | None,
    pipelines: str | None,
    reloads: bool,
    until_idle: bool,
    quiet: bool,
) -> None:
    """Process documents of the queue.

    SIGTERM, SIGHUP or Ctrl-C: finish the running documents, then stop. A second one: stop
    immediately; running documents are requeued.

    With --engine celery it runs a Celery worker; Celery's own settings and tools apply.
    """
    raise_descriptor_limit()
    warn_of_unread_settings(data)
    flags = {"workers": workers, "engine": engine}
    settings = Sources(data, flags=flags).settings()
    if settings.engine == "local":
        steps = {"pipelines": _names(pipelines), "reloads": reloads}
        _work(data, flags, steps, until_idle=until_idle, quiet=quiet)
        return
    for option, is_used in (
        ("--until-idle", until_idle),
        ("--pipelines", pipelines is not None),
        ("--reload", reloads),
    ):
        if is_used:
            raise click.UsageError(f"{option} works only with the local engine")
    _become_celery(data, settings.workers, quiet=quiet)


def _names(pipelines: str | None) -> list[str] | None:
    if pipelines is None:
        return None
    names = [name.strip() for name in pipelines.split(",")]
    return list(dict.fromkeys(filter(None, names)))


def _become_celery(data: Path, workers: int, *, quiet: bool) -> None:
    os.environ["FAIRLEAD_DATA"] = str(data)  # also for the processes that it starts
    from fairlead.worker import celery  # noqa: PLC0415 (an extra, needed here alone)

    level = "WARNING" if quiet else "INFO"
    name = f"--hostname=fairlead-{os.getpid()}@%h"
    celery.app.worker_main(["worker", f"--concurrency={workers}", f"--loglevel={level}", name])


def _work(
    data: Path,
    flags: Mapping[str, Any],
    steps: Mapping[str, Any],
    *,
    until_idle: bool,
    quiet: bool,
) -> None:
    with Fairlead(data, settings=flags, patient=True) as fairlead, fairlead.folder.as_server():
        journal, readiness = Journal(fairlead), Readiness()

        def on_tick() -> None:
            readiness.check(engine)
            if not quiet:
                journal.write()

        engine = fairlead.services.engine(on_tick=on_tick, **steps)
        with (
            _stopping_on_signals(engine, fairlead),
            running(fairlead.services.sweeper(), fairlead.services.deliverer()),
        ):
            workers = counted(fairlead.settings.workers, "worker")
            click.echo(f"fairlead: {workers} on {data}; Ctrl-C stops", err=True)
            engine.run(until_idle=until_idle)
            if not quiet:
                journal.write()
    if engine.stopping is Stop.NOW:
        sys.exit(1)


@contextmanager
def _stopping_on_signals(engine: LocalEngine, fairlead: Fairlead) -> Iterator[None]:
    """Drain or stop the worker on signals; restore the previous handlers at the end."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        fairlead.store.hurry()
        engine.stop()
        if engine.stopping is Stop.DRAIN:
            announce_stop()

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Readiness:
    """Tells systemd once that the workers have started and the store responds."""

    def __init__(self) -> None:
        self._is_told = False

    def check(self, engine: LocalEngine) -> None:
        """Tell it, unless an outage holds the engine up; the engine calls this while it works."""
        if not self._is_told and not engine.is_held_up:
            self._is_told = True
            notify(READY)


class Journal:
    """Writes a line to stderr for each document that ended, and on a terminal the progress."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self._last_event = fairlead.store.last_event()
        self._progress: dict[str, str] = {}
        self._progress_line = ProgressLine()

    def write(self) -> None:
        """Write what happened since the last call."""
        while events := self._fairlead.store.events(self._last_event):
            for event in events:
                self._last_event = event.seq
                if event.document and event.kind in (EventKind.DONE, EventKind.FAILED):
                    self._progress_line.line(_line(self._fairlead.document(event.document)))
            self._progress |= page_progress(events)
            self._progress = {id_: text for id_, text in self._progress.items() if text}
            texts = (
                f"{self._fairlead.document(id_).name}: {text}"
                for id_, text in self._progress.items()
            )
            self._progress_line.show("  ".join(texts))


def _line(document: Document) -> str:
    started = document.started_at or document.submitted_at
    waited = duration(started - document.submitted_at)
    took = duration(document.seconds)
    error = f"  {document.error}: {document.detail}" if document.error else ""
    return safe(
        f"{document.state:<7} {document.customer}  {document.name}  "
        f"priority {document.priority}  waited {waited}  took {took}{error}"
    )
