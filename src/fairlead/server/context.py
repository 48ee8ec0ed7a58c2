"""The server context, which all requests share, and the caller of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import ParamSpec, TypeVar

from starlette.requests import HTTPConnection, Request

from fairlead.app import Fairlead
from fairlead.config.settings import Settings
from fairlead.server.auth import REQUEST_CUSTOMER, Authenticator, Caller
from fairlead.server.dashboard.live_view import LiveView
from fairlead.server.event_feed import EventFeed
from fairlead.server.metrics import Metrics
from fairlead.server.per_customer_pool import PerCustomerPool
from fairlead.server.problems import Problem
from fairlead.server.rate_limit import RateLimiter
from fairlead.server.upload_batcher import UploadBatcher

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
"""How many calls of the store run at once. More would only wait for each other."""
SETTINGS_SECONDS = 0.02
"""How long settings are cached."""


@dataclass
class ServerContext:
    """The installation, the thread pools, and the server's state in memory."""

    fairlead: Fairlead
    is_ready: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="api")
        self._fetch_pool = PerCustomerPool("fetch")
        self.event_feed = EventFeed(self.fairlead)
        self.metrics = Metrics(self.fairlead)
        self.rate_limiter = RateLimiter()
        self.batcher = UploadBatcher(self.fairlead)
        self.jobs = self.fairlead.services.pulled_jobs()
        self.auth = Authenticator(
            self.fairlead, self.ask, self.settings, self.rate_limiter, self.event_feed
        )
        self.live_view = LiveView(self.fairlead)
        self._settings, self._settings_at = self.fairlead.settings, monotonic()

    def settings(self) -> Settings:
        """The settings, at most SETTINGS_SECONDS old."""
        now = monotonic()
        if now >= self._settings_at + SETTINGS_SECONDS:
            self._settings, self._settings_at = self.fairlead.settings, now
        return self._settings

    async def ask(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a blocking call in a thread. For a customer, it can read only the customer's data."""
        bound = self._isolated(partial(call, *args, **named))
        return await asyncio.get_running_loop().run_in_executor(self._pool, bound)

    async def fetch(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """As `ask`, in a pool of its own, for calls that may wait for another machine."""
        bound = self._isolated(partial(call, *args, **named))
        return await self._fetch_pool.run(REQUEST_CUSTOMER.get(), bound)

    def _isolated(self, call: Callable[[], T]) -> Callable[[], T]:
        """The call with the customer's view of the store, in the context of the request."""
        customer, request = REQUEST_CUSTOMER.get(), copy_context()
        if customer is None:
            return partial(request.run, call)

        def call_as_customer() -> T:
            with self.fairlead.store.seen_by(customer):
                return call()

        return partial(request.run, call_as_customer)

    def open(self) -> None:
        for listener in (self.metrics.hear, self.auth.hear, self.live_view.hear):
            self.event_feed.listen(listener)
        self.event_feed.open()
        self.live_view.open(self.ask, self.event_feed.seen)

    def end_all(self) -> None:
        """End all long polls and streams: the server is about to stop."""
        self.event_feed.end_all()
        self.live_view.end_all()

    def close(self) -> None:
        self.live_view.close()
        self.event_feed.close()
        self.batcher.close()
        self._fetch_pool.close()
        self._pool.shutdown(cancel_futures=True)


def context_of(request: HTTPConnection) -> ServerContext:
    context: ServerContext = request.app.state.context
    return context


def check_query(request: Request) -> None:
    """Refuse query parameters that the route does not have: a misspelt filter lists everything."""
    check_parameters(request.query_params, known_parameters(request))


def known_parameters(request: Request) -> set[str]:
    """The query parameters that the route of the request has."""
    return {field.alias for field in request.scope["route"].dependant.query_params}


def check_parameters(names: Iterable[str], known: Collection[str]) -> None:
    """Refuse query parameters that are not known."""
    for name in names:
        if name not in known:
            raise Problem("invalid-request", f"unknown query parameter {name[:60]!a}")


async def authenticated(request: Request) -> tuple[ServerContext, Caller]:
    """The context and the caller; refuses query parameters that the route does not have."""
    check_query(request)
    context = context_of(request)
    return context, await context.auth.caller(request)


async def authenticated_operator(request: Request) -> tuple[ServerContext, Caller]:
    """As `authenticated`, and refuses all callers but operators."""
    check_query(request)
    context = context_of(request)
    return context, await context.auth.operator(request)
