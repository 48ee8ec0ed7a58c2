"""The ringer: sees to it that messages stand for the documents that wait.

It does not matter who submitted them, or what became of the messages of before: when the broker was
erased, the next look finds none and rings again. A document whose worker died on this machine waits
again at the next look. Every process of an installation has a ringer; the
store lets one of them ring at a time, and another one as soon as that one is gone.
"""

from __future__ import annotations

import logging
import time
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

from fairlead.errors import BrokerUnreachable, DataError
from fairlead.worker.dead_workers import rescue_from_the_dead

if TYPE_CHECKING:
    from fairlead.storage import Store

MOST_MESSAGES = 256
"""A message keeps a worker going while there is work, so there need not be more than workers."""
LOOK_AGAIN_SECONDS = 1.0
"""How often it looks in any case: for due retries, ended leases, and messages that got lost."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 5.0

_log = logging.getLogger(__name__)


class WakeupSender(Protocol):
    """What reaches a broker."""

    def ring_up_to(self, number: int) -> int:
        """See to it that so many messages wait; return how many were sent.

        Raises:
            BrokerUnreachable: there is no broker to be heard.
        """
        ...

    def messages(self) -> int:
        """How many messages wait; raises as well."""
        ...

    def close(self) -> None:
        """Hang up."""
        ...


class WakeupPublisher:
    """Rings in a thread of its own until it is closed; waits by itself for what is unreachable."""

    def __init__(self, store: Store, bell: WakeupSender) -> None:
        self._store = store
        self._bell = bell
        self._news, self._closing = Event(), Event()
        self._look_seconds = store.watch(self._news.set)
        self._pause = FIRST_PAUSE
        self._version: int | None = None
        self._looked = self._rescued = float("-inf")
        self._thread = Thread(target=self._work, name="fairlead-ringer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._closing.set()
        self._news.set()
        self._thread.join()
        self._store.unwatch(self._news.set)
        self._bell.close()

    def _work(self) -> None:
        while not self._closing.is_set():
            try:
                self._rescue()
                with self._store.only_one("ring") as is_mine:
                    while is_mine and not self._closing.is_set():
                        self._rescue()
                        self._look()
                        self._news.wait(self._look_seconds)
                        self._news.clear()
            except (BrokerUnreachable, DataError, OSError) as error:
                if self._pause == FIRST_PAUSE:
                    _log.warning("fairlead: %s", error)
                self._pause = min(LONGEST_PAUSE, 2 * self._pause)
                self._version = None
            self._closing.wait(self._pause)

    def _rescue(self) -> None:
        """Also where another machine rings, whose ringer cannot know who is dead here."""
        if time.monotonic() >= self._rescued + LOOK_AGAIN_SECONDS:
            rescue_from_the_dead(self._store)
            self._rescued = time.monotonic()

    def _look(self) -> None:
        now, version = time.monotonic(), self._store.version()
        if version == self._version and now < self._looked + LOOK_AGAIN_SECONDS:
            return
        self._bell.ring_up_to(self._store.claimable(MOST_MESSAGES))
        if self._pause > FIRST_PAUSE:
            _log.warning("fairlead: broker and store are reached again")
        self._pause, self._version, self._looked = FIRST_PAUSE, version, now
