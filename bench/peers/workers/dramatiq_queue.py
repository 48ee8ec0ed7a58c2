"""Dramatiq on Redis, with its defaults: 8 threads in each worker process."""

from __future__ import annotations

import sys

import dramatiq
from dramatiq import cli
from dramatiq.brokers.redis import RedisBroker

from bench.peers.counting import count
from bench.peers.workers.settings import DOCUMENTS, PROCESSES, URL, payload

broker = RedisBroker(url=URL)  # type: ignore[no-untyped-call]
dramatiq.set_broker(broker)


def no_op(document: str) -> None:  # noqa: ARG001
    count()


actor = dramatiq.actor(no_op)


def fill() -> None:
    for number in range(DOCUMENTS):
        actor.send(payload(number))


def work() -> None:
    sys.argv = ["dramatiq", "--processes", str(PROCESSES), __spec__.name]
    sys.exit(cli.main())  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    {"fill": fill, "work": work}[sys.argv[1]]()
