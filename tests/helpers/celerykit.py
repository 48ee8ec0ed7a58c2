"""A Celery application with fair priorities, as tests send from it and as workers run it.

Tasks record what they do in a list in Redis, on which tests wait.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import redis
from celery import Celery, Task
from servers import DIES_WITH_US, Output, descendants

from fairlead.celery import FairPriorities

LONGEST_WAIT = 120
_QUICK = ["--concurrency", "1", "--without-mingle", "--without-gossip", "--loglevel", "INFO"]


class Received(NamedTuple):
    """A message as the broker delivers it."""

    task: str
    args: list[Any]
    number: int | None
    header: dict[str, Any] | None
    headers: dict[str, Any]
    embedded: dict[str, Any]


class Kit:
    """The application, its fair priorities, and the records of its tasks."""

    def __init__(
        self,
        broker: str,
        counters: str,
        records: str,
        queue: str,
        fair: dict[str, Any],
        **conf: Any,
    ) -> None:
        self.place = {
            "broker": broker,
            "counters": counters,
            "records": records,
            "queue": queue,
            "fair": fair,
            **conf,
        }
        self.queue = queue
        self.records = redis.Redis.from_url(records, decode_responses=True, socket_timeout=None)
        self.app = Celery(queue, broker=broker, backend=records, set_as_current=False)
        self.app.conf.update(task_default_queue=queue, broker_connection_retry_on_startup=True)
        self.app.conf.update(result_expires=60, **conf)
        self.fair = FairPriorities(self.app, counters, name=queue, **{"timeout": 60.0, **fair})
        self._add_tasks()

    def _add_tasks(self) -> None:
        def work(task: Task, label: str, *_: Any, **__: Any) -> str:
            self.record(task, label)
            return label

        def flaky(task: Task, label: str) -> str:
            self.record(task, label)
            if task.request.retries < 2:
                raise task.retry(countdown=0)
            return label

        def hold(task: Task, label: str) -> str:
            """Run until the test opens the gate."""
            self.record(task, label)
            self.records.blpop([f"{self.queue} gate"], timeout=LONGEST_WAIT)
            return label

        def task(function: Any, **options: Any) -> Any:
            name = function.__name__
            return self.app.task(function, name=name, bind=True, shared=False, **options)

        self.work, self.flaky, self.hold = task(work), task(flaky, max_retries=2), task(hold)

    def record(self, task: Task, label: str) -> None:
        header = (task.request.headers or {}).get("fairlead")
        number = task.request.delivery_info.get("priority")
        self.records.rpush(f"{self.queue} records", json.dumps([label, number, header]))

    def next_record(self) -> list[Any]:
        """The next task that ran: its label, the broker's number, and the header."""
        popped = self.records.blpop([f"{self.queue} records"], timeout=LONGEST_WAIT)
        assert popped, "no task ran"
        record: list[Any] = json.loads(popped[1])
        return record

    def open_gate(self) -> None:
        self.records.rpush(f"{self.queue} gate", "open")

    def received(self) -> list[Received]:
        """All waiting messages, in the order in which a worker would get them."""
        with self.app.connection_for_read() as connection:
            queue = self.app.amqp.queues[self.queue](connection.default_channel)
            queue.declare()
            received = []
            while (message := queue.get(no_ack=True)) is not None:
                headers = message.headers
                number = message.properties.get("priority")
                header = headers.get("fairlead")
                args, _, embedded = message.payload
                received.append(
                    Received(headers["task"], list(args), number, header, headers, embedded)
                )
            return received

    def close(self) -> None:
        self.fair.close()
        self.records.close()
        self.app.close()

    @contextmanager
    def worker(self, *options: str) -> Iterator[tuple[subprocess.Popen[str], Output]]:
        """A real worker of this application, in a process of its own, from ready to ended."""
        command = [sys.executable, "-m", "celery", "-A", "celerykit:from_environment", "worker"]
        environment = {**os.environ, "KIT": json.dumps(self.place)}
        environment["PYTHONPATH"] = str(Path(__file__).parent)
        with run(
            [*command, "--hostname", f"{self.queue}@here", *_QUICK, *options],
            environment,
        ) as (process, output):
            output.wait_for(" ready.")
            yield process, output


@contextmanager
def run(
    command: list[str], environment: dict[str, str], folder: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], Output]]:
    """A worker's process, from its start to its end."""
    process = subprocess.Popen(
        [*DIES_WITH_US, *command],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    output = Output(process)
    try:
        yield process, output
    finally:
        # A worker that is asked to end between a task's end and the note of it waits for half a
        # minute, and how workers end is not what is tested.
        for pid in [process.pid, *descendants(process.pid)] if process.poll() is None else []:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def __getattr__(name: str) -> Any:
    """The application of a worker is made from what the test left in the environment."""
    if name == "from_environment":
        return Kit(**json.loads(os.environ["KIT"])).app
    raise AttributeError(name)
