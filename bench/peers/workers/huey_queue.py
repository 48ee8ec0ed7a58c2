"""Huey on Redis. It has no acknowledgement: a task that was taken is gone."""

from __future__ import annotations

import sys

from huey import RedisHuey
from huey.bin.huey_consumer import consumer_main

from bench.peers.counting import count
from bench.peers.workers.settings import DOCUMENTS, PROCESSES, URL, payload

huey = RedisHuey("bench", url=URL, results=False)


def no_op(document: str) -> None:  # noqa: ARG001
    count()


task = huey.task(name="no_op")(no_op)


def fill() -> None:
    for number in range(DOCUMENTS):
        task(payload(number))


def work() -> None:
    name = "__main__.huey"  # Huey knows a task by its module, which is this also where it fills
    sys.argv = [
        "huey_consumer",
        name,
        "--workers",
        str(PROCESSES),
        "--worker-type",
        "process",
        "--quiet",
    ]
    consumer_main()


if __name__ == "__main__":
    {"fill": fill, "work": work}[sys.argv[1]]()
