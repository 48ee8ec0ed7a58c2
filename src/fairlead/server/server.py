"""The server process: HTTP in the main thread, the engine in another."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

import uvicorn
import uvloop
from starlette.types import ASGIApp

from fairlead.app import Fairlead
from fairlead.errors import DataError, UsageError
from fairlead.server.app import create_app
from fairlead.server.connection_limits import LimitedConnection
from fairlead.server.context import ServerContext
from fairlead.server.request_log import log_requests
from fairlead.worker.engine_service import EngineService

_FRAMEWORK_LOG = logging.getLogger("uvicorn.error")
STOP_SECONDS = 30
"""How long open requests may take when the server stops."""
READER_TIMEOUT_MS = 30_000
"""A connection is closed when its client has acknowledged no data for so long."""


class Server(uvicorn.Server):
    """Uvicorn's server without its signal handlers; `_Serving` has its own."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted connections inherit it. Without it, a client that reads nothing could keep a response
    # in memory for ever.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, READER_TIMEOUT_MS)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot listen on {host}:{port} ({reason}); choose another --host or --port"
        ) from None
    listener.listen(1024)
    return listener


def most_connections() -> int:
    """The limit of connections; the other file descriptors are for the store, files and workers."""
    return max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4)


def server_config(app: ASGIApp, timeout: float) -> uvicorn.Config:
    """Uvicorn's settings; headers, and each piece of a body, must arrive within so many seconds."""
    return uvicorn.Config(
        app,
        http=cast(
            "type[asyncio.Protocol]", partial(LimitedConnection, timeout, most_connections())
        ),
        loop="none",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=True,  # the scheme, for Secure cookies; see FORWARDED_ALLOW_IPS
        lifespan="on",
        timeout_graceful_shutdown=STOP_SECONDS,
        timeout_keep_alive=75,
    )


def reduce_garbage_collection() -> None:
    """Collect garbage less often: requests create hardly any cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def serve(
    fairlead: Fairlead,
    listener: socket.socket,
    engine: EngineService | None,
    *,
    on_ready: Callable[[ServerContext], None] = lambda _context: None,
    on_stop: Callable[[], None] = lambda: None,
) -> bool:
    """Serve until a signal. False: a second signal cut off open requests.

    `on_ready` is called when the server accepts documents.
    """
    log_requests()
    serving = _Serving(fairlead, listener, engine, on_ready, on_stop)
    reduce_garbage_collection()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serving.run())


@dataclass
class _Serving:
    fairlead: Fairlead
    listener: socket.socket
    engine: EngineService | None
    on_ready: Callable[[ServerContext], None]
    on_stop: Callable[[], None]
    signals: int = 0

    def __post_init__(self) -> None:
        engine = self.engine
        self.context = ServerContext(
            self.fairlead, is_ready=lambda: engine is None or engine.is_ready
        )
        timeout = self.fairlead.settings.request_timeout
        config = server_config(create_app(self.context), timeout)
        self.server = Server(config, partial(self.on_ready, self.context))

    async def run(self) -> bool:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop)
        if self.engine is not None:
            self.engine.start()
        await self.server.serve(sockets=[self.listener])
        if self.engine is not None:
            if not self.engine.is_stopping:
                self.engine.request_stop()
            await asyncio.to_thread(self.engine.join)
        if not self.server.started:
            raise DataError("the server could not start; its log says why")
        return self.signals < 2

    def _stop(self) -> None:
        self.signals += 1
        self.fairlead.store.hurry()
        if self.engine is not None:
            self.engine.request_stop()
        if self.signals == 1:
            self.on_stop()
        else:
            self.server.force_exit = True
            _FRAMEWORK_LOG.setLevel(logging.CRITICAL)  # else a traceback for each open request
        self.context.end_all()
        self.server.should_exit = True
