"""A done document is processed once more: its old result stays until a new one replaces it."""

from __future__ import annotations

import pytest
from storekit import DAMAGED, DONE, Clock, must_claim, submit, submit_one, work_off

from fairlead.errors import PendingCapReached
from fairlead.model.documents import Claim, Done, EventKind, NewDocument, Saved
from fairlead.model.results import Content
from fairlead.model.states import State
from fairlead.storage import Store

OLD = Done(
    "text",
    {"pages": 3},
    "old-key",
    "0" * 64,
    files=(Content(3, "1" * 64, "old.pdf", "application/pdf", key="old-file"),),
)
NEW = Done("text", {"pages": 4}, "new-key", "2" * 64)


def done_once(store: Store, outcome: Done = OLD, *, urgent: bool = False) -> Claim:
    submit_one(store, "acme", urgent=urgent)
    claim = must_claim(store)
    assert store.finish(claim, outcome) is Saved.SAVED
    return claim


def names(store: Store, id_: str) -> list[tuple[str, str]]:
    return [(role, content.name) for role, content in store.results(id_)]


def test_the_old_result_stays_until_the_new_one_replaces_it(store: Store) -> None:
    old = done_once(store)
    assert not old.has_result
    retried = store.retry(old.id, password="open sesame")
    assert (retried.state, retried.attempts, retried.finished_at) == (State.WAITING, 0, None)
    assert (retried.priority, retried.count) == (1, 0)
    assert store.stored_document(old.id).text_key == "old-key"
    new = must_claim(store)
    assert (new.id, new.password, new.attempts, new.has_result) == (old.id, "open sesame", 1, True)
    assert names(store, old.id) == [("file", "old.pdf"), ("text", "")]
    assert store.finish(old, NEW) is Saved.STALE
    assert store.finish(new, NEW) is Saved.SAVED
    assert names(store, old.id) == [("text", "")]
    assert store.stored_document(old.id).text_key == "new-key"
    assert store.document(old.id).files == ()


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_the_old_result_stays_if_there_is_no_new_one(store: Store, end: str) -> None:
    old = done_once(store)
    store.retry(old.id)
    if end == "failed":
        store.finish(must_claim(store), DAMAGED)
    else:
        store.cancel(old.id)
    assert store.document(old.id).state == end
    assert names(store, old.id) == [("file", "old.pdf"), ("text", "")]
    store.retry(old.id)
    store.finish(must_claim(store), NEW)
    assert names(store, old.id) == [("text", "")]


def test_a_result_without_facts_is_replaced_too(store: Store) -> None:
    old = done_once(store, DONE._replace(facts={}))
    store.retry(old.id)
    store.finish(must_claim(store), NEW)
    assert store.stored_document(old.id).text_key == "new-key"


def test_it_ends_once_more_with_a_new_cursor(store: Store, clock: Clock) -> None:
    old = done_once(store)
    ((first, _),) = store.ends(0, 10)
    clock.advance(5)
    store.retry(old.id)
    assert store.ends(0, 10) == []
    store.finish(must_claim(store), NEW)
    ((second, document),) = store.ends(first, 10)
    assert (document.id, document.facts) == (old.id, {"pages": 4})
    assert [number for number, _ in store.ends(0, 10)] == [second]


def test_work_counts_each_time_and_the_document_once(store: Store) -> None:
    old = done_once(store, OLD._replace(seconds=2.0))
    store.retry(old.id)
    store.finish(must_claim(store), NEW._replace(seconds=3.0))
    (usage,) = store.usage("acme", first=0, last=2**31)
    assert (usage.documents, usage.pages, usage.seconds) == (1, 7, 5.0)


def test_numbers_by_state_stay_right(store: Store) -> None:
    old = done_once(store)
    store.retry(old.id)
    assert [(tally.state, tally.documents) for tally in store.tallies()] == [("waiting", 1)]
    assert store.customer("acme").waiting == 1
    store.finish(must_claim(store), NEW)
    assert [(tally.state, tally.documents) for tally in store.tallies()] == [("done", 1)]
    assert store.customer("acme").pending == 0


def test_it_returns_to_its_own_place(store: Store) -> None:
    first, second = submit(store, "acme", 2)
    store.finish(must_claim(store), OLD)
    store.retry(first.id)
    assert [claim.id for claim in work_off(store)] == [first.id, second.id]


def test_an_urgent_one_returns_to_the_place_that_it_had_taken(store: Store) -> None:
    """Under classic it takes the place of its customer's best document, which gets its own."""
    submit(store, "acme", 4)
    urgent = submit_one(store, "acme", urgent=True)
    store.finish(must_claim(store), OLD)
    submit(store, "bolt", 3)
    store.retry(urgent.id)
    assert must_claim(store).id == urgent.id


def test_it_needs_room_under_the_pending_cap(store: Store) -> None:
    old = done_once(store)
    submit_one(store, "acme")
    store.set_customer("acme", pending_cap=1)
    with pytest.raises(PendingCapReached):
        store.retry(old.id)
    assert store.document(old.id).state is State.DONE


def part(number: int) -> NewDocument:
    return NewDocument(f"{number:026}", f"{number % 100}.txt", 10, f"{number % 100:064}")


def test_known_attachments_are_not_submitted_again(store: Store) -> None:
    old = done_once(store, OLD._replace(parts=(part(101), part(102), part(202))))
    assert len(store.documents(parent=old.id)) == 3
    work_off(store)
    store.retry(old.id)
    store.finish(
        must_claim(store), NEW._replace(parts=(part(301), part(302), part(402), part(503)))
    )
    parts = store.documents(parent=old.id)
    assert [document.name for document in parts] == ["3.txt", "2.txt", "2.txt", "1.txt"]
    assert "parts_left_out" not in store.document(old.id).facts


def test_a_retry_is_told_and_deletion_takes_all_along(store: Store) -> None:
    old = done_once(store)
    store.retry(old.id, by="anna")
    assert [event.kind for event in store.audit()] == [EventKind.RETRIED]
    store.finish(must_claim(store), NEW)
    assert store.delete(old.id) == ["new-key"]
