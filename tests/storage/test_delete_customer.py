"""A customer is deleted when it has no documents, with its keys, webhooks and idempotency keys."""

from __future__ import annotations

import json

import pytest
from storekit import DONE, must_claim, new_document, submit_one
from webhookkit import SECRET, added

from fairlead.errors import UnknownBatch
from fairlead.model.documents import Submission
from fairlead.model.webhooks import DEFAULT_KINDS, WebhookRecord
from fairlead.storage import Store


def test_a_customer_with_documents_stays(store: Store) -> None:
    submit_one(store, "acme")
    assert store.delete_customer("acme") is False
    assert store.customer("acme").pending == 1


def test_keys_webhooks_and_names_go_with_the_customer(store: Store) -> None:
    document = submit_one(store, "acme", key="k", fingerprint="f")
    new = new_document()._replace(batch="b1")
    [other] = store.submit(Submission("acme", (new,), new_batch="b1"))
    store.delete(other.id)
    webhook = added(store, "acme")
    store.finish(must_claim(store), DONE)
    store.delete(document.id)
    assert store.delete_customer("acme", by="operator") is True
    assert store.customers() == []
    assert webhook.id not in {webhook.id for webhook in store.outbox.webhooks()}
    assert store.deleted_customer(document.id) is None
    with pytest.raises(UnknownBatch):
        store.batch("b1")
    assert {event.customer for event in store.events()} == {None}
    assert [row.customer for row in store.usage()] == [None]
    assert submit_one(store, "acme", key="k", fingerprint="other").count == 0


def test_webhooks_of_all_customers_are_told_without_the_name(store: Store) -> None:
    name, other = 'a_m%e "!"', "axm%e"
    new = WebhookRecord("all", None, "http://a.test/", DEFAULT_KINDS, SECRET)
    webhook = store.outbox.add(new)
    batch = new_document()._replace(batch="b1")
    [document] = store.submit(Submission(name, (batch,), new_batch="b1"))
    submit_one(store, other)
    for _ in range(2):
        store.finish(must_claim(store), DONE)
    pending = submit_one(store, name)
    for id_ in (document.id, pending.id):
        store.delete(id_)
    before = store.outbox.deliveries(webhook.id)
    assert len(before) == 4, "two are done, a batch is done, and one was cancelled"
    assert store.delete_customer(name) is True
    assert store.outbox.deliveries(webhook.id) == before
    bodies = []
    while (sending := store.outbox.claim()) is not None:
        bodies.append(json.loads(sending.body)["data"])
    assert [data["customer"] for data in bodies].count(other) == 1
    assert name not in repr(bodies)
    assert {document.id, pending.id, "b1"} <= {data["id"] for data in bodies}


def test_the_figures_of_the_others_do_not_need_the_deleted_one(store: Store) -> None:
    for name in ("acme", "bolt"):
        document = submit_one(store, name)
        store.finish(must_claim(store), DONE._replace(seconds=1.0))
        if name == "acme":
            store.delete(document.id)
    assert [share.name for share in store.fairness().accounts] == ["acme", "bolt"]
    assert store.delete_customer("acme") is True
    for policy in ("classic", "fair", "classic"):
        store.use_policy(policy)
        assert [share.name for share in store.fairness().accounts] == ["bolt"]
        assert store.problems() == []
