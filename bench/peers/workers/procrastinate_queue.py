"""Procrastinate, with its defaults: one job at a time in each worker process."""

from __future__ import annotations

import asyncio
import sys

import procrastinate

from bench.peers.counting import count
from bench.peers.workers.settings import AT_ONCE, DOCUMENTS, URL, payload

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL))


async def no_op(document: str) -> None:  # noqa: ARG001
    count()


task = app.task(name="no_op")(no_op)


async def fill() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for first in range(0, DOCUMENTS, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, DOCUMENTS))
            await task.batch_defer_async(*({"document": payload(number)} for number in numbers))


async def work() -> None:
    async with app.open_async():
        await app.run_worker_async()


if __name__ == "__main__":
    asyncio.run({"fill": fill, "work": work}[sys.argv[1]]())
