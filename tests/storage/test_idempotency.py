"""Idempotency keys: the same request gives the same documents, another one a conflict."""

from __future__ import annotations

import pytest
from storekit import DONE, ids, must_claim, submission, submit

from fairlead.errors import IdempotencyConflict
from fairlead.model.documents import Submission
from fairlead.model.states import State
from fairlead.storage import Store


def test_the_same_request_gives_the_same_documents(store: Store) -> None:
    first = submit(store, "acme", 2, key="k", fingerprint="body")
    before = store.customer("acme"), store.last_event()
    assert submit(store, "acme", 2, key="k", fingerprint="body") == first
    assert (store.customer("acme"), store.last_event()) == before


def test_a_repeat_tells_what_became_of_the_documents(store: Store) -> None:
    first = submit(store, "acme", key="k", fingerprint="body")
    store.finish(must_claim(store), DONE)
    (repeated,) = submit(store, "acme", key="k", fingerprint="body")
    assert repeated.id == first[0].id
    assert repeated.state is State.DONE


def test_a_repeat_gives_exactly_its_own_documents(store: Store) -> None:
    submit(store, "acme", 2)
    wanted = submit(store, "acme", 3, key="k", fingerprint="body")
    submit(store, "globex", 2)
    submit(store, "acme", 2)
    assert ids(submit(store, "acme", 3, key="k", fingerprint="body")) == ids(wanted)


def test_another_body_under_the_same_key_is_a_conflict(store: Store) -> None:
    submit(store, "acme", key="k", fingerprint="body")
    with pytest.raises(IdempotencyConflict):
        submit(store, "acme", key="k", fingerprint="another body")
    assert len(store.documents()) == 1
    assert store.customer("acme").waiting == 1


def test_keys_belong_to_their_customer(store: Store) -> None:
    (ours,) = submit(store, "acme", key="k", fingerprint="body")
    (theirs,) = submit(store, "globex", key="k", fingerprint="another body")
    assert ours.id != theirs.id


def test_a_service_uses_a_key_for_one_customer_only(store: Store) -> None:
    def from_service(customer: str) -> Submission:
        return submission(customer, 1, key="k", fingerprint="body", sender="service")

    accepted, refused = store.submit_each([from_service("acme"), from_service("globex")])
    assert isinstance(accepted, list)
    assert isinstance(refused, IdempotencyConflict)
    with pytest.raises(IdempotencyConflict):
        store.submit(from_service("globex"))


def test_a_refused_submission_leaves_its_key_free(store: Store) -> None:
    store.add_customer("acme", pending_cap=1)
    with pytest.raises(Exception, match="pending"):
        submit(store, "acme", 2, key="k", fingerprint="body")
    assert submit(store, "acme", key="k", fingerprint="another body")


def test_a_repeat_is_answered_although_the_cap_is_reached(store: Store) -> None:
    store.add_customer("acme", pending_cap=1)
    first = submit(store, "acme", key="k", fingerprint="body")
    assert submit(store, "acme", key="k", fingerprint="body") == first


def test_without_a_key_every_request_is_new(store: Store) -> None:
    assert submit(store, "acme", fingerprint="body") != submit(store, "acme", fingerprint="body")
