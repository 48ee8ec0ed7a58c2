"""The server: HTTP in the main thread, the local workers in another, one data folder."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
import uvloop
from starlette.types import ASGIApp

from fairlead.app import Fairlead
from fairlead.errors import DataError, UsageError
from fairlead.server.app import create_app
from fairlead.server.context import ServerContext
from fairlead.server.protocol import Protocol
from fairlead.worker.engine import LocalEngine, Stop

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


class Worker(Thread):
    """The engine in a thread of its own, which lives as long as its children may."""

    def __init__(self, engine: LocalEngine, on_end: Callable[[], None]) -> None:
        super().__init__(name="engine")
        self.engine = engine
        self.error: BaseException | None = None
        self._on_end = on_end

    def run(self) -> None:
        """Work until stopped."""
        try:
            self.engine.run()
        except BaseException as error:
            self.error = error
        finally:
            self._on_end()


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
    engine: LocalEngine | None,
    *,
    on_ready: Callable[[ServerContext], None] = lambda _office: None,
    on_stop: Callable[[], None] = lambda: None,
) -> bool:
    """Serve until a signal; False: it had to stop at once, or the workers ended by themselves."""
    serving = _Serving(fairlead, listener, engine, on_ready, on_stop)
    collect_less()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serving.run())


class _Serving:
    def __init__(
        self,
        fairlead: Fairlead,
        listener: socket.socket,
        engine: LocalEngine | None,
        on_ready: Callable[[ServerContext], None],
        on_stop: Callable[[], None],
    ) -> None:
        self._listener = listener
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._signals = 0
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        if engine is not None:
            self._worker = Worker(engine, self._worker_ended)
        self._office = ServerContext(fairlead, is_ready=self._is_ready)
        patience = fairlead.settings.request_timeout
        self._server = Server(server_config(create_app(self._office), patience))

    async def run(self) -> bool:
        """Serve until told to stop."""
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._loop.add_signal_handler(number, self._signalled)
        if self._worker is not None:
            self._worker.start()
        self._on_ready(self._office)
        await self._server.serve(sockets=[self._listener])
        if self._worker is not None:
            if self._worker.engine.stopping is Stop.NO:
                self._worker.engine.stop()
            await asyncio.to_thread(self._worker.join)
            self._raise_if_broken(self._worker)
        return self._signals < 2

    def _raise_if_broken(self, worker: Worker) -> None:
        if worker.error is not None:
            raise worker.error
        if not self._server.started:
            raise DataError("the server could not start; its log says why")

    def _signalled(self) -> None:
        self._signals += 1
        self._office.fairlead.store.hurry()
        if self._worker is not None:
            self._worker.engine.stop()
        if self._signals == 1:
            self._on_stop()
        else:
            self._server.force_exit = True
            _FRAMEWORK_LOG.setLevel(logging.CRITICAL)  # it has a page for each request cut off
        self._stop()

    def _stop(self) -> None:
        self._office.end_all()
        self._server.should_exit = True

    def _worker_ended(self) -> None:
        """In its thread: without workers there is nothing to serve for."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop)

    def _is_ready(self) -> bool:
        worker = self._worker
        return worker is None or (worker.is_alive() and not worker.engine.is_held_up)
