"""The outbox: deliveries are made with their event, tried in time, and settled once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from storekit import (
    DAMAGED,
    DONE,
    Clock,
    RulesInForce,
    must_claim,
    new_document,
    sqlite_store,
    submit_one,
)
from webhookkit import SECRET, added

from fairlead.errors import InvalidWebhook, UnknownCustomer, UnknownDelivery, UnknownWebhook
from fairlead.model.documents import Saved, Submission
from fairlead.model.results import Content
from fairlead.model.webhooks import (
    DELAYS,
    LASTING,
    LEASE,
    MOST_OF_A_CUSTOMER,
    Sending,
    Status,
    WebhookRecord,
    WebhookResponse,
    next_delay,
)
from fairlead.storage import Store

GOOD, BAD = WebhookResponse(204), WebhookResponse(500, "oh no")


def must_send(store: Store) -> Sending:
    sending = store.outbox.claim()
    assert sending is not None, "a delivery should have been due"
    return sending


def delivered_kinds(store: Store, webhook: str) -> list[str]:
    return [delivery.kind for delivery in reversed(store.outbox.deliveries(webhook))]


def test_a_webhook_without_a_customer_is_told_of_all(store: Store) -> None:
    every = store.outbox.add(
        WebhookRecord("all", None, "http://a.test/", ("document.done",), SECRET)
    )
    own = added(store, "acme")
    for customer in ("acme", "globex"):
        submit_one(store, customer)
        store.finish(must_claim(store), DONE)
    assert every.customer is None
    assert delivered_kinds(store, every.id) == ["document.done", "document.done"]
    assert delivered_kinds(store, own.id) == ["document.done"]
    assert [webhook.id for webhook in store.outbox.webhooks("acme")] == [own.id]
    assert [webhook.id for webhook in store.outbox.webhooks()] == [own.id, every.id]
    sending = must_send(store)
    assert store.outbox.settle(sending, WebhookResponse(410), jitter=0.0) is Saved.SAVED
    store.outbox.set(every.id, enabled=False)
    store.outbox.remove(every.id)
    assert store.outbox.webhooks() == [store.outbox.webhook(own.id)]


def test_each_end_of_a_document_is_told_to_its_own_customer_alone(store: Store) -> None:
    mine, other = added(store, "acme"), added(store, "globex")
    done = submit_one(store, "acme")
    store.finish(must_claim(store), DONE)
    failed = submit_one(store, "acme")
    store.finish(must_claim(store), DAMAGED)
    store.retry(failed.id)  # not asked for
    store.cancel(failed.id)
    assert delivered_kinds(store, mine.id) == [
        "document.done",
        "document.failed",
        "document.cancelled",
    ]
    assert delivered_kinds(store, other.id) == []
    assert store.outbox.deliveries(mine.id)[-1].document == done.id


def test_the_body_is_the_document_as_it_was_then(store: Store, clock: Clock) -> None:
    added(store, "acme")
    document = submit_one(store, "acme")
    store.finish(must_claim(store), DAMAGED)
    store.retry(document.id)
    clock.advance(5)
    body = json.loads(must_send(store).body)
    assert body["type"] == "document.failed"
    assert body["timestamp"] == "1970-01-12T13:46:40.000Z"
    assert (body["data"]["id"], body["data"]["state"]) == (document.id, "failed")
    assert "text" not in body["data"]


def test_data_of_steps_come_along_unless_they_are_long(store: Store) -> None:
    added(store, "acme")
    short = Content(11, "d" * 64, content=b'{"total":7}')
    files = (Content(3, "f" * 64, "a.pdf", "application/pdf", content=b"abc"),)
    for data, shown in ((short, {"total": 7}), (Content(10**6, "d" * 64, key="long"), None)):
        submit_one(store, "acme")
        store.finish(must_claim(store), DONE._replace(data=data, files=files))
        body = json.loads(must_send(store).body)["data"]
        assert body["data"] == shown
        assert [file["name"] for file in body["files"]] == ["a.pdf"]


def test_an_outcome_that_comes_too_late_tells_nothing(store: Store, clock: Clock) -> None:
    webhook = added(store, "acme")
    submit_one(store, "acme")
    old = must_claim(store)
    clock.advance(1000)
    new = must_claim(store)
    assert store.finish(old, DONE) is Saved.STALE
    assert delivered_kinds(store, webhook.id) == []
    store.finish(new, DONE)
    assert delivered_kinds(store, webhook.id) == ["document.done"]


def test_a_good_answer_settles_it(store: Store) -> None:
    webhook = added(store, "acme")
    test = store.outbox.test(webhook.id)
    sending = must_send(store)
    assert (sending.id, sending.url, sending.secret) == (test.id, webhook.url, SECRET)
    assert store.outbox.settle(sending, WebhookResponse(200, "thanks"), jitter=0.5) is Saved.SAVED
    delivery = store.outbox.delivery(test.id)
    assert (delivery.status, delivery.attempts, delivery.code) == (Status.DELIVERED, 1, 200)
    assert (delivery.answer, delivery.next_at) == ("thanks", None)
    assert store.outbox.next_at() is None


def test_attempts_are_spread_over_hours_and_end(store: Store, clock: Clock) -> None:
    webhook = added(store, "acme")
    test = store.outbox.test(webhook.id)
    for delay in DELAYS:
        store.outbox.settle(must_send(store), BAD, jitter=0.5)
        delivery = store.outbox.delivery(test.id)
        assert delivery.next_at == pytest.approx(clock.now + 1.1 * delay)
        assert store.outbox.claim() is None
        clock.advance(1.1 * delay)
    store.outbox.settle(must_send(store), BAD, jitter=0.5)
    delivery = store.outbox.delivery(test.id)
    assert (delivery.status, delivery.attempts) == (Status.FAILED, len(DELAYS) + 1)


def test_before_the_first_attempt_there_is_no_delay() -> None:
    with pytest.raises(ValueError, match="expected 1 attempt or more; got 0"):
        next_delay(0, 0.0)


def test_a_receiver_that_fails_for_a_day_is_disabled_and_that_is_told(
    store: Store, clock: Clock
) -> None:
    webhook = added(store, "acme")
    store.outbox.test(webhook.id)
    for delay in (*DELAYS, LASTING):
        store.outbox.settle(must_send(store), BAD, jitter=0.0)
        clock.advance(delay)
    disabled = store.outbox.webhook(webhook.id)
    assert not disabled.enabled
    assert disabled.disabled_because
    event = store.events()[-1]
    assert (event.kind, event.customer) == ("webhook-disabled", "acme")
    assert event.data["webhook"] == webhook.id
    submit_one(store, "acme")
    store.finish(must_claim(store), DONE)
    assert delivered_kinds(store, webhook.id) == ["webhook.test"]
    assert store.outbox.set(webhook.id, enabled=True).failing_since is None


def test_one_good_answer_in_between_keeps_it(store: Store, clock: Clock) -> None:
    webhook = added(store, "acme")
    store.outbox.test(webhook.id)
    for delay in DELAYS:
        store.outbox.settle(must_send(store), BAD, jitter=0.0)
        clock.advance(delay)
    last = must_send(store)
    store.outbox.test(webhook.id)
    store.outbox.settle(must_send(store), GOOD, jitter=0.0)
    store.outbox.settle(last, BAD, jitter=0.0)
    assert store.outbox.webhook(webhook.id).enabled


def test_gone_disables_at_once(store: Store) -> None:
    webhook = added(store, "acme")
    test = store.outbox.test(webhook.id)
    store.outbox.settle(must_send(store), WebhookResponse(410), jitter=0.0)
    assert not store.outbox.webhook(webhook.id).enabled
    assert store.outbox.delivery(test.id).status is Status.FAILED
    for act, id_ in ((store.outbox.test, webhook.id), (store.outbox.resend, test.id)):
        with pytest.raises(InvalidWebhook, match="disabled"):
            act(id_)
    assert store.outbox.delivery(test.id).status is Status.FAILED


def test_what_nobody_settled_comes_again_under_the_same_id(store: Store, clock: Clock) -> None:
    webhook = added(store, "acme")
    store.outbox.test(webhook.id)
    first = must_send(store)
    assert store.outbox.claim() is None
    clock.advance(LEASE)
    second = must_send(store)
    assert (first.id, first.body) == (second.id, second.body)
    assert store.outbox.settle(first, GOOD, jitter=0.0) is Saved.STALE
    assert store.outbox.settle(second, GOOD, jitter=0.0) is Saved.SAVED
    assert store.outbox.settle(second, BAD, jitter=0.0) is Saved.STALE


def test_busy_webhooks_and_customers_are_left_aside(store: Store, clock: Clock) -> None:
    first, second = added(store, "acme", 1), added(store, "acme", 2)
    other = added(store, "globex")
    for webhook in (first, second, other):
        store.outbox.test(webhook.id)
        clock.advance(1)
    assert store.outbox.claim(webhooks=[first.id], customers=["acme"]) is not None
    sending = store.outbox.claim(webhooks=[first.id])
    assert sending is not None
    assert sending.webhook == second.id
    assert must_send(store).webhook == first.id


def test_sent_again_it_keeps_its_id_and_gets_all_attempts(store: Store) -> None:
    webhook = added(store, "acme")
    test = store.outbox.test(webhook.id)
    store.outbox.settle(must_send(store), GOOD, jitter=0.0)
    retry = store.outbox.resend(test.id)
    assert (retry.id, retry.status, retry.attempts) == (test.id, Status.PENDING, 0)
    assert must_send(store).id == test.id


@pytest.mark.parametrize("answer", [GOOD, BAD])
def test_sent_again_during_an_attempt_it_goes_out_again_at_once(
    store: Store, answer: WebhookResponse
) -> None:
    """The result of the running attempt settles nothing: another one was requested."""
    webhook = added(store, "acme")
    test = store.outbox.test(webhook.id)
    under_way = must_send(store)
    store.outbox.resend(test.id)
    assert store.outbox.settle(under_way, answer, jitter=0.0) is Saved.STALE
    retry = must_send(store)
    assert (retry.id, retry.body) == (under_way.id, under_way.body)
    assert store.outbox.settle(retry, GOOD, jitter=0.0) is Saved.SAVED
    assert store.outbox.delivery(test.id).attempts == 1


def test_what_waits_for_a_disabled_one_goes_on_when_it_is_enabled(store: Store) -> None:
    webhook = added(store, "acme")
    store.outbox.test(webhook.id)
    store.outbox.set(webhook.id, enabled=False)
    assert store.outbox.claim() is None
    assert store.outbox.next_at() is None
    store.outbox.set(webhook.id, enabled=True, url="http://b.test/", kinds=("document.retried",))
    assert must_send(store).url == "http://b.test/"
    assert store.outbox.webhook(webhook.id).kinds == ("document.retried",)


def test_removed_it_is_gone_with_its_deliveries(store: Store) -> None:
    webhook = added(store, "acme")
    test = store.outbox.test(webhook.id)
    under_way = must_send(store)
    store.outbox.remove(webhook.id)
    store.outbox.remove(webhook.id)
    assert store.outbox.webhooks() == []
    assert store.outbox.settle(under_way, GOOD, jitter=0.0) is Saved.STALE
    with pytest.raises(UnknownWebhook):
        store.outbox.webhook(webhook.id)
    with pytest.raises(UnknownDelivery):
        store.outbox.delivery(test.id)


SECRETIVE = ("invoice 4711.pdf", "0123abcd", "4711 at last")
"""The name and the digest of the document below, and a receiver's response about it."""


def secret_document(store: Store) -> str:
    name, sha256, _ = SECRETIVE
    new = new_document()._replace(name=name, sha256=sha256)
    return store.submit(Submission("acme", (new,)))[0].id


def all_told(store: Store, webhook: str) -> list[dict[str, Any]]:
    """The bodies of all deliveries of a webhook, as a receiver gets them when they come again."""
    for delivery in store.outbox.deliveries(webhook):
        store.outbox.resend(delivery.id)
    bodies = []
    while (sending := store.outbox.claim()) is not None:
        bodies.append(json.loads(sending.body))
    return bodies


def test_of_a_deleted_document_deliveries_tell_only_what_became_of_it(store: Store) -> None:
    webhook = added(store, "acme")
    deleted, other = secret_document(store), submit_one(store, "acme")
    for _ in range(2):
        store.finish(must_claim(store), DONE)
    store.outbox.settle(must_send(store), WebhookResponse(200, SECRETIVE[2]), jitter=0.0)
    store.delete(deleted)
    settled = store.outbox.deliveries(webhook.id)[-1]
    assert (settled.document, settled.code, settled.answer) == (deleted, 200, None)
    bare, whole = all_told(store, webhook.id)
    assert not any(secret in json.dumps(bare) for secret in SECRETIVE)
    assert bare["type"] == "document.done"
    assert (bare["data"]["id"], bare["data"]["state"]) == (deleted, "done")
    assert (whole["data"]["id"], whole["data"]["name"]) == (other.id, other.name)
    assert set(bare["data"]) == set(whole["data"]), "a receiver finds all keys"


def end_with_a_part(store: Store) -> str:
    """A document that is done, and its only part that has failed; returns the id of the former."""
    letter = store.submit(Submission("acme", (new_document()._replace(name=SECRETIVE[0]),)))[0]
    store.finish(must_claim(store), DONE._replace(parts=(new_document(),)))
    store.finish(must_claim(store), DAMAGED)
    return letter.id


def test_a_delivery_says_that_the_last_part_has_ended(store: Store) -> None:
    webhook = added(store, "acme")
    letter = end_with_a_part(store)
    done, failed, parts_done = all_told(store, webhook.id)
    numbers = [(told["data"]["parts"], told["data"]["parts_done"]) for told in (done, parts_done)]
    assert numbers == [(1, 0), (1, 1)]
    assert (parts_done["type"], parts_done["data"]["id"]) == ("document.parts-done", letter)
    assert failed["data"]["parent_names"] == [SECRETIVE[0]]


def test_deliveries_about_parts_do_not_keep_the_name_of_a_deleted_document(store: Store) -> None:
    webhook = added(store, "acme")
    store.delete(end_with_a_part(store))
    assert SECRETIVE[0] not in json.dumps(all_told(store, webhook.id))


def test_what_a_deletion_tells_is_still_sent(store: Store) -> None:
    added(store, "acme")
    pending = secret_document(store)
    store.delete(pending)
    body = json.loads(must_send(store).body)
    assert (body["type"], body["data"]["id"]) == ("document.cancelled", pending)
    assert body["data"]["name"] is None


def test_an_answer_to_what_was_told_before_a_deletion_is_not_kept(store: Store) -> None:
    webhook = added(store, "acme")
    document = secret_document(store)
    store.finish(must_claim(store), DONE)
    under_way = must_send(store)
    store.delete(document)
    assert (
        store.outbox.settle(under_way, WebhookResponse(200, SECRETIVE[2]), jitter=0.0)
        is Saved.SAVED
    )
    (delivery,) = store.outbox.deliveries(webhook.id)
    assert (delivery.status, delivery.code, delivery.answer) == (Status.DELIVERED, 200, None)


def test_old_deliveries_are_forgotten_and_numbers_never_return(store: Store, clock: Clock) -> None:
    webhook = added(store, "acme")
    old = store.outbox.test(webhook.id)
    store.outbox.settle(must_send(store), GOOD, jitter=0.0)
    clock.advance(10)
    newest = store.outbox.test(webhook.id)
    assert store.outbox.forget(before=clock.now) == 1
    assert [delivery.id for delivery in store.outbox.deliveries(webhook.id)] == [newest.id]
    assert store.outbox.test(webhook.id).id not in (old.id, newest.id)


def test_deliveries_come_in_pages(store: Store) -> None:
    webhook = added(store, "acme")
    ids = [store.outbox.test(webhook.id).id for _ in range(5)]
    first = store.outbox.deliveries(webhook.id, limit=3)
    second = store.outbox.deliveries(webhook.id, before=first[-1].id)
    assert [delivery.id for delivery in first + second] == ids[::-1]


@pytest.mark.parametrize("id_", ["", "msg_acme-1_2", "msg_x_1", "msg_acme-1_١", "1" * 400])
def test_ids_that_are_none(store: Store, id_: str) -> None:
    store.outbox.test(added(store, "acme").id)
    with pytest.raises(UnknownDelivery):
        store.outbox.delivery(id_)


def test_a_customer_has_so_many_webhooks_and_must_be_known(store: Store) -> None:
    for number in range(MOST_OF_A_CUSTOMER):
        added(store, "acme", number)
    with pytest.raises(InvalidWebhook, match="delete one"):
        added(store, "acme", 99)
    with pytest.raises(UnknownCustomer):
        store.outbox.add(WebhookRecord("w", "nobody", "http://a.test/", ("document.done",), SECRET))
    assert len(store.outbox.webhooks("acme")) == MOST_OF_A_CUSTOMER


def test_the_claim_is_flat_and_every_index_is_used(tmp_path: Path) -> None:
    """Of the embedded store, whose plans show."""
    store: Any = sqlite_store(tmp_path, RulesInForce(), Clock())
    for number in range(20):
        added(store, "acme", number)
    seen: dict[str, object] = {}
    writer = store._writer._connection
    writer.exec_trace = lambda _, statement, bindings: not seen.update({statement: bindings})
    store.outbox.test("acme-1")
    store.outbox.settle(must_send(store), BAD, jitter=0.0)
    store.outbox.forget(before=0.0)
    document = submit_one(store, "acme")
    store.finish(must_claim(store), DONE)
    store.delete(document.id)
    writer.exec_trace = None
    plan_of = {
        statement: " ".join(
            row[3] for row in writer.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)
        )
        for statement, bindings in seen.items()
    }
    plans = " ".join(plan_of.values())
    assert not re.search(r"SCAN (deliveries|webhooks|d\b)", plans)
    # A short list of values may be sorted.
    sorts = [text for text, plan in plan_of.items() if "TEMP B-TREE" in plan]
    assert all("json_each" in statement for statement in sorts)
    for index in (
        *("webhooks_of_customer", "webhooks_due"),
        *("deliveries_due", "deliveries_settled", "deliveries_of_document"),
    ):
        assert f"INDEX {index} " in plans, index
    store.close()
