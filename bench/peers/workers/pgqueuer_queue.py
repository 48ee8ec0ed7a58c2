"""pgqueuer, as its command `pgq run` starts it: asyncpg on uvloop, one connection a process."""

from __future__ import annotations

import signal
import sys

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.peers.counting import count, ready
from bench.peers.workers.settings import AT_ONCE, BATCH, DOCUMENTS, PROCESSES, URL, payload

ENTRYPOINT = "no_op"


async def fill() -> None:
    connection = await asyncpg.connect(URL)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    for first in range(0, DOCUMENTS, AT_ONCE):
        await enqueue(queries, payloads(first))
    await connection.close()


async def install() -> None:
    connection = await asyncpg.connect(URL)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


def payloads(first: int) -> list[bytes | None]:
    return [payload(number).encode() for number in range(first, first + AT_ONCE)]


async def enqueue(queries: Queries, batch: list[bytes | None]) -> None:
    await queries.enqueue([ENTRYPOINT] * len(batch), batch, [0] * len(batch))


async def work() -> None:
    connection = await asyncpg.connect(URL)
    queuer = PgQueuer.from_asyncpg_connection(connection)

    async def no_op(_job: object) -> None:
        count()

    queuer.entrypoint(ENTRYPOINT)(no_op)
    signal.signal(signal.SIGTERM, lambda *_: queuer.shutdown.set())
    await queuer.run(batch_size=BATCH)


async def submit() -> None:
    connection = await asyncpg.connect(URL)
    queries = Queries(AsyncpgDriver(connection))
    prepared = [payloads(0) for _ in range(DOCUMENTS // PROCESSES // AT_ONCE)]
    ready()
    for batch in prepared:
        await enqueue(queries, batch)
        count(AT_ONCE)


if __name__ == "__main__":
    COMMANDS = {"fill": fill, "install": install, "work": work, "submit": submit}
    uvloop.run(COMMANDS[sys.argv[1]]())
