"""The local engine: worker processes on this machine, and one process that speaks for them.

The engine claims a document for each free worker, hands it over, and passes results on to the
finisher. Where documents are short it claims some more beforehand, so that many share a commit and
no worker waits for one, and lays ready with a worker what comes next of the same customer. It
sleeps until a worker answers, a deadline comes, or something was committed; while all have more to
read, it lets answers gather for a moment.
"""

from __future__ import annotations

import logging
import os
import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from itertools import cycle, islice
from math import inf
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from fairlead.errors import FairleadError, TemporarilyUnavailable
from fairlead.model.documents import Broken, Claim
from fairlead.model.ports import Files
from fairlead.worker.dead_workers import rescue_from_the_dead
from fairlead.worker.outage import Outage, Tries
from fairlead.worker.prefetch import STUCK_SECONDS, Prefetch
from fairlead.worker.progress import ProgressReporter
from fairlead.worker.result_writer import FinishedJob, ResultWriter
from fairlead.worker.sandbox.forkserver import ForkServer
from fairlead.worker.sandbox.job_dir import tidy
from fairlead.worker.sandbox.limits import Limits
from fairlead.worker.sandbox.process import ChildDied, Job
from fairlead.worker.slot import WorkerSlot

if TYPE_CHECKING:
    from fairlead.storage import Store

_log = logging.getLogger(__name__)

WATCH_SECONDS = 0.25
"""How often it looks whether a document at work was cancelled, or leases are to be renewed."""
LOOK_AGAIN_SECONDS = 1.0
"""How often it looks for due retries, ended leases and dead workers."""
MOST_DEATHS_AT_START = 5
PATIENCE_SECONDS = 30.0
"""How long an outage is borne by who has to come to an end."""


class Stop(IntEnum):
    """How far the engine has been asked to stop."""

    NO = 0
    DRAIN = 1
    NOW = 2


class Every:
    """True once in so many seconds, and at the first time."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, seconds: float) -> bool:
        """Whether the time has come."""
        now = time.monotonic()
        is_due = now >= self._last + seconds
        if is_due:
            self._last = now
        return is_due


class LocalEngine:
    """Runs documents with a number of worker processes until it is stopped, or idle."""

    def __init__(
        self,
        store: Store,
        files: Files,
        texts: Files,
        *,
        workers: Callable[[], int],
        limits: Callable[[], Limits],
        lease: Callable[[], float],
        job_dirs: Path,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._files = files
        self._workers = workers
        self._limits = limits
        self._lease = lease
        self._job_dirs = job_dirs
        self._on_tick = on_tick
        self._selector = selectors.DefaultSelector()
        self._bell, self._button = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._button_lock = RLock()  # a signal may come while its own thread holds it
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._bell_alone = selectors.DefaultSelector()
        self._bell_alone.register(self._bell, selectors.EVENT_READ)
        self._outage = Outage()
        self._finisher = ResultWriter(store, files, texts, self._wake, self._outage)
        self._progress_reporter = ProgressReporter(store)
        self._forkserver = ForkServer()
        self._slots: list[WorkerSlot] = []
        self._names: list[str] = []  # of all seats there ever were
        self._prefetch = Prefetch(workers=0)
        self._tries = Tries(self._outage)
        self._look_seconds = 0.0
        self._stop = Stop.NO
        self._ran_dry = False  # nothing was left for a free worker
        self._fell_short = False  # or to lie ready; the next one may be a suspect
        self._version = -1
        self._is_time_to_count = Every()
        self._is_short_of_workers = False
        self._is_time_to_look = Every()
        self._is_time_to_watch = Every()
        self._is_time_to_renew = Every()
        self._listened_at = float("inf")
        self._deaths = 0

    def run(self, *, until_idle: bool = False) -> None:
        """Work until stopped or, if asked, until nothing is left that could run. Only once.

        An outage is borne, for as long as it takes; but who waits for the end is told by its error.
        """
        if until_idle:
            self._outage.patience = PATIENCE_SECONDS
        try:
            self._begin()
            while not self._is_over(until_idle=until_idle):
                self._turn(claims=self._stop is Stop.NO)
        finally:
            self.close()
        self._raise_if_unsaved()

    def work(self, seconds: float) -> None:
        """Process what can run now, and begin nothing new after so long.

        The workers stay, warm for the next call; `close` ends them.
        """
        if not self._slots:
            self._begin()
        until, self._ran_dry = time.monotonic() + seconds, False
        self._listened_at = float("inf")  # since the last call there was nothing to hear
        while self._is_busy() or not (self._ran_dry or time.monotonic() >= until):
            self._turn(claims=time.monotonic() < until)
        self._raise_if_unsaved()

    def _is_busy(self) -> bool:
        """Whether something claimed is not saved yet."""
        return bool(self._at_hand() or self._finisher.held())

    def stop(self) -> None:
        """Once: finish what runs and claim no more. Twice: stop now. May be called anywhere."""
        self._stop = Stop(min(self._stop + 1, Stop.NOW))
        self._wake()

    @property
    def stopping(self) -> Stop:
        """How far it has been asked to stop."""
        return self._stop

    @property
    def is_held_up(self) -> bool:
        """Whether it bears an outage: nothing can be begun now, or nothing saved."""
        return self._outage.is_on

    def worker_pids(self) -> list[int]:
        """The process ids of the workers."""
        return [slot.pid for slot in self._slots]

    def _is_over(self, *, until_idle: bool) -> bool:
        if self._stop is Stop.NOW:
            return True
        if any(slot.claim for slot in self._slots):
            return False
        if self._prefetch.claims and not self._outage.is_on:  # else they can only be left to end
            return False
        if self._stop is Stop.DRAIN:
            return True
        if until_idle and not self._finisher.held():
            with self._tries:
                return self._store.is_idle()
        return False

    def _turn(self, *, claims: bool) -> None:
        with self._tries:
            self._speak_to_the_store(claims=claims)
        self._finisher.hurry(hurried=self._is_somebody_idle() or not claims)
        self._nap()
        self._give_back_time(time.monotonic() - self._listened_at)
        for key, _ in self._selector.select(self._patience()):
            if isinstance(key.data, WorkerSlot):
                with self._tries:
                    self._hear(key.data)
            else:
                self._hush()
        self._listened_at = time.monotonic()
        self._raise_if_unsaved()
        with self._tries:
            self._end_overlong()
        with self._tries:
            if not self._tries.is_on:  # else a try is for what matters more
                self._progress_reporter.tell(self._slots)
            self._on_tick()

    def _give_back_time(self, seconds: float) -> None:
        """Documents may take that much longer: nobody could listen to their readers for so long.

        Who waits for a lock of the database does not hear that they are done.
        """
        if seconds > LOOK_AGAIN_SECONDS:
            for slot in self._slots:
                slot.deadline += seconds

    def _speak_to_the_store(self, *, claims: bool) -> None:
        if self._tries.is_resting():
            return
        self._keep_leases()  # before a claim, which takes back what ran out while we slept
        if claims:
            self._follow_now_and_then()
            self._claim()
        else:
            self._put_back()
        self._tries.over()

    # --- claims ---

    def _claim(self) -> None:
        """Fill the free seats from the hand, and the hand from the store."""
        if self._finisher.is_behind():
            return
        self._unstick()
        self._deal()
        busy = min(slot.seconds() if slot.claim else 0.0 for slot in self._slots)
        if self._prefetch.is_stuck(busy):
            self._put_back()
        free = sum(slot.is_free for slot in self._slots)
        wanted = self._prefetch.wanted(free, busy)
        # If anything may have changed since nothing was left.
        if wanted and self._may_find_work(free):
            self._renew_limits()
            # Those begin at once for whom nothing is at hand.
            free = max(0, sum(slot.is_free for slot in self._slots) - len(self._prefetch.claims))
            names = list(islice(cycle([slot.name for slot in self._slots]), wanted))
            claims = self._store.claim_for(names[:free], names[free:])
            self._prefetch.claims.extend(claims)
            self._ran_dry, self._fell_short = len(claims) < free, len(claims) < wanted
            self._deal()

    def _deal(self) -> None:
        """Give each free worker a document of the hand, and lay ready what may come next."""
        for slot in self._slots:
            if slot.is_free and self._prefetch.claims:
                self._start(slot, self._prefetch.claims.popleft())
        while self._prefetch.claims:
            room = self._seat_with_room(self._prefetch.claims[0])
            if room is None:
                break
            self._start(room, self._prefetch.claims.popleft())

    def _seat_with_room(self, claim: Claim) -> WorkerSlot | None:
        """Where a claim can lie ready; with whom has the least to read."""
        depth = self._prefetch.depth
        slots = [slot for slot in self._slots if slot.has_room_for(claim, depth)]
        return min(slots, key=lambda slot: slot.behind, default=None)

    def _unstick(self) -> None:
        """Take back what lies behind a document that takes longer than was to be expected."""
        for slot in self._slots:
            if slot.behind and slot.seconds() > STUCK_SECONDS:
                self._prefetch.take_back(slot.withdraw())

    def _put_back(self) -> None:
        """Give back what was claimed and not begun."""
        if self._prefetch.claims:
            self._store.release(self._prefetch.claims)
            self._prefetch.claims.clear()

    def _renew_limits(self) -> None:
        """Workers under limits of before get new children."""
        limits = self._limits()
        for slot in self._slots:
            if slot.is_free and slot.limits != limits:
                self._reseat(slot)

    def _is_somebody_idle(self) -> bool:
        """Whether a worker is free, and nothing was left for it."""
        return self._ran_dry and any(slot.is_free for slot in self._slots)

    def _may_find_work(self, free: int) -> bool:
        """After a claim in vain: only when something was committed since, or time has passed."""
        if self._is_time_to_look(LOOK_AGAIN_SECONDS):
            rescue_from_the_dead(self._store)
            return True
        if self._fell_short and not free:  # a suspect waits for a free worker
            return False
        if not self._ran_dry:
            return True
        before, self._version = self._version, self._store.version()
        return self._version != before

    def _start(self, slot: WorkerSlot, claim: Claim) -> None:
        try:
            if not slot.is_fit_for(claim):
                self._reseat(slot)
            source = self._files.path(claim.id) if claim.content is None else claim.content
            gone = slot.start(claim, Job(source, claim.sha256, claim.password))
        except (
            TemporarilyUnavailable
        ):  # its file cannot be had, or there is no room to lay it before its reader
            self._prefetch.take_back([claim])
            raise
        except ChildDied:
            self._reseat(slot)  # the claim was not begun
            return
        if gone is not None:
            self._settle(slot, [gone])

    # --- workers ---

    def _begin(self) -> None:
        """Let the first worker in, as soon as there is room for it; the others follow."""
        self._look_seconds = self._store.watch(self._wake)
        tidy(self._job_dirs)
        while not self._slots and self._stop is Stop.NO:
            with self._tries:
                self._follow_the_number()
            if not self._slots:
                self._bell_alone.select(self._tries.pause)
                self._hush()

    def _follow_now_and_then(self) -> None:
        """Where no more can be had, work goes on with those who are here."""
        if self._slots and not self._is_time_to_count(LOOK_AGAIN_SECONDS):
            return
        try:
            self._follow_the_number()
            self._is_short_of_workers = False
        except FairleadError as error:
            if not self._slots:
                raise
            if not self._is_short_of_workers:
                _log.warning("fairlead: no more than %s workers: %s", len(self._slots), error)
            self._is_short_of_workers = True

    def _follow_the_number(self) -> None:
        """As many workers as the settings ask for; those who leave finish what they have."""
        wanted = self._workers()
        while len(self._slots) < wanted:
            self._add_seat()
        for slot in self._slots[:]:
            slot.is_leaving = slot not in self._slots[:wanted]
            if slot.is_leaving and slot.claim is None:
                self._selector.unregister(slot)
                self._remove_seat(slot)

    def _add_seat(self) -> None:
        slot = WorkerSlot(self._limits(), self._job_dirs, self._forkserver)
        self._slots.append(slot)
        self._names.append(slot.name)
        self._prefetch.workers += 1
        self._listen(slot)

    def _remove_seat(self, slot: WorkerSlot) -> None:
        self._slots.remove(slot)
        self._prefetch.workers -= 1
        slot.close()

    def _hear(self, slot: WorkerSlot) -> None:
        """A worker has something to say: it is ready, it is done, or it died."""
        was_ready = slot.is_ready
        try:
            settled = slot.receive()
        except ChildDied as death:
            if not was_ready:
                self._survive(death)
            self._reseat(slot)
            return
        except TemporarilyUnavailable:  # as above, when its reader was not ready yet
            self._reseat(slot)
            raise
        self._deaths = 0
        self._settle(slot, settled)

    def _settle(self, slot: WorkerSlot, settled: Sequence[FinishedJob]) -> None:
        """Pass results on, and replace a child that is not to read any more."""
        for each in settled:
            self._prefetch.learn(each.seconds)
            self._finisher.add(each)
        if settled and (slot.is_spent or any(isinstance(each.result, Broken) for each in settled)):
            self._reseat(slot)

    def _end_overlong(self) -> None:
        now = time.monotonic()
        for slot in self._slots:
            if slot.deadline <= now:
                if slot.claim is not None:
                    self._settle(slot, [slot.end(slot.overlong())])
                else:  # it was withdrawn
                    self._reseat(slot)

    def _reseat(self, slot: WorkerSlot, unwanted: Sequence[Claim] = ()) -> None:
        """Replace a child that is dead, too slow, or at work on what is no longer wanted.

        What it has not begun is at hand again. Where there is no room for another one now, its seat
        is given up, and there is a new one as soon as there is room.
        """
        self._selector.unregister(slot)
        self._prefetch.take_back([claim for claim in slot.emptied() if claim not in unwanted])
        try:
            slot.fill(self._limits())
        except TemporarilyUnavailable:
            self._remove_seat(slot)
            raise
        self._listen(slot)

    def _survive(self, death: ChildDied) -> None:
        """A child that dies at its start is replaced; several in a row mean that none can."""
        self._deaths += 1
        if self._deaths >= MOST_DEATHS_AT_START:
            raise FairleadError(
                f"worker processes end as soon as they start ({death.how}); "
                "check the installation with: fairlead doctor"
            )

    # --- leases ---

    def _keep_leases(self) -> None:
        """Say who is here, renew all at hand, and let go of what was cancelled or taken away."""
        was_away = self._tries.is_on  # then they may be about to end
        if not (self._is_time_to_watch(WATCH_SECONDS) or was_away):
            return
        if self._is_time_to_renew(self._lease() / 3) or was_away:
            self._store.attend(self._names[0], len(self._slots))
            held = [*self._at_hand(), *self._finisher.held()]
            self._let_go(self._store.renew(held) if held else [])
        elif held := self._at_hand():
            self._let_go(self._store.lost(held))

    def _at_hand(self) -> list[Claim]:
        """Claims at work, and those not begun."""
        return [*(claim for slot in self._slots for claim in slot.claims), *self._prefetch.claims]

    def _let_go(self, lost: list[Claim]) -> None:
        for claim in lost:
            self._prefetch.drop(claim)
        for slot in self._slots:
            if slot.claim in lost:
                self._reseat(slot, unwanted=lost)

    # --- waiting and ending ---

    def _listen(self, slot: WorkerSlot) -> None:
        self._selector.register(slot, selectors.EVENT_READ, slot)

    def _nap(self) -> None:
        """Let answers gather while all workers have more to read: each wake disturbs them."""
        behind = min((slot.behind for slot in self._slots), default=0)
        if behind and self._stop is Stop.NO:
            self._bell_alone.select(self._prefetch.nap(behind))

    def _patience(self) -> float:
        """How long to sleep when nobody has anything to say."""
        is_busy = any(slot.claim is not None for slot in self._slots)
        is_free = any(slot.claim is None for slot in self._slots)
        longest = min(
            WATCH_SECONDS if is_busy else LOOK_AGAIN_SECONDS,
            self._look_seconds if is_free else LOOK_AGAIN_SECONDS,
        )
        soonest = min((slot.deadline for slot in self._slots), default=inf) - time.monotonic()
        return max(0.0, min(longest, soonest))

    def _wake(self) -> None:
        # A full pipe wakes as well, and an engine that has ended needs no waking.
        with self._button_lock, suppress(BlockingIOError):
            if self._button >= 0:
                os.write(self._button, b"!")

    def _hush(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._bell, 4096)

    def _raise_if_unsaved(self) -> None:
        if self._finisher.error is not None:
            raise self._finisher.error

    def close(self) -> None:
        """End the children, save what they had done, and give back all the rest.

        The store knows best what that is: a claim may have been interrupted on its way here.
        """
        self._store.unwatch(self._wake)
        self._forkserver.close()  # first, as nobody is left then who could keep the others waiting
        for slot in self._slots:
            slot.close()
        self._finisher.close()
        with suppress(FairleadError):  # else the leases end by themselves
            self._store.release_from(self._names)
            for name in self._names[:1]:
                self._store.leave(name)
        self._selector.close()
        self._bell_alone.close()
        self._close_bell()

    def _close_bell(self) -> None:
        """For good: the number of a closed pipe is soon another file's."""
        with self._button_lock:
            bell, button, self._bell, self._button = self._bell, self._button, -1, -1
            os.close(bell)
            os.close(button)
