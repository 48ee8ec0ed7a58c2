"""A customer is deleted when it has no documents, with its keys, webhooks and idempotency keys."""

from __future__ import annotations

import json

import pytest
from storekit import DONE, Clock, must_claim, new_document, submission, submit_one
from webhookkit import SECRET, added

from fairlead.errors import Unauthorized, UnknownBatch, UnknownCustomer
from fairlead.model.documents import Submission
from fairlead.model.keys import KeyOwner, Role
from fairlead.model.submissions import NotBefore
from fairlead.model.webhooks import DEFAULT_KINDS, WebhookRecord
from fairlead.storage import Store

pytestmark = pytest.mark.postgres_differs


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
    store.add_customer("acme")
    assert submit_one(store, "acme", key="k", fingerprint="other").count == 0


def test_no_submission_brings_a_deleted_customer_back(store: Store) -> None:
    store.add_customer("acme", pending_cap=1)
    assert store.delete_customer("acme") is True
    for strict in (False, True):
        with pytest.raises(UnknownCustomer, match="'acme' was deleted"):
            submit_one(store, "acme", strict=strict)
    late, other = store.submit_each([submission("acme"), submission("acme 2")])
    assert isinstance(late, UnknownCustomer)
    assert isinstance(other, list)
    assert [customer.name for customer in store.customers()] == ["acme 2"]
    assert store.add_customer("acme") is True
    assert store.customer("acme").settings.pending_cap is None
    assert [submit_one(store, "acme").count for _ in range(2)] == [0, -1]
    assert store.delete_customer("acme") is False


def test_a_submission_needs_a_key_that_is_valid_at_that_moment(store: Store, clock: Clock) -> None:
    store.add_customer("acme")
    own, service = KeyOwner(Role.CUSTOMER, "acme"), KeyOwner(Role.SERVICE, name="portal")
    for id_, owner in (("own", own), ("service", service), ("revoked", own), ("gone", service)):
        store.add_key(id_, id_, owner)
    store.add_key("expired", "e", own, expires=NotBefore(10.0, is_delay=True))
    assert submit_one(store, "acme", access_key="expired").count == 0
    clock.advance(11)
    for id_ in ("revoked", "gone"):
        store.revoke_key(id_)
    ids: list[str | None] = ["own", "revoked", "service", "gone", "expired", "unknown", None]
    outcomes = store.submit_each([submission("acme", access_key=id_) for id_ in ids])
    refused = [
        id_ for id_, outcome in zip(ids, outcomes, strict=True) if isinstance(outcome, Unauthorized)
    ]
    assert refused == ["revoked", "gone", "expired", "unknown"]
    for key in refused:
        with pytest.raises(Unauthorized):
            submit_one(store, "acme", access_key=key)
    assert store.customer("acme").pending == 4


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
