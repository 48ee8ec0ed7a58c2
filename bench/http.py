"""Measures uploads over HTTP: durable, with one commit for each request, and without storing.

Uploads that are not stored are measured twice: on Fairlead's server, with authentication, limits
and checks, and on a plain FastAPI endpoint that only reads the upload.

python -m bench.http [--seconds S] [--rounds N] [--clients N] [--size BYTES] [--flush-ms MS]

Group commit gains more on disks that flush slowly. `--flush-ms` simulates a slower disk.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
import uvicorn
import uvloop
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from multipart import PushMultipartParser
from starlette.responses import Response

from fairlead import Fairlead
from fairlead.intake import Offer
from fairlead.server.app import create_inner, guarded
from fairlead.server.context import ServerContext, context_of
from fairlead.server.schemas import JSONResponse
from fairlead.server.server import bound_socket, reduce_garbage_collection, server_config
from fairlead.server.upload import read_upload
from fairlead.storage.sqlite import store
from fairlead.storage.sqlite.store import SqliteWriter

ADDRESS = "/v1/documents"

_one_at_a_time = ThreadPoolExecutor(1)


class Round(NamedTuple):
    """Responses a second, the 95th percentile of their time, and CPU seconds of the server each."""

    rate: float
    p95: float
    cpu: float


async def nowhere(request: Request) -> Response:
    """Reads the upload with all checks, and does not store it."""
    context = context_of(request)
    await context.auth.caller(request)
    upload = await read_upload(request, context)
    upload.discard()
    return JSONResponse({"files": len(upload.files)}, 202)


async def alone(request: Request) -> Response:
    """Stores the upload durably, with a commit of its own."""
    context = context_of(request)
    caller = await context.auth.caller(request)
    upload = await read_upload(request, context)
    loop = asyncio.get_running_loop()
    offers = [Offer(context.auth.customer_of(caller, None), upload.files)]
    (accepted,) = await loop.run_in_executor(
        _one_at_a_time, context.fairlead.intake.accept_each, offers
    )
    assert isinstance(accepted, list)
    return JSONResponse(accepted[0], 202)


async def plain(request: Request) -> dict[str, int]:
    """Reads the upload without any check."""
    parser = PushMultipartParser("x")
    size = 0
    async for chunk in request.stream():
        size += sum(len(part) for part in parser.parse(chunk) if isinstance(part, bytearray))
    return {"size": size}


PLAIN, NOWHERE, DURABLE, ALONE = WAYS = (
    "stored nowhere, plain FastAPI",
    "stored nowhere",
    "durable",
    "one commit a request",
)
_HANDLERS = {NOWHERE: nowhere, ALONE: alone}


def run_plain_server(listener: socket.socket) -> None:
    app = FastAPI()
    app.add_api_route(ADDRESS, plain, methods=["POST"], status_code=202)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


def run_server(data: str, way: str, listener: socket.socket) -> None:
    """Fairlead's server, which handles uploads in this way."""
    with Fairlead(data, settings={"requests_a_second": "none"}) as fairlead:
        context = ServerContext(fairlead)
        app = create_inner(context)
        if way in _HANDLERS:
            app.routes.insert(0, APIRoute(ADDRESS, _HANDLERS[way], methods=["POST"]))
        config = server_config(guarded(app, context), fairlead.settings.request_timeout)
        reduce_garbage_collection()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(uvicorn.Server(config).serve(sockets=[listener]))


class SlowDisk(SqliteWriter):
    """A writer whose every flush takes so many seconds longer."""

    seconds = 0.0

    def _end(self) -> None:
        super()._end()
        if self._is_durable:
            time.sleep(self.seconds)


def request_bytes(key: str, content: bytes) -> bytes:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        + content
        + b"\r\n--x--\r\n"
    )
    head = (
        f"POST {ADDRESS} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Client(asyncio.Protocol):
    """Sends a request, waits for the response, sends the next, with little CPU of its own."""

    def __init__(self, request: bytes, until: float) -> None:
        self.answers: list[float] = []
        self.bad = 0
        self.done = asyncio.get_running_loop().create_future()
        self._request, self._until, self._got = request, until, b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, separator, body = self._got.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self._got = b""
        self.bad += not head.startswith(b"HTTP/1.1 202")
        self.answers.append(time.perf_counter() - self._began)
        if time.perf_counter() < self._until:
            self._send()
        else:
            self._transport.close()
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server ended the connection"))


async def load(
    port: int, requests: list[bytes], clients: int, seconds: float, *, refusals: bool = False
) -> tuple[float, float]:
    """Responses a second, and the 95th percentile of the time to a response."""
    loop, began = asyncio.get_running_loop(), time.perf_counter()
    senders = [
        Client(requests[number % len(requests)], began + seconds) for number in range(clients)
    ]
    for client in senders:
        await loop.create_connection(lambda client=client: client, "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*(client.done for client in senders))
    took = time.perf_counter() - began
    assert refusals or not any(client.bad for client in senders), "an upload was refused"
    times = sorted(itertools.chain.from_iterable(client.answers for client in senders))
    return len(times) / took, times[int(0.95 * len(times))] if times else 0.0


def start_server(data: Path, way: str) -> tuple[Any, int]:
    return started(run_plain_server) if way == PLAIN else started(run_server, str(data), way)


def started(run: Callable[..., None], *arguments: str) -> tuple[Any, int]:
    """Start a server in a process of its own; return the process and the port."""
    listener = bound_socket("127.0.0.1", 0)
    context = multiprocessing.get_context("fork")
    server = context.Process(target=run, args=(*arguments, listener), daemon=True)
    server.start()
    return server, listener.getsockname()[1]


def cpu_seconds(process: int) -> float:
    """The CPU time of the process so far, in user and system mode."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(server: Any, port: int, requests: list[bytes], clients: int, seconds: float) -> Round:
    """One round of load, with the server's CPU time for each response."""
    before, began = cpu_seconds(server.pid), time.perf_counter()
    rate, p95 = asyncio.run(load(port, requests, clients, seconds))
    answers = rate * (time.perf_counter() - began)
    return Round(rate, p95, (cpu_seconds(server.pid) - before) / answers)


def measure_neighbours(data: Path, seconds: float) -> None:
    """How long a customer with few requests waits beside one that is at its rate limit."""
    with Fairlead(data) as fairlead:
        modest, greedy = (fairlead.keys.add(name)[0] for name in ("modest", "greedy"))
        fairlead.customers.set("greedy", requests_a_second=500.0, requests_burst=500)
    server, port = start_server(data, DURABLE)
    ours, theirs = ([request_bytes(key, b"x" * 4000)] for key in (modest, greedy))

    async def both(others: int) -> tuple[float, float]:
        until = asyncio.create_task(load(port, theirs, others, seconds, refusals=True))
        result = await load(port, ours, 2, seconds)
        await until
        return result

    try:
        for others, what in ((0, "alone"), (8, "beside 8 clients of a customer at its limit")):
            _, p95 = asyncio.run(both(others))
            print(f"a modest customer {what}: 95 % within {1000 * p95:.0f} ms")
    finally:
        server.terminate()
        server.join()


@click.command()
@click.option("--seconds", default=1.0, show_default=True, help="Of each measurement.")
@click.option("--rounds", default=9, show_default=True, help="Of measurements in turns.")
@click.option("--clients", default=32, show_default=True)
@click.option("--customers", default=1, show_default=True, help="Whose keys the clients share.")
@click.option(
    "--folder",
    default=".",
    show_default=True,
    help="On the disk to measure; one where little was deleted.",
)
@click.option("--size", default=4000, show_default=True, help="Bytes of each document.")
@click.option("--flush-ms", default=0.0, help="Let each flush take so much longer.")
def main(
    seconds: float,
    rounds: int,
    clients: int,
    customers: int,
    folder: str,
    size: int,
    flush_ms: float,
) -> None:
    """Print the rates, and how they compare."""
    if flush_ms:
        SlowDisk.seconds = flush_ms / 1000
        store.SqliteWriter = SlowDisk  # type: ignore[misc]
    with tempfile.TemporaryDirectory(dir=folder) as made:
        rounds_by_way: dict[str, list[Round]] = {way: [] for way in WAYS}
        servers: dict[str, tuple[Any, int]] = {}
        requests: dict[str, list[bytes]] = {}
        try:
            for way in WAYS:
                data = Path(made) / way
                with Fairlead(data) as fairlead:
                    keys = [fairlead.keys.add(f"bench-{number}")[0] for number in range(customers)]
                requests[way] = [request_bytes(key, b"x" * size) for key in keys]
                servers[way] = start_server(data, way)
            for _ in range(rounds):  # in turns: what else the machine does hits all of them
                for way in WAYS:
                    rounds_by_way[way].append(
                        measured(*servers[way], requests[way], clients, seconds)
                    )
        finally:
            for server, _ in servers.values():
                server.terminate()
                server.join()
        measure_neighbours(Path(made) / "neighbours", seconds)
    for way, measurements in rounds_by_way.items():
        rates = sorted(measurement.rate for measurement in measurements)
        print(
            f"{way}: {median(rates):,.0f} uploads/s ({rates[0]:,.0f} to {rates[-1]:,.0f}), 95 % "
            f"within {1000 * median(one.p95 for one in measurements):.0f} ms, "
            f"{1000 * median(one.cpu for one in measurements):.3f} ms of CPU each"
        )
    of_plain, of_ours, times = (
        share(rounds_by_way[DURABLE], rounds_by_way[way]) for way in (PLAIN, NOWHERE, ALONE)
    )
    print(
        f"durable, in the middle of {rounds} rounds: {of_plain:.0%} of plain FastAPI that stores "
        f"nothing, {of_ours:.0%} of our own way without storing, {times:.1f} times one commit a "
        f"request; {clients} clients of {customers} customers, {size:,} bytes each"
    )


def share(ours: list[Round], theirs: list[Round]) -> float:
    """How our rate compares with theirs of the same round, in the middle of all rounds."""
    return median(mine.rate / other.rate for mine, other in zip(ours, theirs, strict=True))


if __name__ == "__main__":
    main()
