"""The server: HTTP in the main thread, the local workers in another, one data folder."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
import uvloop
from starlette.types import ASGIApp

from fairlead.app import Fairlead
from fairlead.errors import DataError, UsageError
from fairlead.server.app import create_app
from fairlead.server.context import ServerContext
from fairlead.server.protocol import Protocol
from fairlead.worker.engine_service import EngineService

_FRAMEWORK_LOG = logging.getLogger("uvicorn.error")
STOP_SECONDS = 30
"""How long answers that have begun may take when the server stops."""
COLLECT_AFTER = 10_000
"""New objects after which Python looks for garbage, of which requests leave next to none."""


class Server(uvicorn.Server):
    """Uvicorn's server; signals are ours."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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


def server_config(app: ASGIApp, patience: float) -> uvicorn.Config:
    """How the application is served; headers are waited for so many seconds."""
    return uvicorn.Config(
        app,
        http=type("PatientProtocol", (Protocol,), {"patience": patience}),
        loop="none",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing asks for the sender's address or scheme
        lifespan="on",
        timeout_graceful_shutdown=STOP_SECONDS,
        timeout_keep_alive=75,
    )


def collect_less() -> None:
    """Look for garbage less often than usual, and not in what is there from the start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def serve(
    fairlead: Fairlead,
    listener: socket.socket,
    engine: EngineService | None,
    *,
    on_ready: Callable[[ServerContext], None] = lambda _office: None,
    on_stop: Callable[[], None] = lambda: None,
) -> bool:
    """Serve until a signal; False: it had to stop at once."""
    serving = _Serving(fairlead, listener, engine, on_ready, on_stop)
    collect_less()
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
        self._office = ServerContext(fairlead, is_ready=self._is_ready)
        patience = fairlead.settings.request_timeout
        self._server = Server(server_config(create_app(self._office), patience))

    async def run(self) -> bool:
        """Serve until told to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        if self._engine is not None:
            self._engine.start()
        self._on_ready(self._office)
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
        self._office.fairlead.store.hurry()
        if self._engine is not None:
            self._engine.request_stop()
        if self._signals == 1:
            self._on_stop()
        else:
            self._server.force_exit = True
            _FRAMEWORK_LOG.setLevel(logging.CRITICAL)  # it has a page for each request cut off
        self._stop()

    def _stop(self) -> None:
        self._office.end_all()
        self._server.should_exit = True

    def _is_ready(self) -> bool:
        return self._engine is None or self._engine.is_ready
