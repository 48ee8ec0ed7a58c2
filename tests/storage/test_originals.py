"""Short documents that the store keeps itself."""

from __future__ import annotations

import pytest
from storekit import (
    CRASHED,
    DONE,
    Clock,
    RulesInForce,
    must_claim,
    new_document,
    submit_one,
)

from fairlead.errors import PendingCapReached
from fairlead.model.documents import NewDocument, Submission
from fairlead.storage import Store

EVERY_BYTE = bytes(range(256)) * 40


def with_content(content: bytes) -> NewDocument:
    return new_document(content=content)


@pytest.mark.parametrize("content", [b"x", b"\0", EVERY_BYTE, EVERY_BYTE * 30])
def test_what_was_kept_is_given_back(store: Store, content: bytes) -> None:
    (document,) = store.submit(Submission("acme", (with_content(content),)))
    assert store.original(document.id) == content
    assert must_claim(store).content == content


def test_what_is_a_file_is_not_in_the_store(store: Store) -> None:
    document = submit_one(store, "acme")
    assert store.original(document.id) is None
    assert store.original("no such document") is None
    assert must_claim(store).content is None


def test_each_document_has_its_own(store: Store) -> None:
    """More than one statement inserts, with files between them."""
    news = [with_content(b"%d" % number) if number % 3 else new_document() for number in range(120)]
    store.submit(Submission("acme", tuple(news)))
    assert [store.original(new.id) for new in news] == [new.content for new in news]
    claims = store.claim_for(["worker"] * 120)
    assert {claim.id: claim.content for claim in claims} == {new.id: new.content for new in news}


def test_it_comes_with_every_claim_and_stays_at_the_end(store: Store, clock: Clock) -> None:
    (document,) = store.submit(Submission("acme", (with_content(b"mine"),)))
    store.release([must_claim(store)])
    store.finish(must_claim(store), CRASHED)
    clock.advance(3600)
    claim = must_claim(store)
    assert claim.content == b"mine"
    store.finish(claim, DONE)
    assert store.original(document.id) == b"mine"


def test_what_is_refused_is_not_kept(store: Store) -> None:
    store.add_customer("acme", pending_cap=1)
    news = (with_content(b"one"), with_content(b"two"))
    with pytest.raises(PendingCapReached):
        store.submit(Submission("acme", news))
    assert [store.original(new.id) for new in news] == [None, None]


def test_those_accepted_together_and_apart(store: Store) -> None:
    store.add_customer("full", pending_cap=1)
    news = [with_content(b"%d" % number) for number in range(6)]
    names = ("acme", "full", "acme", "full", "globex", "acme")
    pairs = zip(names, news, strict=True)
    outcomes = store.submit_each([Submission(name, (new,)) for name, new in pairs])
    refused = [isinstance(outcome, Exception) for outcome in outcomes]
    assert refused == [False, False, False, True, False, False]
    contents = [store.original(new.id) for new in news]
    assert contents == [b"0", b"1", b"2", None, b"4", b"5"]


def test_a_repeat_keeps_what_came_first(store: Store) -> None:
    first, second = with_content(b"same"), with_content(b"same")
    for new in (first, second):
        store.submit(Submission("acme", (new,), key="k", fingerprint="f"))
    assert store.original(first.id) == b"same"
    assert store.original(second.id) is None


def test_parts_are_kept_with_the_end_of_what_they_were_in(store: Store) -> None:
    submit_one(store, "acme")
    parts = (with_content(b"short"), new_document())
    store.finish(must_claim(store), DONE._replace(parts=parts))
    assert [store.original(part.id) for part in parts] == [b"short", None]


def test_parts_of_what_came_too_late_are_not_kept(store: Store) -> None:
    submit_one(store, "acme")
    old = must_claim(store)
    store.release([old])
    part = with_content(b"short")
    store.finish(old, DONE._replace(parts=(part,)))
    assert store.original(part.id) is None


def test_parts_that_are_left_out_are_not_kept(store: Store, rules: RulesInForce) -> None:
    rules.change(parts=rules().parts.__class__(max_documents=1))
    submit_one(store, "acme")
    parts = (with_content(b"taken"), with_content(b"left out"))
    store.finish(must_claim(store), DONE._replace(parts=parts))
    assert [store.original(part.id) for part in parts] == [b"taken", None]


@pytest.mark.parametrize("is_pending", [True, False])
def test_it_goes_with_its_document(store: Store, is_pending: bool) -> None:
    gone, stays = (with_content(content) for content in (b"gone", b"stays"))
    store.submit(Submission("acme", (gone, stays)))
    if not is_pending:
        store.finish(must_claim(store), DONE)
    store.delete(gone.id)
    assert store.original(gone.id) is None
    assert store.original(stays.id) == b"stays"


def test_a_length_that_is_not_the_documents_is_a_problem(store: Store) -> None:
    document = with_content(b"right")
    store.submit(Submission("acme", (document._replace(size=6),)))
    (problem,) = store.problems()
    assert "1 originals" in problem
    store.delete(document.id)
