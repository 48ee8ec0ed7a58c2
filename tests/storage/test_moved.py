"""Documents that move to the queue of their next steps: the same place, and no attempt used."""

from __future__ import annotations

from typing import Any

import pytest
from storekit import DONE, LEASE, Clock, must_claim, new_document

from fairlead.model.documents import Document, EventKind, Moved, Saved, Submission
from fairlead.model.pipelines import ClaimRequest, Pipeline
from fairlead.model.results import Interim, decode_interim
from fairlead.model.states import State
from fairlead.policy.queue import PolicyName
from fairlead.storage import Store

QUEUE = "invoices/pull:fields"
FOUND = Interim(("read", "pull:fields"), 1, kind="pdf", facts={"pages": 2})


def submit(store: Store, customer: str, number: int = 1, **fields: Any) -> list[Document]:
    fields = {"pipeline": "invoices", **fields}
    documents = tuple(new_document()._replace(**fields) for _ in range(number))
    return store.submit(Submission(customer, documents))


def move(store: Store, *, seconds: float = 2.0) -> str:
    [claim] = store.claim_for(["worker"], pipelines=["invoices"])
    assert store.finish(claim, Moved(QUEUE, FOUND, seconds)) is Saved.SAVED
    return claim.id


def pull(store: Store, number: int = 1) -> list[str]:
    workers = [f"puller {index}" for index in range(number)]
    return [claim.id for claim in store.claim_for(workers, pipelines=[QUEUE])]


@pytest.fixture(params=["classic", "fair"])
def policy(request: pytest.FixtureRequest, store: Store) -> PolicyName:
    store.use_policy(request.param)
    return store.policy()


def test_a_moved_document_waits_in_the_other_queue_with_what_was_found(
    store: Store, policy: PolicyName
) -> None:
    [document] = submit(store, "acme")
    move(store)
    waiting = store.document(document.id)
    assert (waiting.state, waiting.attempts, waiting.error) == (State.WAITING, 0, None), policy
    assert (waiting.pipeline, waiting.count) == ("invoices", document.count)
    assert (document.kind, waiting.kind) == (None, "pdf")
    assert store.claim_for(["worker"], pipelines=["invoices"]) == []
    [claim] = store.claim_for(["puller"], pipelines=[QUEUE])
    assert (claim.pipeline, claim.attempts, claim.suspect) == (QUEUE, 1, False)
    assert claim.interim is not None
    assert decode_interim(claim.interim) == FOUND
    assert store.finish(claim, DONE) is Saved.SAVED
    assert store.document(document.id).attempts == 1
    assert store.problems() == []


def test_moved_documents_keep_their_order(store: Store, clock: Clock, policy: PolicyName) -> None:
    submit(store, "many", 4)
    clock.advance(1)
    [few] = submit(store, "few")
    started = [move(store) for _ in range(5)]
    if policy == "fair":  # by now its customer has had the least
        started.remove(few.id)
        started.insert(0, few.id)
    assert pull(store, 5) == started


def test_a_late_worker_moves_nothing(store: Store, clock: Clock) -> None:
    [document] = submit(store, "acme")
    old = must_claim(store)
    clock.advance(LEASE + 1)
    new = must_claim(store)
    assert store.finish(old, Moved(QUEUE, FOUND)) is Saved.STALE
    assert pull(store) == []
    assert store.finish(new, Moved(QUEUE, FOUND)) is Saved.SAVED
    assert pull(store) == [document.id]


def test_a_lost_puller_is_rescued_into_its_queue(store: Store, clock: Clock) -> None:
    [document] = submit(store, "acme")
    move(store)
    [old] = store.claim_for(["puller"], pipelines=[QUEUE])
    clock.advance(LEASE + 1)
    [new] = store.claim_for(["other"], pipelines=[QUEUE])
    assert (new.id, new.attempts) == (document.id, 2)
    assert new.interim is not None
    assert store.finish(new, DONE) is Saved.SAVED
    assert store.finish(old, DONE) is Saved.STALE


def test_a_moved_document_can_be_cancelled_and_starts_over(store: Store) -> None:
    [document] = submit(store, "acme")
    move(store)
    assert store.cancel(document.id).state is State.CANCELLED
    assert pull(store) == []
    store.retry(document.id)
    assert pull(store) == []
    claim = must_claim(store)
    assert (claim.pipeline, claim.interim) == ("invoices", None)
    assert store.problems() == []


def test_a_moved_document_can_be_made_urgent(store: Store, policy: PolicyName) -> None:
    first, second = submit(store, "acme", 2)
    move(store)
    move(store)
    store.change(second.id, {"urgent": True})
    assert pull(store, 2) == [second.id, first.id], policy
    assert store.problems() == []


def test_a_moved_document_has_a_place(store: Store) -> None:
    first, second = submit(store, "acme", 2)
    move(store)
    move(store)
    places = [store.place(document.id) for document in (first, second)]
    assert [place and place.position for place in places] == [1, 2]
    assert store.stored_document(first.id).queue == QUEUE


def test_the_quota_of_a_queue_holds_for_moved_documents(store: Store) -> None:
    pipeline = Pipeline("invoices", ("read", "pull:fields"), max_running=1)
    store.use_quotas(pipeline.queues)
    submit(store, "acme", 2)
    moved = move(store)
    move(store)
    assert pull(store, 2) == [moved]
    assert pull(store, 2) == []
    assert store.pipeline_state(QUEUE).running == 1


def test_the_claim_of_a_token_is_found_while_it_is_held(store: Store) -> None:
    [document] = submit(store, "acme", metadata={"order": 7})
    move(store)
    [claim] = store.claim_for(["puller"], pipelines=[QUEUE])
    assert store.held_claim(document.id, claim.fence) == claim
    assert store.held_claim(document.id, claim.fence + 1) is None
    store.cancel(document.id)
    assert store.held_claim(document.id, claim.fence) is None


def test_the_work_of_all_claims_counts(store: Store) -> None:
    [document] = submit(store, "acme")
    move(store, seconds=2.0)
    [claim] = store.claim_for(["puller"], pipelines=[QUEUE])
    store.finish(claim, DONE._replace(seconds=3.0, work=5.0))
    assert sum(usage.seconds for usage in store.usage("acme")) == pytest.approx(5.0)
    kinds = [event.kind for event in store.events_of(document.id)]
    assert kinds == [
        EventKind.SUBMITTED,
        EventKind.CLAIMED,
        EventKind.RELEASED,
        EventKind.CLAIMED,
        EventKind.DONE,
    ]


def test_nobody_serves_a_queue_that_nobody_attends(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    move(store)
    assert store.waiting_queues() == {QUEUE}
    store.attend("engine", 2, ["default", "invoices"])
    assert not store.pipelines()[QUEUE].served
    store.attend("puller", 1, [QUEUE])
    assert store.pipelines()[QUEUE].served
    clock.advance(LEASE / 2)
    store.attend("engine", 2, ["default", "invoices"])
    clock.advance(LEASE / 2 + 1)
    assert not store.pipelines()[QUEUE].served


def test_requests_of_both_queues_are_filled(store: Store) -> None:
    first, second = submit(store, "acme", 2)
    move(store)
    requests = [ClaimRequest(["slot"], (), ["invoices"]), ClaimRequest(["puller"], (), [QUEUE])]
    claims, _ = store.claim_requests(requests)
    assert {claim.id: claim.worker for claim in claims} == {first.id: "puller", second.id: "slot"}
