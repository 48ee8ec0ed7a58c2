"""Real workers on both brokers: what they get first, and what is counted on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import servers
from celery import chain, chord
from celerykit import Kit

pytestmark = pytest.mark.full

KitFactory = Callable[..., Kit]


def number(kit: Kit, priority: int) -> int:
    return priority if kit.app.conf.broker_url.startswith("redis") else 10 - priority


@pytest.fixture(scope="module", params=["redis", "rabbitmq"])
def kit(request: pytest.FixtureRequest, redis_server: servers.Server) -> Iterator[Kit]:
    """An application with one worker that runs for several tests, one after the other."""
    broker: servers.Server = request.getfixturevalue(f"{request.param}_server")
    kit = Kit(broker.url, redis_server.url, redis_server.url, f"on-{request.param}", {})
    with kit.worker():
        yield kit
    kit.close()


def test_who_comes_later_with_a_better_priority_is_next(make_kit: KitFactory) -> None:
    """With late acks a worker holds no task but the one it runs."""
    kit = make_kit(task_acks_late=True)
    with kit.worker():
        kit.hold.apply_async(["first"], customer="big")
        assert kit.next_record()[0] == "first"
        for place in range(1, 5):
            kit.work.apply_async([f"big {place}"], customer="big")
        kit.work.apply_async(["small"], customer="small")
        kit.open_gate()
        order = [kit.next_record()[0] for _ in range(5)]
    assert order == ["big 1", "big 2", "small", "big 3", "big 4"]


def test_a_retry_keeps_its_priority_and_is_not_counted(kit: Kit) -> None:
    for _ in range(4):
        kit.fair.place("retried")
    with kit.fair.customer("retried"):
        kit.flaky.delay("again")
    header = {"customer": "retried", "priority": 2, "count": -4}
    assert [kit.next_record() for _ in range(3)] == [["again", number(kit, 2), header]] * 3
    assert kit.fair.place("retried").count == -5


def test_a_chain_is_counted_once(kit: Kit) -> None:
    for _ in range(3):
        kit.fair.place("chained")
    chain(kit.work.si("1"), kit.work.si("2"), kit.work.si("3")).apply_async(customer="chained")
    assert [kit.next_record()[:2] for _ in range(3)] == [
        [label, number(kit, 2)] for label in ("1", "2", "3")
    ]
    assert kit.fair.place("chained").count == -4


def test_a_chord_is_counted_with_its_body(kit: Kit) -> None:
    chord([kit.work.si("a"), kit.work.si("b")], kit.work.si("c")).apply_async(customer="chord")
    counts = {label: header["count"] for label, _, header in (kit.next_record() for _ in range(3))}
    assert counts == {"a": 0, "b": -1, "c": -2}


def test_callbacks_keep_the_priority(kit: Kit) -> None:
    for _ in range(3):
        kit.fair.place("linked")
    kit.work.apply_async(["task"], customer="linked", link=kit.work.si("callback"))
    assert [kit.next_record()[:2] for _ in range(2)] == [
        ["task", number(kit, 2)],
        ["callback", number(kit, 2)],
    ]
    assert kit.fair.place("linked").count == -4


@pytest.mark.parametrize("broker_url", ["rabbitmq"], indirect=True)
def test_a_task_that_is_delivered_again_is_not_counted_again(make_kit: KitFactory) -> None:
    kit = make_kit(task_acks_late=True)
    with kit.worker("--pool", "solo") as (process, _):
        kit.hold.apply_async(["held"], customer="acme")
        first = kit.next_record()
        process.kill()
        process.wait()
    with kit.worker("--pool", "solo"):
        assert kit.next_record() == first
        kit.open_gate()
    assert kit.fair.place("acme").count == -1
