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

from fairlead.core.documents import Broken, Claim
from fairlead.engines.hand import STUCK_SECONDS, Hand
from fairlead.engines.herald import Herald
from fairlead.engines.rescue import rescue_from_the_dead
from fairlead.engines.seat import Seat
from fairlead.errors import FairleadError, NotNow
from fairlead.ports import Files, Store
from fairlead.work.desk import tidy
from fairlead.work.finisher import Finisher, Settled
from fairlead.work.limits import Limits
from fairlead.work.nursery import Nursery
from fairlead.work.outage import Outage, Tries
from fairlead.work.sandbox import ChildDied, Job

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
        desks: Path,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._files = files
        self._workers = workers
        self._limits = limits
        self._lease = lease
        self._desks = desks
        self._on_tick = on_tick
        self._selector = selectors.DefaultSelector()
        self._bell, self._button = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._button_lock = RLock()  # a signal may come while its own thread holds it
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._bell_alone = selectors.DefaultSelector()
        self._bell_alone.register(self._bell, selectors.EVENT_READ)
        self._outage = Outage()
        self._finisher = Finisher(store, files, texts, self._wake, self._outage)
        self._herald = Herald(store)
        self._nursery = Nursery()
        self._seats: list[Seat] = []
        self._names: list[str] = []  # of all seats there ever were
        self._hand = Hand(workers=0)
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
        if not self._seats:
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
        return [seat.pid for seat in self._seats]

    def _is_over(self, *, until_idle: bool) -> bool:
        if self._stop is Stop.NOW:
            return True
        if any(seat.claim for seat in self._seats):
            return False
        if self._hand.claims and not self._outage.is_on:  # else they can only be left to end
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
            if isinstance(key.data, Seat):
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
                self._herald.tell(self._seats)
            self._on_tick()

    def _give_back_time(self, seconds: float) -> None:
        """Documents may take that much longer: nobody could listen to their readers for so long.

        Who waits for a lock of the database does not hear that they are done.
        """
        if seconds > LOOK_AGAIN_SECONDS:
            for seat in self._seats:
                seat.deadline += seconds

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
        busy = min(seat.seconds() if seat.claim else 0.0 for seat in self._seats)
        if self._hand.is_stuck(busy):
            self._put_back()
        free = sum(seat.is_free for seat in self._seats)
        wanted = self._hand.wanted(free, busy)
        # If anything may have changed since nothing was left.
        if wanted and self._may_find_work(free):
            self._renew_limits()
            # Those begin at once for whom nothing is at hand.
            free = max(0, sum(seat.is_free for seat in self._seats) - len(self._hand.claims))
            names = list(islice(cycle([seat.name for seat in self._seats]), wanted))
            claims = self._store.claim_for(names[:free], names[free:])
            self._hand.claims.extend(claims)
            self._ran_dry, self._fell_short = len(claims) < free, len(claims) < wanted
            self._deal()

    def _deal(self) -> None:
        """Give each free worker a document of the hand, and lay ready what may come next."""
        for seat in self._seats:
            if seat.is_free and self._hand.claims:
                self._start(seat, self._hand.claims.popleft())
        while self._hand.claims:
            room = self._seat_with_room(self._hand.claims[0])
            if room is None:
                break
            self._start(room, self._hand.claims.popleft())

    def _seat_with_room(self, claim: Claim) -> Seat | None:
        """Where a claim can lie ready; with whom has the least to read."""
        depth = self._hand.depth
        seats = [seat for seat in self._seats if seat.has_room_for(claim, depth)]
        return min(seats, key=lambda seat: seat.behind, default=None)

    def _unstick(self) -> None:
        """Take back what lies behind a document that takes longer than was to be expected."""
        for seat in self._seats:
            if seat.behind and seat.seconds() > STUCK_SECONDS:
                self._hand.take_back(seat.withdraw())

    def _put_back(self) -> None:
        """Give back what was claimed and not begun."""
        if self._hand.claims:
            self._store.release(self._hand.claims)
            self._hand.claims.clear()

    def _renew_limits(self) -> None:
        """Workers under limits of before get new children."""
        limits = self._limits()
        for seat in self._seats:
            if seat.is_free and seat.limits != limits:
                self._reseat(seat)

    def _is_somebody_idle(self) -> bool:
        """Whether a worker is free, and nothing was left for it."""
        return self._ran_dry and any(seat.is_free for seat in self._seats)

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

    def _start(self, seat: Seat, claim: Claim) -> None:
        try:
            if not seat.is_fit_for(claim):
                self._reseat(seat)
            source = self._files.path(claim.id) if claim.content is None else claim.content
            gone = seat.start(claim, Job(source, claim.sha256, claim.password))
        except NotNow:  # its file cannot be had, or there is no room to lay it before its reader
            self._hand.take_back([claim])
            raise
        except ChildDied:
            self._reseat(seat)  # the claim was not begun
            return
        if gone is not None:
            self._settle(seat, [gone])

    # --- workers ---

    def _begin(self) -> None:
        """Let the first worker in, as soon as there is room for it; the others follow."""
        self._look_seconds = self._store.watch(self._wake)
        tidy(self._desks)
        while not self._seats and self._stop is Stop.NO:
            with self._tries:
                self._follow_the_number()
            if not self._seats:
                self._bell_alone.select(self._tries.pause)
                self._hush()

    def _follow_now_and_then(self) -> None:
        """Where no more can be had, work goes on with those who are here."""
        if self._seats and not self._is_time_to_count(LOOK_AGAIN_SECONDS):
            return
        try:
            self._follow_the_number()
            self._is_short_of_workers = False
        except FairleadError as error:
            if not self._seats:
                raise
            if not self._is_short_of_workers:
                _log.warning("fairlead: no more than %s workers: %s", len(self._seats), error)
            self._is_short_of_workers = True

    def _follow_the_number(self) -> None:
        """As many workers as the settings ask for; those who leave finish what they have."""
        wanted = self._workers()
        while len(self._seats) < wanted:
            self._add_seat()
        for seat in self._seats[:]:
            seat.is_leaving = seat not in self._seats[:wanted]
            if seat.is_leaving and seat.claim is None:
                self._selector.unregister(seat)
                self._remove_seat(seat)

    def _add_seat(self) -> None:
        seat = Seat(self._limits(), self._desks, self._nursery)
        self._seats.append(seat)
        self._names.append(seat.name)
        self._hand.workers += 1
        self._listen(seat)

    def _remove_seat(self, seat: Seat) -> None:
        self._seats.remove(seat)
        self._hand.workers -= 1
        seat.close()

    def _hear(self, seat: Seat) -> None:
        """A worker has something to say: it is ready, it is done, or it died."""
        was_ready = seat.is_ready
        try:
            settled = seat.receive()
        except ChildDied as death:
            if not was_ready:
                self._survive(death)
            self._reseat(seat)
            return
        except NotNow:  # as above, when its reader was not ready yet
            self._reseat(seat)
            raise
        self._deaths = 0
        self._settle(seat, settled)

    def _settle(self, seat: Seat, settled: Sequence[Settled]) -> None:
        """Pass results on, and replace a child that is not to read any more."""
        for each in settled:
            self._hand.learn(each.seconds)
            self._finisher.add(each)
        if settled and (seat.is_spent or any(isinstance(each.result, Broken) for each in settled)):
            self._reseat(seat)

    def _end_overlong(self) -> None:
        now = time.monotonic()
        for seat in self._seats:
            if seat.deadline <= now:
                if seat.claim is not None:
                    self._settle(seat, [seat.end(seat.overlong())])
                else:  # it was withdrawn
                    self._reseat(seat)

    def _reseat(self, seat: Seat, unwanted: Sequence[Claim] = ()) -> None:
        """Replace a child that is dead, too slow, or at work on what is no longer wanted.

        What it has not begun is at hand again. Where there is no room for another one now, its seat
        is given up, and there is a new one as soon as there is room.
        """
        self._selector.unregister(seat)
        self._hand.take_back([claim for claim in seat.emptied() if claim not in unwanted])
        try:
            seat.fill(self._limits())
        except NotNow:
            self._remove_seat(seat)
            raise
        self._listen(seat)

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
            self._store.attend(self._names[0], len(self._seats))
            held = [*self._at_hand(), *self._finisher.held()]
            self._let_go(self._store.renew(held) if held else [])
        elif held := self._at_hand():
            self._let_go(self._store.lost(held))

    def _at_hand(self) -> list[Claim]:
        """Claims at work, and those not begun."""
        return [*(claim for seat in self._seats for claim in seat.claims), *self._hand.claims]

    def _let_go(self, lost: list[Claim]) -> None:
        for claim in lost:
            self._hand.drop(claim)
        for seat in self._seats:
            if seat.claim in lost:
                self._reseat(seat, unwanted=lost)

    # --- waiting and ending ---

    def _listen(self, seat: Seat) -> None:
        self._selector.register(seat, selectors.EVENT_READ, seat)

    def _nap(self) -> None:
        """Let answers gather while all workers have more to read: each wake disturbs them."""
        behind = min((seat.behind for seat in self._seats), default=0)
        if behind and self._stop is Stop.NO:
            self._bell_alone.select(self._hand.nap(behind))

    def _patience(self) -> float:
        """How long to sleep when nobody has anything to say."""
        is_busy = any(seat.claim is not None for seat in self._seats)
        is_free = any(seat.claim is None for seat in self._seats)
        longest = min(
            WATCH_SECONDS if is_busy else LOOK_AGAIN_SECONDS,
            self._look_seconds if is_free else LOOK_AGAIN_SECONDS,
        )
        soonest = min((seat.deadline for seat in self._seats), default=inf) - time.monotonic()
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
        self._nursery.close()  # first, as nobody is left then who could keep the others waiting
        for seat in self._seats:
            seat.close()
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
