"""Parts: what comes out of a document becomes documents of its own, with the result and once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace
from storekit import (
    CRASHED,
    DAMAGED,
    DONE,
    Clock,
    RulesInForce,
    must_claim,
    new_document,
    submit,
    submit_one,
    work_off,
)

from fairlead.model.documents import Done, EventKind, NewDocument, Saved, Submission, full_name
from fairlead.policy.attachments import Family, PartsRule
from fairlead.policy.retry import RetryRule
from fairlead.storage import Store


def with_parts(number: int, size: int = 10) -> Done:
    parts = tuple(new_document()._replace(size=size) for _ in range(number))
    return DONE._replace(parts=parts)


def test_parts_belong_to_the_same_customer_and_know_their_parent(store: Store) -> None:
    letter = submit_one(store, "acme", urgent=True)
    done = with_parts(2)
    store.finish(must_claim(store), done)
    parts = store.documents(parent=letter.id)
    assert [part.id for part in reversed(parts)] == [part.id for part in done.parts]
    for part in parts:
        assert (part.customer, part.parent) == ("acme", letter.id)
        assert store.stored_document(part.id).depth == 1
        assert part.urgent
    assert store.customer("acme").waiting == 2


def test_parts_of_a_deleted_document_still_know_and_show_their_parent(store: Store) -> None:
    letter = submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(2))
    before = store.documents(parent=letter.id)
    store.delete(letter.id)
    nameless = [replace(part, parent_names=()) for part in before]
    assert store.documents(parent=letter.id) == nameless
    assert {document.parent for document in store.documents()} == {letter.id}


def test_parts_are_counted(store: Store) -> None:
    submit(store, "acme", 2)
    store.finish(must_claim(store), with_parts(3))
    assert sorted(document.count for document in store.documents()) == [-4, -3, -2, -1, 0]
    assert submit_one(store, "acme").count == -5


def test_parts_come_with_the_result_that_counts_and_with_no_other(
    store: Store, clock: Clock
) -> None:
    submit_one(store, "acme")
    late = must_claim(store)
    clock.advance(31.0)
    newest = must_claim(store)
    assert store.finish(late, with_parts(5)) is Saved.STALE
    assert store.finish(newest, with_parts(1)) is Saved.SAVED
    assert store.finish(newest, with_parts(5)) is Saved.STALE
    assert len(store.documents()) == 2


def test_no_cap_refuses_parts(store: Store) -> None:
    submit_one(store, "acme")
    store.set_customer("acme", pending_cap=1)
    store.finish(must_claim(store), with_parts(4))
    assert store.customer("acme").waiting == 4


def test_a_family_does_not_grow_without_end(store: Store, rules: RulesInForce) -> None:
    rules.change(parts=PartsRule(max_depth=2, max_documents=5, max_bytes=10**6))
    top = submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(3))
    store.finish(must_claim(store), with_parts(4))
    first = store.documents(parent=top.id)[-1]
    assert store.document(first.id).facts["parts_left_out"] == 2
    assert len(store.documents(parent=first.id)) == 2
    while claim := store.claim("worker"):
        store.finish(claim, with_parts(3))
    assert len(store.documents()) == 1 + 5


def test_a_family_has_a_depth(store: Store, rules: RulesInForce) -> None:
    rules.change(parts=PartsRule(max_depth=2))
    submit_one(store, "acme")
    while claim := store.claim("worker"):
        store.finish(claim, with_parts(1))
    assert sorted(store.stored_document(document.id).depth for document in store.documents()) == [
        0,
        1,
        2,
    ]


def test_families_do_not_share_their_limits(store: Store, rules: RulesInForce) -> None:
    rules.change(parts=PartsRule(max_depth=1, max_documents=2))
    submit(store, "acme", 2)
    for _ in range(2):
        store.finish(must_claim(store), with_parts(2))
    assert len(store.documents()) == 6


def test_parts_wait_for_their_turn_like_all_documents(store: Store) -> None:
    submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(6))
    submit_one(store, "globex")
    assert [claim.customer for claim in work_off(store)][2:4] != ["acme", "acme"]


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_parts_are_placed_by_the_policy_in_force(
    store: Store, rules: RulesInForce, policy: str
) -> None:
    rules.change(policy=policy)
    submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(2))
    assert {document.policy for document in store.documents()} == {
        "classic/1" if policy == "classic" else "fair/2"
    }
    assert store.problems() == []


def test_a_submission_of_a_part_is_told(store: Store) -> None:
    submit_one(store, "acme")
    done = with_parts(1)
    store.finish(must_claim(store), done)
    submissions = [event for event in store.events() if event.kind is EventKind.SUBMITTED]
    assert [event.document for event in submissions][1] == done.parts[0].id


# --- Markdown and passwords ---


def test_markdown_is_kept_beside_the_text(store: Store) -> None:
    document = submit_one(store, "acme")
    done = DONE._replace(markdown_key="its-markdown", markdown_sha256="1" * 64)
    store.finish(must_claim(store), done)
    stored = store.stored_document(document.id)
    assert (stored.markdown_key, stored.markdown_sha256) == ("its-markdown", "1" * 64)
    assert store.known_texts([document.id]) == {"text-of-it", "its-markdown"}


def locked(store: Store) -> NewDocument:
    new = new_document()._replace(password="open sesame")
    store.submit(Submission("acme", (new,)))
    return new


def test_a_password_comes_with_the_claim_and_with_each_further_one(
    store: Store, clock: Clock
) -> None:
    locked(store)
    claim = must_claim(store)
    assert claim.password == "open sesame"
    store.finish(claim, CRASHED)
    clock.advance(60.0)
    assert must_claim(store).password == "open sesame"


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_a_password_is_gone_when_the_document_has_ended(store: Store, end: str) -> None:
    new = locked(store)
    if end == "cancelled":
        store.cancel(new.id)
    else:
        store.finish(must_claim(store), DONE if end == "done" else DAMAGED)
    if end == "done":
        assert "open sesame" not in repr(store.document(new.id))
        return
    store.retry(new.id)
    assert must_claim(store).password is None


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_retry_brings_a_password_of_its_own(store: Store, end: str) -> None:
    document = submit_one(store, "acme")
    if end == "failed":
        store.finish(must_claim(store), DAMAGED)
    else:
        store.cancel(document.id)
    store.retry(document.id, password="open sesame")
    claim = must_claim(store)
    assert (claim.id, claim.password) == (document.id, "open sesame")


def test_a_retry_of_a_pending_document_leaves_its_password(store: Store) -> None:
    store.retry(locked(store).id, password="another")
    assert must_claim(store).password == "open sesame"


# --- the rule ---


def test_the_rule_takes_the_first_ones_that_fit() -> None:
    rule = PartsRule(max_depth=3, max_documents=4, max_bytes=100)
    assert rule.accepted(0, Family(0, 0), [10, 10, 10]) == 3
    assert rule.accepted(0, Family(2, 20), [10, 10, 10]) == 2
    assert rule.accepted(0, Family(0, 95), [10, 1]) == 0
    assert rule.accepted(0, Family(0, 80), [10, 10, 1]) == 2
    assert rule.accepted(3, Family(0, 0), [10]) == 0
    assert rule.accepted(2, Family(9, 0), [10]) == 0


def numbers(store: Store, id_: str) -> tuple[int, int]:
    document = store.document(id_)
    return document.parts, document.parts_done


def ends_of_parts(store: Store) -> list[str]:
    ends = [event for event in store.events() if event.kind is EventKind.PARTS_DONE]
    return [end.document or "" for end in ends]


def test_a_document_says_how_many_of_its_parts_have_ended(store: Store) -> None:
    letter = submit_one(store, "acme")
    assert numbers(store, letter.id) == (0, 0)
    store.finish(must_claim(store), with_parts(3))
    assert numbers(store, letter.id) == (3, 0)
    store.finish(must_claim(store), DONE)
    store.finish(must_claim(store), DAMAGED)
    assert numbers(store, letter.id) == (3, 2)
    last = must_claim(store)
    store.cancel(last.id)
    assert numbers(store, letter.id) == (3, 3)
    store.retry(last.id)
    assert numbers(store, letter.id) == (3, 2)
    store.delete(last.id)
    assert numbers(store, letter.id) == (2, 2)
    assert [document.parts for document in store.documents()] == [0, 0, 2]


def test_parts_of_parts_count_for_all_documents_around_them(store: Store) -> None:
    letter = submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(1))
    archive = must_claim(store)
    store.finish(archive, with_parts(2))
    assert numbers(store, letter.id) == (3, 1)
    assert numbers(store, archive.id) == (2, 0)
    store.finish(must_claim(store), DONE)
    assert numbers(store, letter.id) == (3, 2)
    assert numbers(store, archive.id) == (2, 1)


def test_a_part_has_the_names_of_the_documents_around_it(store: Store) -> None:
    new = new_document()
    store.submit(Submission("acme", (new._replace(name="letter.eml"),)))
    store.finish(must_claim(store), DONE._replace(parts=(new_document()._replace(name="all.zip"),)))
    store.finish(must_claim(store), with_parts(1))
    part, archive, letter = store.documents()
    assert letter.parent_names == ()
    assert archive.parent_names == ("letter.eml",)
    assert part.parent_names == ("letter.eml", "all.zip")
    assert full_name(part) == f"letter.eml › all.zip › {part.name}"


def test_one_event_says_when_all_parts_have_ended(store: Store) -> None:
    letter = submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(2))
    archive = must_claim(store)
    store.finish(archive, with_parts(1))
    store.finish(must_claim(store), DONE)
    assert ends_of_parts(store) == []
    store.finish(must_claim(store), DAMAGED)
    assert sorted(ends_of_parts(store)) == sorted([letter.id, archive.id])


def test_the_event_comes_again_after_a_part_was_retried(store: Store) -> None:
    letter = submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(1))
    part = must_claim(store)
    store.finish(part, DAMAGED)
    store.retry(part.id)
    store.cancel(part.id)
    assert ends_of_parts(store) == [letter.id, letter.id]


def test_a_document_that_is_read_again_reports_its_parts_when_it_ends(store: Store) -> None:
    letter = submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(1))
    store.retry(letter.id)
    first, second = must_claim(store), must_claim(store)
    part = second if first.id == letter.id else first
    store.finish(part, DONE)
    assert ends_of_parts(store) == []  # the document itself has not ended
    store.finish(first if part is second else second, DONE)
    assert numbers(store, letter.id) == (1, 1)


def test_a_lost_worker_may_end_the_last_part(store: Store, rules: RulesInForce) -> None:
    rules.change(retry=RetryRule(max_attempts=1))
    letter = submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(1))
    must_claim(store, worker="gone")
    store.rescue_from("gone")
    assert numbers(store, letter.id) == (1, 1)
    assert ends_of_parts(store) == [letter.id]


def test_two_stores_that_end_the_last_two_parts_at_once_report_it_once(store: Store) -> None:
    letter = submit_one(store, "acme")
    store.finish(must_claim(store), with_parts(2))
    claims = [must_claim(store), must_claim(store)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda claim: store.finish(claim, DONE), claims))
    assert ends_of_parts(store) == [letter.id]
