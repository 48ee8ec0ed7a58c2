"""Celery: a prefork worker with late acknowledgement and its own default prefetch."""

from __future__ import annotations

import sys

from celery import Celery

from bench.peers.counting import count
from bench.peers.workers.settings import DOCUMENTS, PROCESSES, URL, payload

app = Celery("bench", broker=URL)
app.conf.update(task_acks_late=True, task_ignore_result=True)


def no_op(document: str) -> None:  # noqa: ARG001
    count()


task = app.task(name="no_op")(no_op)


def fill() -> None:
    with app.connection_for_write() as connection, connection.Producer() as producer:
        for number in range(DOCUMENTS):
            task.apply_async((payload(number),), producer=producer)


def work() -> None:
    app.worker_main(["worker", "--concurrency", str(PROCESSES), "--loglevel", "ERROR"])


if __name__ == "__main__":
    {"fill": fill, "work": work}[sys.argv[1]]()
