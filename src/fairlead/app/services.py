"""Makes the engine and the background services of an installation."""

from __future__ import annotations

import os
import random
import selectors
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.config.settings import ENVIRONMENT_PREFIX, Settings
from fairlead.extras import needs_extra
from fairlead.model.pipelines import Pipeline
from fairlead.policy.retry import RetryRule
from fairlead.read import ReadLimits
from fairlead.steps.pool import StepPool
from fairlead.steps.process_slots import ProcessSlots
from fairlead.webhooks import Deliverer, Networks, Sender
from fairlead.worker.engine import LocalEngine, StepSettings
from fairlead.worker.liveness import live_engines
from fairlead.worker.orphan_sweeper import Sweeper, sweep_orphans
from fairlead.worker.pulled_jobs import PulledJobs
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.wakeup import Broker, WakeupPublisher

if TYPE_CHECKING:
    from fairlead.app.fairlead import Fairlead

OUTPUT_SHARE = 2 / 3
"""The part of the time limit after which reading makes no more optional files."""
OUTPUT_COPIES = 8
"""Copies of an optional file in a worker process, at most."""


class Services:
    """Makes the engine and the services, which follow changes of the settings."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self._store = fairlead.store

    def engine(
        self,
        workers: int | None = None,
        *,
        pipelines: Sequence[str] | None = None,
        reloads: bool = False,
        on_tick: Callable[[], None] = lambda: None,
    ) -> LocalEngine:
        """A local engine, to be run once. It serves these pipelines; None: all of the settings.

        With `reloads`, it imports steps again when their source files change.
        """
        fairlead = self._fairlead
        self.use_quotas()
        for name in pipelines or ():
            fairlead.settings.known_pipeline(name)
        live_engines(self._store)  # those that died no longer count beside this one
        make_pool = partial(
            step_pool,
            settings=fairlead.settings,
            slots=fairlead.folder.step_slots,
            reloads=reloads,
        )
        return LocalEngine(
            self._store,
            fairlead.files,
            fairlead.texts,
            workers=lambda: fairlead.settings.workers if workers is None else workers,
            limits=self._limits,
            lease=lambda: fairlead.settings.lease,
            job_dirs=fairlead.folder.job_dirs,
            steps=StepSettings(
                partial(self._pipelines, pipelines), self.use_quotas, make_pool, self._retry_rule
            ),
            on_tick=on_tick,
        )

    def _pipelines(self, names: Sequence[str] | None) -> list[Pipeline]:
        """The pipelines of these names that the settings have now; None: all."""
        pipelines = self._fairlead.settings.pipelines
        return [pipeline for pipeline in pipelines if names is None or pipeline.name in names]

    def pulled_jobs(self) -> PulledJobs:
        """Gives documents of pulled steps to other programs."""
        fairlead = self._fairlead
        return PulledJobs(
            self._store,
            fairlead.files,
            fairlead.texts,
            lambda: fairlead.settings.pipelines,
            lambda: fairlead.settings.lease,
            self._retry_rule,
            fairlead.folder.job_dirs,
        )

    def _retry_rule(self) -> RetryRule:
        return self._fairlead.settings.rules().retry

    def use_quotas(self) -> None:
        """Store the quotas of these settings, for the claims of all processes."""
        pipelines = self._fairlead.settings.pipelines
        self._store.use_quotas([queue for pipeline in pipelines for queue in pipeline.queues])

    def deliverer(self) -> Deliverer:
        """A service that sends the webhook deliveries that are due."""
        sender = Sender(self.networks, clock=self._fairlead.clock)
        return Deliverer(self._store.outbox, sender, clock=self._store.now, jitter=random.random)

    def networks(self) -> Networks:
        """The networks to which webhooks may be sent."""
        return Networks(self._fairlead.settings.webhook_networks)

    def sweeper(self) -> Sweeper:
        """A service that removes orphaned files, fills the disk reserve and adds up usage."""
        return Sweeper(self._clean_up, lambda: self._store.only_one("sweep"))

    def _clean_up(self) -> Iterator[int]:
        if self._fairlead.settings.store is None:
            self._fairlead.folder.reserve.fill()
        self._store.add_up_usage()
        return self._sweep_portions()

    def sweep(self) -> int:
        """Remove old files that belong to no document; return their number."""
        return sum(self._sweep_portions())

    def _sweep_portions(self) -> Iterator[int]:
        fairlead = self._fairlead
        before = time.time() - fairlead.settings.sweep_after  # not the store's clock
        return sweep_orphans(self._store, fairlead.files, fairlead.texts, before=before)

    def wakeup_publisher(self) -> WakeupPublisher:
        """A service that wakes Celery workers when documents wait."""
        return WakeupPublisher(self._store, self.broker())

    def broker(self) -> Broker:
        """The broker that the settings name."""
        with needs_extra("celery"):
            from fairlead.worker.celery.broker import CeleryBroker, make_app  # noqa: PLC0415
        return CeleryBroker(make_app(self._fairlead.settings.needed_broker()))

    def _limits(self) -> SandboxLimits:
        settings = self._fairlead.settings
        read = ReadLimits(
            characters=settings.max_characters,
            pages=settings.max_pages,
            pixels=settings.max_pixels,
            unpacked_bytes=settings.max_unpacked_bytes,
            ratio=settings.max_ratio,
            members=settings.max_members,
            languages=settings.ocr_languages,
            output_bytes=min(settings.result_limit, settings.memory_limit // OUTPUT_COPIES),
            output_seconds=settings.time_limit * OUTPUT_SHARE,
        )
        is_strict = settings.sandbox == "strict"
        return SandboxLimits(settings.time_limit, settings.memory_limit, read, is_strict)


def step_pool(
    reference: str,
    *,
    selector: selectors.BaseSelector,
    workers: Callable[[], int],
    settings: Settings,
    slots: Path,
    reloads: bool = False,
) -> StepPool:
    """The pool of a step. Its processes have this one's search path, but no Fairlead settings.

    They also import from the current folder, which is not in the path of an installed command.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
    }
    search_path = [*sys.path, str(Path.cwd())]
    return StepPool(
        reference,
        search_path=search_path,
        environment=environment,
        selector=selector,
        workers=workers,
        slots=ProcessSlots(slots, reference),
        result_limit=settings.result_limit,
        import_limit=settings.import_limit,
        reloads=reloads,
    )
