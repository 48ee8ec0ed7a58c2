"""The middlewares for Dramatiq and taskiq, on a real RabbitMQ."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import dramatiq
import pytest
import servers
from celerykit import LONGEST_WAIT
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import MiddlewareError
from taskiq import InMemoryBroker, SimpleRetryMiddleware, TaskiqMessage, TaskiqMiddleware
from taskiq.receiver import Receiver
from taskiq_aio_pika import AioPikaBroker, Exchange, Queue, QueueType

import fairlead.integrations.dramatiq
import fairlead.integrations.taskiq

pytestmark = pytest.mark.full

SENT = [*(("big", place) for place in range(7)), ("anna", 0), ("bert", 0)]
ORDER = ["big 0", "big 1", "big 2", "anna 0", "bert 0", "big 3", "big 4", "big 5", "big 6"]


def test_dramatiq_receives_by_priority_and_retries_are_not_counted(
    rabbitmq_server: servers.Server, redis_server: servers.Server, unique: str
) -> None:
    broker = RabbitmqBroker(url=rabbitmq_server.url, max_priority=10)
    fair = fairlead.integrations.dramatiq.FairPriorities(redis_server.url, name=unique, timeout=60)
    broker.add_middleware(fair)
    received: list[tuple[str, Any]] = []
    is_over = threading.Event()

    def process(label: str) -> None:
        message = dramatiq.middleware.CurrentMessage.get_current_message()
        assert message is not None
        received.append((label, message.options.get("fairlead")))
        if label == "again" and message.options.get("retries", 0) < 1:
            raise ValueError(label)
        if label == "again":
            is_over.set()

    broker.add_middleware(dramatiq.middleware.CurrentMessage())
    actor = dramatiq.actor(broker=broker, queue_name=unique, min_backoff=1)(process)
    for customer, place in SENT:
        actor.send_with_options(args=(f"{customer} {place}",), customer=customer)
    actor.send_with_options(args=("mine",), customer="big", broker_priority=0)
    actor.send_with_options(args=("again",), customer="big")
    with pytest.raises(MiddlewareError, match="got a bytes"):
        actor.send_with_options(args=("bad",), customer=b"bytes")
    worker = dramatiq.Worker(broker, queues={unique}, worker_threads=1)
    worker.start()
    assert is_over.wait(LONGEST_WAIT)
    worker.stop()
    broker.close()
    order = [label for label, _ in received if label not in ("again", "mine")]
    assert order == ORDER
    assert dict(received)["mine"] is None
    again = {"customer": "big", "priority": 4, "count": -7}
    assert [header for label, header in received if label == "again"] == [again, again]
    assert fair.place("big").count == -8
    fair.close()


def test_dramatiq_says_when_the_broker_has_no_priorities(
    caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    broker = StubBroker()
    fair = fairlead.integrations.dramatiq.FairPriorities(
        f"sqlite:///{tmp_path}/counters.db", timeout=60
    )
    broker.add_middleware(fair)
    actor = dramatiq.actor(actor_name="x", broker=broker)(lambda: None)
    for _ in range(2):
        actor.send_with_options(customer="acme")
    (warning,) = [
        record.getMessage() for record in caplog.records if "fair prior" in record.getMessage()
    ]
    assert "is a StubBroker" in warning
    broker.close()
    fair.close()


def test_taskiq_receives_by_priority(
    rabbitmq_server: servers.Server, redis_server: servers.Server, unique: str
) -> None:
    fair = fairlead.integrations.taskiq.FairPriorities(redis_server.url, name=unique, timeout=60)
    received = asyncio.run(taskiq_round(rabbitmq_server.url, unique, fair))
    assert [label for label, _ in received if label != "again"] == [*ORDER, "mine"]
    again = {"customer": "big", "priority": 4, "count": -7}
    assert [json.loads(header) for label, header in received if label == "again"] == [again, again]
    assert fair.place("big").count == -8
    fair.shutdown()


async def taskiq_round(
    url: str, unique: str, fair: fairlead.integrations.taskiq.FairPriorities
) -> list[tuple[str, Any]]:
    """Send everything, then receive one after the other."""
    broker = (
        AioPikaBroker(url, qos=1, exchange=Exchange(unique))
        .with_queue(Queue(name=unique, type=QueueType.CLASSIC, max_priority=10))
        .with_middlewares(fair, SimpleRetryMiddleware(default_retry_count=3))
    )
    received: list[tuple[str, Any]] = []
    is_over = asyncio.Event()
    wanted = len(SENT) + 3

    async def process(label: str) -> None:
        if label == "again" and [label for label, _ in received].count("again") == 1:
            raise ValueError(label)

    task = broker.register_task(process, task_name="process", retry_on_error=True)
    recorder = ReceivedRecorder(received, wanted, is_over)
    broker.add_middlewares(recorder)
    broker.is_worker_process = True
    await broker.startup()
    for customer, place in SENT:
        await task.kicker().with_labels(customer=customer).kiq(f"{customer} {place}")
    await task.kicker().with_labels(customer="big", priority=0).kiq("mine")
    await task.kicker().with_labels(customer="big").kiq("again")
    receiver = Receiver(broker, max_async_tasks=1, run_startup=False, max_prefetch=0)
    stop = asyncio.Event()
    listening = asyncio.create_task(receiver.listen(stop))
    await asyncio.wait_for(is_over.wait(), LONGEST_WAIT)
    stop.set()
    await listening
    await broker.shutdown()
    return received


class ReceivedRecorder(TaskiqMiddleware):
    """Notes what is received, in order."""

    def __init__(
        self, received: list[tuple[str, Any]], wanted: int, is_over: asyncio.Event
    ) -> None:
        super().__init__()
        self._received, self._wanted, self._is_over = received, wanted, is_over

    def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
        self._received.append((message.args[0], message.labels.get("fairlead")))
        return message

    def post_execute(self, message: TaskiqMessage, result: Any) -> None:
        if len(self._received) == self._wanted:
            self._is_over.set()


def test_taskiq_says_when_the_broker_has_no_priorities(caplog: pytest.LogCaptureFixture) -> None:
    InMemoryBroker().with_middlewares(
        fairlead.integrations.taskiq.FairPriorities("sqlite:///unused.db")
    )
    assert "is a InMemoryBroker" in caplog.text
