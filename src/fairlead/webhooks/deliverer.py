"""The deliverer: makes the delivery attempts that are due, several at once, each in a thread.

A slow receiver delays only itself: at most 2 attempts of a webhook, 4 of a customer and 16 in total
run at once. Customers take turns. A customer with as many running attempts as there are free slots
starts no other, so its many deliveries do not delay other customers.

A receiver that failed slowly pauses for three times the duration of its attempt, up to a minute.
All such receivers share 4 of the 16 slots, and those of one customer use one slot, so receivers
that never answer do not delay others. Receivers that fail quickly are treated like any other.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from threading import Condition
from typing import TYPE_CHECKING, NamedTuple

from fairlead.errors import DataError
from fairlead.model.webhooks import Sending, WebhookResponse
from fairlead.service import Service, run_in_thread
from fairlead.webhooks.sender import Send

if TYPE_CHECKING:
    from fairlead.storage import Outbox

_log = logging.getLogger(__name__)

AT_ONCE = 16
AT_ONCE_TO_A_WEBHOOK = 2
AT_ONCE_OF_A_CUSTOMER = 4
AT_ONCE_TO_SLOW = 4
MOST_TURNS = 1000
"""The most customers in one round: each claim excludes those that had their turn."""
SLOW_SECONDS = 1.0  # after a failed attempt of this duration, a receiver is slow
REST_FACTOR = 3.0
LONGEST_REST = 60.0
_REMEMBERED = 600.0  # seconds after its rest for which a receiver still counts as slow
STOP_SECONDS = 2.0
"""How long `stop` waits for running attempts; the others are repeated when their lease ends."""
POLL_SECONDS = 0.25  # the interval of checks for due deliveries; a check is one small read
KEPT_SECONDS = 30 * 86_400.0
FORGET_EVERY = 3600.0


class _SlowReceiver(NamedTuple):
    customer: str
    rests_until: float


class Deliverer(Service):
    """Delivers until it is stopped.

    `clock` gives the store's time, `jitter` a number from 0 to 1 that spreads attempts, and
    `stopwatch` measures how long attempts take.
    """

    def __init__(
        self,
        outbox: Outbox,
        send: Send,
        *,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("deliverer", self._deliver_due)
        self._outbox = outbox
        self._send = send
        self._clock = clock
        self._jitter = jitter
        self._stopwatch = stopwatch
        self._forget_at = float("-inf")
        self._running: list[Sending] = []
        self._had_turn: set[str] = set()
        self._slow: dict[str, _SlowReceiver] = {}
        self._saving = 0
        self._is_closed = False
        self._changed = Condition()

    def stop(self, timeout: float | None = None) -> None:
        """Stop, and wait up to `STOP_SECONDS` for running attempts."""
        super().stop(timeout)
        with self._changed:
            self._changed.wait_for(lambda: not self._running, STOP_SECONDS)
            self._is_closed = True
            self._changed.wait_for(lambda: not self._saving)

    def _deliver_due(self) -> Generator[float, None, None]:
        while True:
            yield 0.0 if self._start_one() else POLL_SECONDS
            self._forget_old()

    def _start_one(self) -> bool:
        """Start an attempt; False: nothing is due, or too much is running."""
        webhooks, customers = self._busy()
        due = self._outbox.next_at()
        if webhooks is None or due is None or due > self._clock():
            return False
        sending = self._claim(webhooks, customers)
        if sending is None:
            return False
        with self._changed:
            self._running.append(sending)
        try:
            run_in_thread(f"delivery-{sending.id}", partial(self._deliver, sending))
        except BaseException:  # no thread: the delivery is repeated when its lease ends
            self._end(sending)
            raise
        return True

    def _claim(self, webhooks: list[str], customers: list[str]) -> Sending | None:
        """Claim an attempt of a customer without a turn in this round, or start a new round."""
        sending = self._outbox.claim(webhooks=webhooks, customers=[*customers, *self._had_turn])
        if self._had_turn and (sending is None or len(self._had_turn) >= MOST_TURNS):
            self._had_turn.clear()
            sending = sending or self._outbox.claim(webhooks=webhooks, customers=customers)
        if sending is not None:
            self._had_turn.add(sending.customer)
        return sending

    def _busy(self) -> tuple[list[str] | None, list[str]]:
        """Webhooks and customers with enough attempts running; None: all slots are in use."""
        with self._changed:
            free = AT_ONCE - len(self._running)
            if not free:
                return None, []
            webhooks = Counter(sending.webhook for sending in self._running)
            customers = Counter(sending.customer for sending in self._running)
            resting = self._resting(self._stopwatch())
        busy = [id_ for id_, number in webhooks.items() if number >= AT_ONCE_TO_A_WEBHOOK]
        most = min(AT_ONCE_OF_A_CUSTOMER, free)  # the last slots are for customers with few
        return [*busy, *resting], [name for name, number in customers.items() if number >= most]

    def _resting(self, now: float) -> list[str]:
        """Webhooks of slow receivers that get no attempt now."""
        self._slow = {
            id_: slow for id_, slow in self._slow.items() if slow.rests_until + _REMEMBERED > now
        }
        tried = [sending.customer for sending in self._running if sending.webhook in self._slow]
        return [
            id_
            for id_, slow in self._slow.items()
            if slow.rests_until > now or slow.customer in tried or len(tried) >= AT_ONCE_TO_SLOW
        ]

    def _deliver(self, sending: Sending) -> None:
        try:
            began = self._stopwatch()
            response = self._send(sending)
            if self._may_save(sending, response, began):
                self._save(sending, response)
        except Exception:  # the delivery is repeated when its lease ends
            _log.exception("fairlead: an attempt at the delivery %s failed", sending.id)
        finally:
            self._end(sending)

    def _end(self, sending: Sending) -> None:
        with self._changed:
            self._running.remove(sending)
            self._changed.notify_all()
        self.wake()

    def _may_save(self, sending: Sending, response: WebhookResponse, began: float) -> bool:
        """Note whether the receiver is slow; False: the store may be closed already."""
        now = self._stopwatch()
        with self._changed:
            took = now - began
            if response.is_good or response.is_gone or took < SLOW_SECONDS:
                self._slow.pop(sending.webhook, None)
            else:
                rest = min(LONGEST_REST, REST_FACTOR * took)
                self._slow[sending.webhook] = _SlowReceiver(sending.customer, now + rest)
            self._saving += not self._is_closed
            return not self._is_closed

    def _save(self, sending: Sending, response: WebhookResponse) -> None:
        try:
            with suppress(DataError):  # the delivery is repeated when its lease ends
                self._outbox.settle(sending, response, jitter=self._jitter())
        finally:
            with self._changed:
                self._saving -= 1
                self._changed.notify_all()

    def _forget_old(self) -> None:
        now = self._clock()
        if now >= self._forget_at and not self._outbox.forget(now - KEPT_SECONDS):
            self._forget_at = now + FORGET_EVERY
