"""The installation as one object: its documents, webhooks and keys, and their work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from threading import Event as Flag

from fairlead.app.documents import Documents
from fairlead.app.keys import Keys
from fairlead.app.webhooks import Webhooks
from fairlead.errors import MissingExtra, UnknownDocument
from fairlead.model.customers import Fairness
from fairlead.model.documents import Event, Switched, Totals
from fairlead.policy.rules import check_policy
from fairlead.read import ReadLimits
from fairlead.worker.engine import LocalEngine
from fairlead.worker.orphan_sweeper import Sweeper, portions
from fairlead.worker.sandbox.limits import Limits
from fairlead.worker.wakeup import Broker, WakeupPublisher

TELL_SECONDS = 0.5
"""How often those who wait are told how much is left."""


class Fairlead(Documents, Webhooks, Keys):
    """An embedded installation in a data folder, which several processes may hold open.

    All methods may be called from any thread. `settings` overrides single settings by name;
    `clock` gives the time in seconds since 1970. With `patient`, a database server that cannot be
    reached is waited for.
    """

    def use_policy(self, name: str) -> Switched | None:
        """Switch a live queue to another policy, and say what that did; None: it was in force.

        Where the settings name a policy, they win again when they change or a process starts.
        """
        return self.store.use_policy(check_policy(name))

    def fairness(self) -> Fairness:
        """How fair the queue is at this moment, as numbers."""
        return self.store.fairness()

    def totals(self) -> Totals:
        """How many documents wait and are processed, of how many customers."""
        return self.store.totals()

    def events(
        self, after: int = 0, limit: int = 1000, *, customer: str | None = None
    ) -> list[Event]:
        """What happened after the event of this number, oldest first; to one customer, if asked."""
        return self.store.events(after, limit, customer=customer)

    def sweep(self) -> int:
        """Remove files that belong to no document and are old; return how many."""
        return sum(self._sweep_portions())

    def _sweep_portions(self) -> Iterator[int]:
        before = time.time() - self.settings.sweep_after  # files have the machine's times
        return portions(self.store, self._files, self._texts, before=before)

    # --- work ---

    def engine(
        self, workers: int | None = None, *, on_tick: Callable[[], None] = lambda: None
    ) -> LocalEngine:
        """A local engine for this installation, to be run once."""
        return LocalEngine(
            self.store,
            self._files,
            self._texts,
            workers=lambda: self.settings.workers if workers is None else workers,
            limits=self._limits,
            lease=lambda: self.settings.lease,
            job_dirs=self.folder.job_dirs,
            on_tick=on_tick,
        )

    def sweeper(self) -> Sweeper:
        """A service that removes orphans and fills the reserve, every hour."""
        return Sweeper(self._keep_house, lambda: self.store.only_one("sweep"))

    def _keep_house(self) -> Iterator[int]:
        """What is due now and then while somebody serves or works here."""
        if self.settings.store is None:
            self.folder.reserve.lay()
        return self._sweep_portions()

    def wakeup_publisher(self) -> WakeupPublisher:
        """A service that wakes Celery's workers when documents wait."""
        return WakeupPublisher(self.store, self.broker())

    def broker(self) -> Broker:
        """The broker that the settings name."""
        return _celery_broker(self.settings.needed_broker())

    def run_until_idle(
        self, workers: int | None = None, *, on_tick: Callable[[], None] = lambda: None
    ) -> None:
        """Process documents until none is left that could run.

        Documents of paused customers stay; those that other processes hold are waited for. So is
        what passes by itself, as a full disk, for half a minute.

        Raises:
            NotNow: it has not passed.
        """
        self.engine(workers, on_tick=on_tick).run(until_idle=True)

    def wait(
        self, ids: Iterable[str], *, on_progress: Callable[[int], None] = lambda _left: None
    ) -> None:
        """Return when none of the documents is pending any more; somebody else does the work.

        `on_progress` is told how many are left. One that is deleted meanwhile is not waited for.
        """
        pending = list(ids)
        woken = Flag()
        with self.store.changes.subscribe(woken.set) as changes:
            while pending:
                if changes.changed():
                    pending = [id_ for id_ in pending if self._is_pending(id_)]
                on_progress(len(pending))
                if pending:
                    woken.wait(min(changes.poll_seconds, TELL_SECONDS))
                    woken.clear()

    def _is_pending(self, id_: str) -> bool:
        try:
            return self.document(id_).state.is_pending
        except UnknownDocument:
            if self.store.deleted_customer(id_) is None:
                raise
            return False

    def _limits(self) -> Limits:
        settings = self.settings
        read = ReadLimits(
            characters=settings.max_characters,
            pages=settings.max_pages,
            pixels=settings.max_pixels,
            unpacked_bytes=settings.max_unpacked_bytes,
            ratio=settings.max_ratio,
            members=settings.max_members,
            languages=settings.ocr_languages,
        )
        is_strict = settings.sandbox == "strict"
        return Limits(settings.time_limit, settings.memory_limit, read, is_strict)


def _celery_broker(url: str) -> Broker:
    try:
        from fairlead.worker.celery.broker import CeleryBroker, make_app  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise MissingExtra(
            f"the library {error.name} is missing; install it: pip install 'fairlead[celery]'"
        ) from None
    return CeleryBroker(make_app(url))
