"""A TCP proxy on the loopback that delivers every byte later: a database that is far away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 1 << 16


@contextmanager
def distant(port: int, round_trip: float) -> Iterator[int]:
    """A port that leads to this one; a request and its answer take so many seconds more."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = _Proxy(port, round_trip / 2)
    try:
        yield asyncio.run_coroutine_threadsafe(proxy.open(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(proxy.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Proxy:
    def __init__(self, port: int, delay: float) -> None:
        self._port = port
        self._delay = delay
        self._server: asyncio.Server | None = None

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(
        self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        reader, server = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await asyncio.gather(
                    self._carry(client_reader, server), self._carry(reader, client)
                )
        finally:
            for writer in (server, client):
                writer.close()

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Deliver in order, each piece a delay after it came."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivery = asyncio.create_task(self._deliver(pieces, target))
        try:
            while True:
                piece = await source.read(_CHUNK)
                pieces.put_nowait((asyncio.get_running_loop().time() + self._delay, piece))
                if not piece:
                    await delivery
                    return
        finally:
            delivery.cancel()

    async def _deliver(
        self, pieces: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, piece = await pieces.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            if not piece:
                target.close()
                return
            target.write(piece)
