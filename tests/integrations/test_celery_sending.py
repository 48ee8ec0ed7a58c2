"""What is sent, on both brokers: every way of sending, and the order in which it is received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import Task, chain, chord, group
from celerykit import Kit, Received

from fairlead.celery import FairPriorities
from fairlead.errors import InvalidCustomer, InvalidSetting
from fairlead.policy.classic import ClassicPolicy

KitFactory = Callable[..., Kit]


def itself(label: str) -> str:
    return label


def labels(received: list[Received]) -> list[Any]:
    return [message.args[0] for message in received]


def counts(received: list[Received]) -> dict[Any, int | None]:
    return {message.args[0]: (message.header or {}).get("count") for message in received}


def number(kit: Kit, priority: int) -> int:
    """The broker's number: the other way round on RabbitMQ."""
    return priority if kit.app.conf.broker_url.startswith("redis") else 10 - priority


def test_a_burst_is_received_by_priority_then_by_arrival(kit: Kit) -> None:
    sent = []
    for place in range(24):
        kit.work.apply_async(args=[f"big {place}"], customer="big")
        sent.append((ClassicPolicy().priority_of(-place), f"big {place}"))
    for place, name in enumerate(["anna", "bert", "carl"]):
        kit.work.apply_async(args=[f"{name} {place}"], customer=name)
        sent.append((1, f"{name} {place}"))
    received = kit.received()
    in_order = sorted(sent, key=lambda pair: pair[0])
    assert labels(received) == [label for _, label in in_order]
    assert [message.number for message in received] == [number(kit, first) for first, _ in in_order]
    assert received[0].header == {"customer": "big", "priority": 1, "count": 0}
    assert received[-1].header == {"customer": "big", "priority": 9, "count": -23}


def test_every_way_of_sending_one_task(make_kit: KitFactory) -> None:
    kit = make_kit(customer_from="owner")

    def owner_of(label: str, owner: str | None = None) -> None: ...

    owned = kit.app.task(owner_of, name="owned", shared=False)
    kit.work.apply_async(["apply_async"], customer="acme")
    kit.app.send_task("work", ["send_task"], customer="acme")
    kit.app.send_task("elsewhere", ["unknown here"], customer="acme")
    kit.work.signature(["set"]).set(customer="acme").delay()
    kit.work.signature(["at the call"]).apply_async(customer="acme")
    kit.work.apply_async(["later"], customer="acme", countdown=3600)
    with kit.fair.customer("acme"):
        kit.work.delay("in a block")
        kit.work.apply_async(["other"], customer="somebody else")
    kit.work.delay("nobody's")
    owned.delay("by keyword", owner="acme")
    owned.delay("by position", "acme")
    owned.delay("no owner")
    kit.app.send_task("elsewhere", ["kwargs"], {"owner": "acme"})
    assert counts(kit.received()) == {
        "apply_async": 0,
        "send_task": -1,
        "unknown here": -2,
        "set": -3,
        "at the call": -4,
        "later": -5,
        "in a block": -6,
        "other": 0,
        "nobody's": None,
        "by keyword": -7,
        "by position": -8,
        "no owner": None,
        "kwargs": -9,
    }


def test_a_function_may_say_whose_a_task_is(make_kit: KitFactory) -> None:
    kit = make_kit(customer_from=lambda task, args, kwargs: args[0].split("/")[0])
    kit.work.delay("acme/1")
    kit.work.delay("acme/2")
    kit.work.apply_async(["acme/3"], customer="other")
    assert counts(kit.received()) == {"acme/1": 0, "acme/2": -1, "acme/3": 0}


def test_each_task_of_a_group_is_counted(kit: Kit) -> None:
    group(kit.work.s(str(place)) for place in range(4)).apply_async(customer="acme")
    assert counts(kit.received()) == {"0": 0, "1": -1, "2": -2, "3": -3}


def test_each_task_of_a_chord_is_counted_and_its_body_when_it_is_sent(kit: Kit) -> None:
    chord([kit.work.s("a"), kit.work.s("b")], kit.work.si("body")).apply_async(customer="acme")
    with kit.fair.customer("acme"):
        chord([kit.work.s("c")], kit.work.si("body"))()
    assert counts(kit.received()) == {"a": 0, "b": -1, "c": -2}


def signatures(canvas: Any) -> list[tuple[str, Any, Any]]:
    """Label, priority and customer of signature signature that goes along with a message."""
    listed = []
    for signature in canvas or []:
        own, members = (
            signature["options"],
            signature["kwargs"].get("tasks") if signature["subtask_type"] else [],
        )
        label = signature["args"][0] if signature["args"] else signature["subtask_type"]
        listed.append((label, own.get("priority"), own.get("customer")))
        listed += signatures(members) + signatures(own.get("link"))
    return listed


def test_the_rest_of_a_chain_and_callbacks_are_sent_along_with_the_priority(kit: Kit) -> None:
    second = kit.work.si("second")
    own = kit.work.si("own").set(customer="other")
    mine = kit.work.si("mine").set(priority=7)
    inner = group(kit.work.si("member"), kit.work.si("linked").set(link=[kit.work.si("deep")]))
    chain(kit.work.si("first"), second, own, mine, inner).apply_async(
        customer="acme", link=kit.work.si("callback"), link_error=kit.work.si("errback")
    )
    assert "priority" not in second.options | inner.options, "the caller's own are not changed"
    (sent,) = kit.received()
    first = number(kit, 1)
    assert signatures(reversed(sent.embedded["chain"])) == [
        ("second", first, None),
        ("own", None, "other"),
        ("mine", 7, None),
        ("group", first, None),
        ("member", first, None),
        ("linked", first, None),
        ("deep", first, None),
        ("callback", first, None),
    ]
    assert ("errback", first, None) in signatures(sent.embedded["errbacks"])


def test_a_priority_of_the_call_wins_and_is_not_counted(kit: Kit) -> None:
    kit.work.apply_async(["mine"], customer="acme", priority=4)
    kit.work.apply_async(["zero"], customer="acme", priority=0)
    kit.work.apply_async(["counted"], customer="acme")
    received = {message.args[0]: (message.number, message.header) for message in kit.received()}
    assert received["mine"] == (4, None)
    assert received["zero"] == (0, None)
    assert received["counted"] == (
        number(kit, 1),
        {"customer": "acme", "priority": 1, "count": 0},
    )


def test_a_priority_that_is_only_a_default_gives_way(make_kit: KitFactory) -> None:
    kit = make_kit(
        task_default_priority=3, task_routes={"routed": {"priority": 2}}, broker_pool_limit=1
    )
    kit.app.task(name="routed", shared=False)(itself)
    kit.work.apply_async(["default"], customer="acme")
    kit.app.send_task("work", ["by name"], customer="acme")
    kit.app.send_task("routed", ["by route"], customer="acme")
    kit.work.delay("nobody's")
    received = {message.args[0]: message.number for message in kit.received()}
    assert received == {
        "default": number(kit, 1),
        "by name": number(kit, 1),
        "by route": number(kit, 1),
        "nobody's": 3,
    }


def test_tasks_without_customer_are_left_alone_or_get_what_was_set(make_kit: KitFactory) -> None:
    kit = make_kit()
    kit.work.apply_async(["x"], customer=None, headers={"mine": 1})
    (left,) = kit.received()
    assert not left.number
    assert left.header is None
    assert left.headers["mine"] == 1
    other = make_kit(others=5, queue=kit.queue + "b")
    other.work.delay("x")
    other.work.apply_async(["mine"], priority=3)
    other.work.apply_async(["again"], retries=1, priority=8)
    received = {message.args[0]: (message.number, message.header) for message in other.received()}
    assert received == {"x": (number(kit, 5), None), "mine": (3, None), "again": (8, None)}


def test_headers_of_the_caller_stay(kit: Kit) -> None:
    headers = {"trace": "abc"}
    kit.work.apply_async(["x"], customer="acme", headers=headers)
    (received,) = kit.received()
    assert received.headers["trace"] == "abc"
    assert headers == {"trace": "abc"}


class Traced(Task):  # type: ignore[misc] # Celery has no types
    """A task class of the user's, which adds a header to each call."""

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        options["headers"] = {"traced": "yes", **(options.get("headers") or {})}
        return super().apply_async(args, kwargs, **options)


def test_task_classes_of_the_user_work(kit: Kit) -> None:
    kit.app.Task = Traced
    kit.app.task(name="new", shared=False)(itself).apply_async(["replaced"], customer="acme")
    kit.app.task(name="own", shared=False, base=Traced)(itself).apply_async(
        ["base"], customer="acme"
    )
    received = kit.received()
    assert counts(received) == {"replaced": 0, "base": -1}
    assert [message.headers["traced"] for message in received] == ["yes", "yes"]


def test_a_customer_may_be_a_number_and_nothing_strange(kit: Kit) -> None:
    kit.work.apply_async(["a"], customer=42)
    kit.work.apply_async(["b"], customer="42")
    kit.work.apply_async(["c"], customer=0)
    for bad in ("x" * 10_240, "", " acme", "a\nb", "\udcff", b"acme", True, 1.5, object(), ["a"]):
        with pytest.raises(InvalidCustomer, match="a customer"):
            kit.work.apply_async(["bad"], customer=bad)
        with pytest.raises(InvalidCustomer), kit.fair.customer(bad):  # type: ignore[arg-type]
            kit.work.delay("bad")
    assert counts(kit.received()) == {"a": 0, "b": -1, "c": 0}


def test_customers_have_rules_of_their_own(make_kit: KitFactory) -> None:
    kit = make_kit(
        thresholds=(0,), customers={"acme": {"thresholds": (-1, -2)}, 7: {"reset_interval": 1e9}}
    )
    for place in range(4):
        kit.work.apply_async([f"acme {place}"], customer="acme")
        kit.work.apply_async([f"other {place}"], customer="other")
    received = {
        message.args[0]: message.header and message.header["priority"] for message in kit.received()
    }
    assert [received[f"acme {place}"] for place in range(4)] == [1, 1, 2, 3]
    assert [received[f"other {place}"] for place in range(4)] == [1, 2, 2, 2]


def test_nothing_is_sent_or_counted_when_tasks_run_eagerly(make_kit: KitFactory) -> None:
    kit = make_kit(task_always_eager=True)
    result = kit.app.task(name="plain", shared=False)(itself).apply_async(["x"], customer="acme")
    assert result.get() == "x"
    assert kit.fair.place("acme").count == 0


def test_it_is_made_once_for_an_application(kit: Kit) -> None:
    with pytest.raises(InvalidSetting, match="already has"):
        FairPriorities(kit.app, kit.place["counters"])
