"""The office: what all requests share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import ParamSpec, TypeVar

from starlette.requests import HTTPConnection

from fairlead.app import Fairlead
from fairlead.config.settings import Settings
from fairlead.server.auth import ASKED_BY, Authenticator
from fairlead.server.dashboard.live_view import LiveView
from fairlead.server.event_feed import EventFeed
from fairlead.server.metrics import Metrics
from fairlead.server.per_customer_pool import PerCustomerPool
from fairlead.server.rate_limit import RateLimiter
from fairlead.server.upload_batcher import UploadBatcher

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
"""How many questions to the store run at once; more would only wait for one another."""
LOOK_SECONDS = 0.02
"""Between looks whether the settings have changed."""


@dataclass
class ServerContext:
    """The installation, its threads, and what is kept in memory while it is served."""

    fairlead: Fairlead
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    is_ready: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="api")
        self._fetching = PerCustomerPool("fetch")
        self.event_feed = EventFeed(self.fairlead)
        self.metrics = Metrics(self.fairlead)
        self.rate_limiter = RateLimiter()
        self.batcher = UploadBatcher(self.fairlead)
        self.auth = Authenticator(self)
        self.live_view = LiveView(self.fairlead)
        self._settings = self.fairlead.settings
        self._looked_at = monotonic()

    def settings(self) -> Settings:
        """The settings in force; a change is known some hundredths of a second later."""
        now = monotonic()
        if now >= self._looked_at + LOOK_SECONDS:
            self._settings, self._looked_at = self.fairlead.settings, now
        return self._settings

    async def ask(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run what may wait in a thread; for a customer, without a sight of others' things."""
        answer = self._as_asked(partial(call, *args, **named))
        return await asyncio.get_running_loop().run_in_executor(self._pool, answer)

    async def fetch(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """As `ask`, for what may wait for files that another machine keeps.

        No question waits for it, nor does what another customer fetches.
        """
        answer = self._as_asked(partial(call, *args, **named))
        return await self._fetching.run(ASKED_BY.get(), answer)

    def _as_asked(self, call: Callable[[], T]) -> Callable[[], T]:
        customer = ASKED_BY.get()

        def answer() -> T:
            if customer is None:
                return call()
            with self.fairlead.store.seen_by(customer):
                return call()

        return answer

    def open(self) -> None:
        self.event_feed.listen(self.metrics.hear)
        self.event_feed.listen(self.auth.hear)
        self.event_feed.listen(self.live_view.hear)
        self.event_feed.open()
        self.live_view.open(self.ask, self.event_feed.seen)

    def end_all(self) -> None:
        self.event_feed.end_all()
        self.live_view.end_all()

    def close(self) -> None:
        self.live_view.close()
        self.event_feed.close()
        self.batcher.close()
        self._fetching.close()
        self._pool.shutdown(cancel_futures=True)


def context_of(request: HTTPConnection) -> ServerContext:
    found: ServerContext = request.app.state.context
    return found
