"""The deliverer: makes the attempts that are due, several at once, in threads of its own.

A receiver that answers slowly holds up itself: at most two attempts at a webhook and four of a
customer are under way at once, of sixteen in all. Customers take turns, and who has as many under
way as places are free begins no other: so nobody waits behind another one's many.

A receiver that kept us waiting and then failed rests for three times as long, up to a minute; all
of its kind get four of the sixteen places, those of one customer one. So however much lies ready
for receivers that never answer, others do not wait for it. Who fails quickly costs nobody a place,
and is treated as all.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from threading import Condition, Thread
from typing import TYPE_CHECKING, NamedTuple

from fairlead.errors import DataError
from fairlead.model.webhooks import Sending, WebhookResponse
from fairlead.webhooks.sender import Send

if TYPE_CHECKING:
    from fairlead.storage import Outbox

_log = logging.getLogger(__name__)

AT_ONCE = 16
AT_ONCE_TO_A_WEBHOOK = 2
AT_ONCE_OF_A_CUSTOMER = 4
AT_ONCE_TO_SLEEPERS = 4
MOST_TURNS = 1000
"""In one round of the customers: the claim looks past all who had theirs, so they are bounded."""
SLEEPS_AFTER = 1.0
"""Seconds of an attempt that failed, from which on its receiver is one that sleeps."""
REST = 3.0
"""So many times as long as its attempt took does such a one rest."""
LONGEST_REST = 60.0
_REMEMBERED = 600.0
"""Seconds after its rest for which a sleeper is known; by then it was tried, or is gone."""
CLOSE_SECONDS = 2.0
"""How long attempts may still take at the end; those that are left come again after their lease."""
LOOK_EVERY = 0.25
"""Seconds between two looks at whether anything is due; a look is one small read."""
KEPT_SECONDS = 30 * 86_400.0
FORGET_EVERY = 3600.0


class _Sleeper(NamedTuple):
    """A receiver that kept us waiting and failed: whose it is, and until when it rests."""

    customer: str
    until: float


class Deliverer:
    """Delivers until it is closed.

    `clock` gives the store's time and `lot` a number from 0 to 1, by which attempts are spread;
    `stopwatch` tells how long receivers take.
    """

    def __init__(
        self,
        outbox: Outbox,
        send: Send,
        *,
        clock: Callable[[], float],
        lot: Callable[[], float],
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox = outbox
        self._send = send
        self._clock = clock
        self._lot = lot
        self._stopwatch = stopwatch
        self._forgot_at: float | None = None
        self._under_way: list[Sending] = []
        self._had_turn: set[str] = set()
        self._sleepers: dict[str, _Sleeper] = {}
        self._settling = 0
        self._is_closing = False
        self._is_closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="fairlead-deliverer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End when the attempts under way are over, or take too long: no receiver decides that."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, CLOSE_SECONDS)
            self._is_closed = True
            self._changed.wait_for(lambda: not self._settling)

    def _work(self) -> None:
        while not self._is_closing:
            try:
                began = self._begin_one()
                self._forget_old()
            except DataError:  # a full disk or a locked store: the next look comes
                began = False
            except Exception:  # whatever it is, others are still to be told
                _log.exception("fairlead: a delivery could not be begun; the next look comes")
                began = False
            with self._changed:
                if not began and not self._is_closing:
                    self._changed.wait(LOOK_EVERY)

    def _begin_one(self) -> bool:
        """Begin an attempt; False: nothing is due, or too much is under way."""
        webhooks, customers = self._busy()
        due = self._outbox.next_at()
        if webhooks is None or due is None or due > self._clock():
            return False
        sending = self._claim(webhooks, customers)
        if sending is None:
            return False
        self._start(sending)
        return True

    def _start(self, sending: Sending) -> None:
        """Make the attempt in a thread of its own; without one, it comes again after its lease."""
        name = f"fairlead-delivery-{sending.id}"
        thread = Thread(target=self._deliver, args=(sending,), name=name, daemon=True)
        with self._changed:
            self._under_way.append(sending)
        try:
            thread.start()
        except BaseException:
            self._is_over(sending)
            raise

    def _claim(self, webhooks: list[str], customers: list[str]) -> Sending | None:
        """An attempt of a customer that had no turn in this round; without one, a round begins."""
        found = self._outbox.claim(webhooks=webhooks, customers=[*customers, *self._had_turn])
        if self._had_turn and (found is None or len(self._had_turn) >= MOST_TURNS):
            self._had_turn.clear()
            found = found or self._outbox.claim(webhooks=webhooks, customers=customers)
        if found is not None:
            self._had_turn.add(found.customer)
        return found

    def _busy(self) -> tuple[list[str] | None, list[str]]:
        """Webhooks and customers with enough under way; None: there is no room at all."""
        with self._changed:
            free = AT_ONCE - len(self._under_way)
            if not free:
                return None, []
            webhooks = Counter(each.webhook for each in self._under_way)
            customers = Counter(each.customer for each in self._under_way)
            put_off = self._put_off(self._stopwatch())
        busy = [id_ for id_, number in webhooks.items() if number >= AT_ONCE_TO_A_WEBHOOK]
        most = min(AT_ONCE_OF_A_CUSTOMER, free)  # the last are for those who have few
        return [*busy, *put_off], [name for name, number in customers.items() if number >= most]

    def _put_off(self, now: float) -> list[str]:
        """Webhooks of sleepers that are not tried now: they rest, or others of them are tried."""
        self._sleepers = {
            id_: each for id_, each in self._sleepers.items() if each.until + _REMEMBERED > now
        }
        tried = [each.customer for each in self._under_way if each.webhook in self._sleepers]
        return [
            id_
            for id_, each in self._sleepers.items()
            if each.until > now or each.customer in tried or len(tried) >= AT_ONCE_TO_SLEEPERS
        ]

    def _deliver(self, sending: Sending) -> None:
        try:
            began = self._stopwatch()
            answer = self._send(sending)
            if self._may_settle(sending, answer, began):
                self._settle(sending, answer)
        finally:
            self._is_over(sending)

    def _is_over(self, sending: Sending) -> None:
        with self._changed:
            self._under_way.remove(sending)
            self._changed.notify_all()

    def _may_settle(self, sending: Sending, answer: WebhookResponse, began: float) -> bool:
        """Note how the receiver does; False: it comes too late, the store may be closed."""
        now = self._stopwatch()
        with self._changed:
            took = now - began
            if answer.is_good or answer.is_gone or took < SLEEPS_AFTER:
                self._sleepers.pop(sending.webhook, None)
            else:
                rest = min(LONGEST_REST, REST * took)
                self._sleepers[sending.webhook] = _Sleeper(sending.customer, now + rest)
            self._settling += not self._is_closed
            return not self._is_closed

    def _settle(self, sending: Sending, answer: WebhookResponse) -> None:
        try:
            self._outbox.settle(sending, answer, jitter=self._lot())
        except DataError:  # not saved: another attempt comes when the claim ends
            pass
        finally:
            with self._changed:
                self._settling -= 1
                self._changed.notify_all()

    def _forget_old(self) -> None:
        now = self._clock()
        if self._forgot_at is not None and now - self._forgot_at < FORGET_EVERY:
            return
        if not self._outbox.forget(now - KEPT_SECONDS):
            self._forgot_at = now
