"""The deliverer sends due deliveries; a slow receiver delays no other, a crash loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Condition, Event, Semaphore, Thread
from typing import Any

import pytest
from standardwebhooks import Webhook
from storekit import DONE, Clock, RulesInForce, must_claim, sqlite_store, submit_one
from webhookkit import GOOD, added, receiving, says

from fairlead import Fairlead
from fairlead.errors import InvalidWebhook, StoreBusy, UnknownDelivery, UnknownWebhook
from fairlead.model.webhooks import LEASE, Sending, Status, WebhookResponse
from fairlead.storage import Store
from fairlead.webhooks import Deliverer
from fairlead.webhooks.deliverer import (
    AT_ONCE,
    AT_ONCE_OF_A_CUSTOMER,
    AT_ONCE_TO_A_WEBHOOK,
    AT_ONCE_TO_SLOW,
    LONGEST_REST,
)

pytestmark = pytest.mark.services

PATIENCE = 30.0
"""Seconds after which what a test waits for is taken never to come."""


class Post:
    """Takes attempts instead of a network; those to slow URLs wait until it is opened."""

    def __init__(self) -> None:
        self.sent: list[Sending] = []
        self.gate = Event()
        self._changed = Condition()

    def __call__(self, sending: Sending) -> WebhookResponse:
        with self._changed:
            self.sent.append(sending)
            self._changed.notify_all()
        if "slow" in sending.url:
            self.gate.wait()
        return WebhookResponse(204)

    def wait_for(self, number: int, customer: str) -> None:
        with self._changed:
            assert self._changed.wait_for(
                lambda: sum(request.customer == customer for request in self.sent) >= number,
                PATIENCE,
            )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    store = sqlite_store(tmp_path, RulesInForce(), clock)
    yield store
    store.close()


def deliverer(store: Store, post: Any, clock: Clock) -> Deliverer:
    service = Deliverer(store.outbox, post, clock=clock, jitter=lambda: 0.5)
    service.start()
    return service


def wait_until(is_so: Callable[[], bool]) -> None:
    """Look again and again: a store gives no signal of what is settled."""
    patience = Event()
    while not is_so():
        patience.wait(0.01)


def is_delivered(store: Store, delivery: str) -> bool:
    return store.outbox.delivery(delivery).status is Status.DELIVERED


def wait_until_delivered(store: Store, webhook: str) -> None:
    deliveries = [delivery.id for delivery in store.outbox.deliveries(webhook)]
    wait_until(lambda: all(is_delivered(store, id_) for id_ in deliveries))


def test_slow_receivers_hold_up_themselves_alone(store: Store, clock: Clock) -> None:
    post = Post()
    slow = [added(store, "slow", number, "http://slow.test/") for number in range(10)]
    quick = added(store, "quick")
    for webhook in slow * 10:
        store.outbox.test(webhook.id)
    clock.advance(1)
    for _ in range(10):
        store.outbox.test(quick.id)
    running = deliverer(store, post, clock)
    post.wait_for(AT_ONCE_OF_A_CUSTOMER, "slow")
    post.wait_for(10, "quick")
    wait_until_delivered(store, quick.id)
    webhooks = [request.webhook for request in post.sent if request.customer == "slow"]
    assert len(webhooks) <= AT_ONCE_OF_A_CUSTOMER
    assert max(webhooks.count(webhook) for webhook in webhooks) <= AT_ONCE_TO_A_WEBHOOK
    post.gate.set()
    post.wait_for(100, "slow")
    running.stop()
    assert len({request.id for request in post.sent}) == len(post.sent) == 110


class Held(Post):
    """Takes attempts, and ends as many as are let go; those of the late customer end at once."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = Semaphore(0)

    def __call__(self, sending: Sending) -> WebhookResponse:
        answer = super().__call__(sending)
        if sending.customer != "late":
            self.let_go.acquire()
        return answer

    def wait_for_all(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.sent) >= number, PATIENCE)


def hold(store: Store, clock: Clock, customers: int) -> tuple[Held, Deliverer]:
    """Many deliveries of each of the customers, to receivers that do not answer for now."""
    for number in range(2 * customers):
        webhook = added(store, f"early {number % customers}", number)
        for _ in range(10):
            store.outbox.test(webhook.id)
    clock.advance(1)
    post = Held()
    return post, deliverer(store, post, clock)


def test_a_few_customers_never_take_all_places(store: Store, clock: Clock) -> None:
    post, running = hold(store, clock, 4)
    early = 4 + 3 + 3 + 3  # three places are left, and none of the four has less than three
    post.wait_for_all(early)
    late = added(store, "late")
    for number in range(1, 6):
        store.outbox.test(late.id)
        post.wait_for_all(early + number)
    assert [request.customer for request in post.sent[early:]] == ["late"] * 5
    post.let_go.release(100)
    running.stop()


def test_nobody_waits_behind_the_many_of_others(store: Store, clock: Clock) -> None:
    """All places are taken, and each is taken by another customer with more and older ones."""
    post, running = hold(store, clock, AT_ONCE)
    post.wait_for_all(AT_ONCE)
    store.outbox.test(added(store, "late").id)
    post.let_go.release()
    post.wait_for_all(AT_ONCE + 1)
    assert post.sent[AT_ONCE].customer == "late"
    assert len({request.customer for request in post.sent}) == AT_ONCE + 1
    post.let_go.release(1000)
    running.stop()


def test_a_round_of_many_customers_ends_and_another_begins(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.webhooks.deliverer.MOST_TURNS", 2)
    webhooks = [added(store, f"customer {number}").id for number in range(5)]
    for webhook in webhooks * 3:
        store.outbox.test(webhook)
    running = deliverer(store, Post(), clock)
    for webhook in webhooks:
        wait_until_delivered(store, webhook)
    running.stop()


class Dead(Post):
    """As before; but dead receivers fail after 15 s by the watch, and later never answer.

    Others stumble once, quickly.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_stumbled = False
        self.watch = Clock()
        self.unanswered: list[str] = []
        self.holds = False

    def __call__(self, sending: Sending) -> WebhookResponse:
        if "dead" not in sending.url:
            has_stumbled, self.has_stumbled = self.has_stumbled, True
            return super().__call__(sending) if has_stumbled else WebhookResponse(500)
        with self._changed:
            self.sent.append(sending)
            if self.holds:
                self.unanswered.append(sending.customer)
            self._changed.notify_all()
        if self.holds:
            self.gate.wait()
        with self._changed:
            self.watch.advance(15)
        return WebhookResponse(500)

    def wait_for_unanswered(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.unanswered) >= number, PATIENCE)


def is_failed(store: Store, webhook: str) -> bool:
    return all(delivery.code == 500 for delivery in store.outbox.deliveries(webhook))


@pytest.mark.parametrize(("customers", "unanswered"), [(8, AT_ONCE_TO_SLOW), (1, 1)])
def test_receivers_that_never_answer_hold_up_no_others(
    store: Store, clock: Clock, customers: int, unanswered: int
) -> None:
    """Of many customers, or of one with many of them; also none that has just stumbled."""
    post = Dead()
    dead = [
        added(store, f"dead {number % customers}", number, "http://dead.test/")
        for number in range(8)
    ]
    for webhook in dead:
        store.outbox.test(webhook.id)
    running = Deliverer(store.outbox, post, clock=clock, jitter=lambda: 0.5, stopwatch=post.watch)
    running.start()
    wait_until(
        lambda: all(is_failed(store, webhook.id) for webhook in dead)
    )  # each is a sleeper now
    post.holds = True
    for webhook in dead * 10:
        store.outbox.test(webhook.id)
    post.watch.advance(LONGEST_REST)
    post.wait_for_unanswered(unanswered)
    good = added(store, "good", 9)
    clock.advance(1)
    first = store.outbox.test(good.id)
    wait_until(lambda: store.outbox.delivery(first.id).code == 500)
    later = [store.outbox.test(good.id).id for _ in range(10)]
    wait_until(lambda: all(is_delivered(store, id_) for id_ in later))
    assert len(post.unanswered) == len(set(post.unanswered)) == unanswered
    post.gate.set()
    running.stop()


def test_who_failed_rests_for_longer_than_it_kept_us_waiting(store: Store, clock: Clock) -> None:
    post, watch = Post(), Clock()

    def slow(sending: Sending) -> WebhookResponse:
        if sending.customer == "good":
            return post(sending)
        watch.advance(15)
        post(sending)
        return WebhookResponse(500)

    bad, good = added(store, "bad", 1), added(store, "good", 2)
    for webhook in [bad] * 3 + [good] * 5:
        store.outbox.test(webhook.id)
    running = Deliverer(store.outbox, slow, clock=clock, jitter=lambda: 0.5, stopwatch=watch)
    running.start()
    post.wait_for(1, "bad")
    wait_until_delivered(store, good.id)
    assert sum(request.customer == "bad" for request in post.sent) <= AT_ONCE_TO_A_WEBHOOK

    def is_tried_again() -> bool:
        watch.advance(LONGEST_REST)  # again and again: an attempt under way rests from its end on
        return sum(request.customer == "bad" for request in post.sent) == 3

    wait_until(is_tried_again)
    running.stop()


def test_no_receiver_decides_when_to_end(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.webhooks.deliverer.STOP_SECONDS", 0.0)
    post = Post()
    webhook = added(store, "slow", url="http://slow.test/")
    store.outbox.test(webhook.id)
    first = deliverer(store, post, clock)
    post.wait_for(1, "slow")
    first.stop()
    post.gate.set()
    clock.advance(LEASE)
    second = deliverer(store, post, clock)
    wait_until_delivered(store, webhook.id)
    second.stop()
    assert len({request.id for request in post.sent}) == 1
    assert len(post.sent) == 2


def test_a_thread_that_does_not_start_costs_one_attempt(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Other deliveries are sent at once, and the claimed one after its lease."""
    webhook = added(store, "acme")
    unlucky, other = (store.outbox.test(webhook.id).id for _ in range(2))
    refused = Event()

    class Scarce(Thread):
        def start(self) -> None:
            if not refused.is_set() and "-delivery-" in self.name:
                refused.set()
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr("fairlead.service.Thread", Scarce)
    post = Post()
    running = deliverer(store, post, clock)
    post.wait_for(1, "acme")
    wait_until(lambda: is_delivered(store, other))
    clock.advance(LEASE)
    wait_until_delivered(store, webhook.id)
    running.stop()
    assert [request.id for request in post.sent] == [other, unlucky]
    assert "can't start new thread" in caplog.text


def test_a_crash_between_sending_and_saving_repeats_under_the_same_id(
    store: Store, clock: Clock
) -> None:
    post, crashed = Post(), Event()
    webhook = added(store, "acme")
    submit_one(store, "acme")
    store.finish(must_claim(store), DONE)
    settle = store.outbox.settle

    def crash(*_: Any, **__: Any) -> Any:
        crashed.set()
        raise StoreBusy("gone")

    store.outbox.settle = crash  # type: ignore[method-assign]
    first = deliverer(store, post, clock)
    crashed.wait()
    first.stop()
    store.outbox.settle = settle  # type: ignore[method-assign]
    clock.advance(LEASE)
    second = deliverer(store, post, clock)
    post.wait_for(2, "acme")
    wait_until_delivered(store, webhook.id)
    second.stop()
    assert len({(request.id, request.body) for request in post.sent}) == 1
    assert store.outbox.deliveries(webhook.id)[0].attempts == 2


def test_an_installation_tells_of_its_documents(tmp_path: Path) -> None:
    settings = {"webhook_networks": ["127.0.0.0/8"]}
    with receiving(says(GOOD)) as receiver, Fairlead(tmp_path, settings=settings) as fairlead:
        fairlead.customers.add("acme")
        webhook, secret = fairlead.webhooks.add(receiver.url(), customer="acme")
        document = fairlead.submit("acme", b"hello")
        fairlead.run_until_idle(workers=1)
        running = fairlead.services.deliverer()
        running.start()
        wait_until_delivered(fairlead.store, webhook.id)
        running.stop()
        (request,) = receiver.requests
        event = Webhook(secret).verify(request.body, request.headers)
        assert (event["type"], event["data"]["id"]) == ("document.done", document.id)
        (delivery,) = fairlead.webhooks.deliveries(webhook.id, customer="acme")
        assert (delivery.code, delivery.document) == (204, document.id)
        assert fairlead.webhooks.retry(delivery.id).status is Status.PENDING
        with pytest.raises(UnknownWebhook):
            fairlead.webhooks.show(webhook.id, customer="globex")
        with pytest.raises(UnknownDelivery):
            fairlead.webhooks.retry(delivery.id, customer="globex")
        assert secret not in repr(fairlead.webhooks.list())
        assert not fairlead.webhooks.set(webhook.id, enabled=False).enabled
        fairlead.webhooks.delete(webhook.id, customer="acme")
        assert fairlead.webhooks.list("acme") == []


def test_without_leave_an_installation_speaks_to_no_loopback(tmp_path: Path) -> None:
    with receiving(says(GOOD)) as receiver, Fairlead(tmp_path) as fairlead:
        fairlead.customers.add("acme")
        with pytest.raises(InvalidWebhook):
            fairlead.webhooks.add(receiver.url(), customer="acme")
        with pytest.raises(InvalidWebhook, match="kinds"):
            fairlead.webhooks.add("https://a.test/", ["document.lost"], customer="acme")
        assert receiver.requests == []


def test_an_attempt_that_raises_is_logged_and_comes_again(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    webhook = added(store, "acme")
    store.outbox.test(webhook.id)
    raised, post = Event(), Post()

    def raise_once(sending: Sending) -> WebhookResponse:
        if not raised.is_set():
            raised.set()
            raise RuntimeError("can't start new thread")
        return post(sending)

    running = deliverer(store, raise_once, clock)
    assert raised.wait(PATIENCE)
    clock.advance(LEASE)
    wait_until_delivered(store, webhook.id)
    running.stop()
    assert "can't start new thread" in caplog.text
