"""The server: HTTP in the main thread, the local workers in another, one data folder."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from fairlead.worker.engine_service import EngineService

_FRAMEWORK_LOG = logging.getLogger("uvicorn.error")
STOP_SECONDS = 30
"""How long responses that have begun may take when the server stops."""
READER_TIMEOUT_MS = 30_000
"""A connection whose client acknowledges nothing of a response for so long is closed."""
GC_THRESHOLD = 10_000
"""New objects after which Python collects garbage; requests leave next to none."""


class Server(uvicorn.Server):
    """Uvicorn's server; signals are ours."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted connections inherit it. Without it, a client that reads nothing keeps a response in
    # memory for as long as it likes.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, READER_TIMEOUT_MS)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise UsageError(
            f"cannot listen on {host}:{port} ({getattr(error, 'strerror', None) or error}); "
            "choose another --host or --port"
        ) from None
    made.listen(1024)
    made.set_inheritable(False)
    return made


def server_config(app: ASGIApp, header_timeout: float) -> uvicorn.Config:
    """Uvicorn's settings; request headers must arrive within so many seconds."""
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(LimitedConnection, header_timeout)),
        loop="none",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing uses the client's address or scheme
        lifespan="on",
        timeout_graceful_shutdown=STOP_SECONDS,
        timeout_keep_alive=75,
    )


def reduce_garbage_collection() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def serve(
    fairlead: Fairlead,
    listener: socket.socket,
    engine: EngineService | None,
    *,
    on_ready: Callable[[ServerContext], None] = lambda _context: None,
    on_stop: Callable[[], None] = lambda: None,
) -> bool:
    """Serve until a signal; False: it had to stop at once."""
    serving = _Serving(fairlead, listener, engine, on_ready, on_stop)
    reduce_garbage_collection()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serving.run())


class _Serving:
    def __init__(
        self,
        fairlead: Fairlead,
        listener: socket.socket,
        engine: EngineService | None,
        on_ready: Callable[[ServerContext], None],
        on_stop: Callable[[], None],
    ) -> None:
        self._listener = listener
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._signals = 0
        self._engine = engine
        self._context = ServerContext(fairlead, is_ready=self._is_ready)
        header_timeout = fairlead.settings.request_timeout
        self._server = Server(server_config(create_app(self._context), header_timeout))

    async def run(self) -> bool:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        if self._engine is not None:
            self._engine.start()
        self._on_ready(self._context)
        await self._server.serve(sockets=[self._listener])
        if self._engine is not None:
            if not self._engine.is_stopping:
                self._engine.request_stop()
            await asyncio.to_thread(self._engine.join)
        if not self._server.started:
            raise DataError("the server could not start; its log says why")
        return self._signals < 2

    def _signalled(self) -> None:
        self._signals += 1
        self._context.fairlead.store.hurry()
        if self._engine is not None:
            self._engine.request_stop()
        if self._signals == 1:
            self._on_stop()
        else:
            self._server.force_exit = True
            _FRAMEWORK_LOG.setLevel(logging.CRITICAL)  # it has a page for each request cut off
        self._stop()

    def _stop(self) -> None:
        self._context.end_all()
        self._server.should_exit = True

    def _is_ready(self) -> bool:
        return self._engine is None or self._engine.is_ready
