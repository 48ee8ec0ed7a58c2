"""Wake-ups: keeps as many messages in the broker as there are documents to claim.

The number of messages does not depend on earlier ones: if the broker was erased, the next check
finds no messages and sends new ones. Every process of an installation has a publisher. A lock of
the store lets one publish at a time, and the next one as soon as that has ended.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Protocol

from fairlead.backoff import Backoff
from fairlead.change_feed import Subscription
from fairlead.service import Service
from fairlead.worker.liveness import requeue_from_dead_workers

if TYPE_CHECKING:
    from fairlead.storage import Store

MOST_MESSAGES = 256
"""A worker claims more than one document per message, so one message per worker is enough."""
CHECK_SECONDS = 1.0
"""How often the publisher checks for due retries, ended leases and lost messages."""


class Broker(Protocol):
    """Where wake-up messages go. All methods raise BrokerUnreachable.

    `fill_up_to` sends messages until so many wait, and returns how many it sent; `messages` returns
    how many wait.
    """

    def fill_up_to(self, number: int) -> int: ...
    def messages(self) -> int: ...
    def close(self) -> None: ...


class WakeupPublisher(Service):
    """Publishes wake-ups until it is stopped; retries while the broker or the store is down."""

    def __init__(self, store: Store, broker: Broker) -> None:
        super().__init__("wake-up publisher", self._publish, backoff=Backoff(1.0))
        self._store = store
        self._broker = broker
        self._requeued_at = float("-inf")

    def stop(self, timeout: float | None = None) -> None:
        super().stop(timeout)
        self._broker.close()

    def _publish(self) -> Generator[float, None, None]:
        with self._store.changes.subscribe(self.wake) as changes:
            while True:
                self._requeue_dead()
                with self._store.only_one("wakeups") as is_mine:
                    if is_mine:
                        yield from self._publish_alone(changes)
                yield CHECK_SECONDS

    def _publish_alone(self, changes: Subscription) -> Generator[float, None, None]:
        next_check = float("-inf")
        while True:
            self._requeue_dead()
            if changes.changed() or time.monotonic() >= next_check:
                self._broker.fill_up_to(self._store.claimable(MOST_MESSAGES))
                next_check = time.monotonic() + CHECK_SECONDS
            yield changes.poll_seconds

    def _requeue_dead(self) -> None:
        """Every publisher does this: only its own machine knows which workers are dead."""
        if time.monotonic() >= self._requeued_at + CHECK_SECONDS:
            requeue_from_dead_workers(self._store)
            self._requeued_at = time.monotonic()
