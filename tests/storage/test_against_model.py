"""Random histories: every store agrees with the plain model, and wrong stores are found out.

Each wrong store comes with the shortest history that finds it. `make test` replays that history;
`make faults` searches for one again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from store_state_machine import Step, check_against_model, replay
from storekit import StoreFactory, histories, postgres_store, sqlite_store

from fairlead.model.customers import Counter
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.fair import Charge, FairClock, FairShare
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName, Queue
from fairlead.policy.queue_entry import Entry, Member, QueuedDocument
from fairlead.policy.queue_events import Dropped
from fairlead.policy.quotas import Quota
from fairlead.storage.sql import claims
from fairlead.storage.sql.accept import SubmissionWriter
from fairlead.storage.sql.ends import Running, _EndWriter
from fairlead.storage.sql.queries import sql, statements

POLICIES: list[PolicyName] = ["classic", "fair"]


@pytest.fixture(autouse=True)
def right_statements() -> Iterator[None]:
    """Forgets wrong statements, after monkeypatch has undone them."""
    yield
    sql.cache_clear()


@pytest.mark.hypothesis
@pytest.mark.parametrize("policy", POLICIES)
def test_a_store_agrees_with_the_model(store_factory: StoreFactory, policy: PolicyName) -> None:
    number = histories(store_factory, 60)
    check_against_model(store_factory, policy, max_examples=number, stateful_step_count=50)


@pytest.mark.faults
@pytest.mark.services
@pytest.mark.parametrize("policy", POLICIES)
def test_the_store_on_a_server_agrees_with_the_model_in_many_histories(policy: PolicyName) -> None:
    check_against_model(postgres_store, policy, max_examples=120, stateful_step_count=50)


# --- wrong stores ---

Mutation = Callable[[pytest.MonkeyPatch], None]


def changed_sql(name: str, old: str, new: str) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        right = statements()[name]
        assert old in right, f"the statement {name} has no {old!r}: this test needs a new one"
        patch.setitem(statements(), name, right.replace(old, new))
        sql.cache_clear()

    return mutate


def changed(owner: Any, name: str, wrong: object) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(owner, name, wrong)

    return mutate


def reset_at_the_interval(self: ClassicPolicy, counter: Counter, *, now: float) -> bool:
    return now - counter.updated_at >= self.reset_interval


def wait_without_starts(self: Queue, entry: Entry) -> tuple[float, int]:
    assert entry.oldest is not None
    return entry.oldest[1], entry.oldest[0]


def oldest_is_best(
    self: Queue, entry: Entry, *, through_lane: bool
) -> tuple[QueuedDocument | None, QueuedDocument | None]:
    best = entry.best()
    return None if best is None else entry.first_in_turn(best), best


def best_is_first(self: Entry, best: QueuedDocument) -> QueuedDocument:
    return best


def newest_first(patch: pytest.MonkeyPatch) -> None:
    place_of = Queue.place_of

    def wrong(self: Queue, entry: Entry) -> Any:
        place = place_of(self, entry)
        return place and (place[0], -place[1], place[2])

    patch.setattr(Queue, "place_of", wrong)


def cancelled_stays_in_q(patch: pytest.MonkeyPatch) -> None:
    dropped = Queue._dropped

    def wrong(self: Queue, event: Dropped) -> None:
        dropped(self, replace(event, estimates=0.0))

    patch.setitem(Queue._FOLDS, Dropped, wrong)


def tag_is_not_corrected(patch: pytest.MonkeyPatch) -> None:
    correct = FairClock.correct

    def wrong(
        self: FairClock, share: FairShare, charge: Charge, actual: float | None, now: float
    ) -> None:
        correct(self, share, charge, None if charge.to_tag else actual, now)

    patch.setattr(FairClock, "correct", wrong)


def without(change: str) -> Mutation:
    """A document that is put back keeps the value that should have changed."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        requeue = _EndWriter.requeue

        def wrong(self: _EndWriter, running: Running, **changes: int) -> None:
            changes.pop(change, None)
            requeue(self, running, **changes)

        patch.setattr(_EndWriter, "requeue", wrong)

    return mutate


class Wrong(NamedTuple):
    """What makes a store wrong, the policy, and the shortest history that shows it."""

    mutate: Mutation
    policy: PolicyName
    history: list[Step]


def step(name: str, **arguments: Any) -> Step:
    return name, arguments


def submit(
    customer: str, number: int = 1, urgent: int = 0, look: int = 0, pipeline: str = "default"
) -> Step:
    """Documents, and then urgent documents."""
    flags = [False] * number + [True] * urgent
    return step("submit", customer=customer, flags=flags, look=look, pipeline=pipeline)


def claim(worker: str = "anna") -> Step:
    return step("claim", worker=worker)


def ahead(worker: str, free: int = 0) -> Step:
    """Claims for free slots, and one beforehand."""
    return step("claim_ahead", worker=worker, free=free, ahead=1)


def finish(outcome: str = "done", back: int = 0) -> Step:
    return step("finish", back=back, outcome=outcome)


def work_off(times: int) -> Step:
    return step("work_off_some", times=times)


def advance(seconds: float) -> Step:
    return step("advance", seconds=seconds)


def own(customer: str, **settings: Any) -> Step:
    return step("set_customer", customer=customer, changes=settings)


COME_LATE = step("come_late", outcome="done")
PAUSE = step("pause_or_resume", customer="acme", paused=True)
AGAIN = [claim(), step("try_a_step_again", back=0, fails=True), advance(4.0)]
"""A step fails, and may be tried again."""
RENEW = step("renew", back=0)
RESCUE = step("rescue_from", worker="anna")

WRONG = {
    "the last customer is served first": Wrong(
        newest_first, "classic", [submit("acme"), submit("globex"), claim()]
    ),
    "the lane ignores its credit": Wrong(
        changed(OverdueLane, "is_open", lambda self, credit: True),
        "classic",
        [submit("acme", 1, urgent=1), claim(), advance(10.0), claim()],
    ),
    "the lane's credit is not saved": Wrong(
        changed_sql("save_queue_state", "credit = ?", "credit = 0 * ?"),
        "classic",
        [submit("acme"), COME_LATE, COME_LATE],
    ),
    "the lane takes the best document": Wrong(
        changed(Queue, "_classic_document", oldest_is_best),
        "classic",
        [submit("acme", 1, urgent=1), ahead("anna"), COME_LATE],
    ),
    "a start does not end a wait": Wrong(
        changed(Queue, "wait_of", wait_without_starts),
        "classic",
        [submit("acme", 3), advance(10.0), work_off(3)],
    ),
    "the processing cap is ignored": Wrong(
        changed(Member, "may_start_more", property(lambda self: not self.is_paused)),
        "classic",
        [own("acme", processing_cap=1), submit("acme", 2), ahead("anna", free=1)],
    ),
    "a pause is ignored": Wrong(
        changed(
            Member,
            "may_start_more",
            property(lambda self: self.cap is None or self.processing < self.cap),
        ),
        "fair",
        [PAUSE, submit("acme"), claim()],
    ),
    "the pending cap is ignored": Wrong(
        changed(SubmissionWriter, "_check", lambda self, customer, submission: None),
        "classic",
        [own("acme", pending_cap=3), submit("acme", 4)],
    ),
    "a late worker is believed": Wrong(
        changed_sql("take_running", "lease = ?", "? > 0"), "classic", [submit("acme"), COME_LATE]
    ),
    "a renewed lease ends": Wrong(
        changed_sql("renew_leases", "until = ?", "until = until + 0 * ?"),
        "classic",
        [submit("acme"), claim(), advance(20.0), RENEW, advance(11.0), claim()],
    ),
    "an expired lease goes on": Wrong(
        changed_sql("take_expired_leases", "until < ?", "until < ? - 1000"),
        "classic",
        [submit("acme"), COME_LATE],
    ),
    "a release costs an attempt": Wrong(
        without("attempts"), "classic", [submit("acme"), claim(), step("release", back=0)]
    ),
    "nobody is a suspect by a rescue": Wrong(
        without("suspect"), "classic", [submit("acme"), ahead("anna"), RESCUE, ahead("anna")]
    ),
    "suspects lie ready": Wrong(
        changed(claims, "_not_suspect", lambda loaded: lambda document: True),
        "classic",
        [submit("acme"), claim(), RESCUE, ahead("anna")],
    ),
    "urgent documents wait": Wrong(
        changed(Entry, "first_in_turn", best_is_first),
        "classic",
        [submit("acme", urgent=1), claim()],
    ),
    "urgent documents wait under fair": Wrong(
        changed_sql("insert_waiting", "(?, ?, ?, ?,", "(?, ?, max(?, 1), ?,"),
        "fair",
        [submit("acme", urgent=1), claim()],
    ),
    "a swap of slots is lost": Wrong(
        changed_sql("move_slot", "document = ?5", "document = -?5"),
        "classic",
        [submit("acme", 3, urgent=1), ahead("anna"), submit("globex"), *[claim()] * 2],
    ),
    "a retry takes its first slot": Wrong(
        changed_sql("take_retry_slot", "RETURNING slot,", "RETURNING NULL,"),
        "classic",
        [
            submit("acme"),
            submit("globex"),
            submit("acme", 0, urgent=1),
            claim(),
            step("cancel", back=0),
            step("retry", back=0),
            claim(),
        ],
    ),
    "a delayed document is never due": Wrong(
        changed_sql("due_documents", "due <= ?", "due <= ? - 1000"),
        "classic",
        [submit("acme"), claim(), finish("crashed"), advance(4.0), claim()],
    ),
    "a reset comes at the interval": Wrong(
        changed(ClassicPolicy, "is_reset", reset_at_the_interval),
        "classic",
        [submit("acme"), advance(10.0), submit("acme")],
    ),
    "an event is lost": Wrong(
        changed_sql("add_queue_event", "VALUES (?)", "SELECT ? WHERE FALSE"),
        "classic",
        [submit("acme")],
    ),
    "an event is folded twice": Wrong(
        changed_sql("delete_queue_events", "WHERE id IN", "WHERE -id IN"),
        "fair",
        [submit("acme"), claim(), claim()],
    ),
    "a tally is set instead of added": Wrong(
        changed_sql("save_tally", "queue_tallies.documents + ", ""),
        "classic",
        [submit("acme"), claim(), submit("acme"), claim()],
    ),
    "a cancelled document stays in Q": Wrong(
        cancelled_stays_in_q, "fair", [submit("acme", 4, look=1), step("cancel", back=0)]
    ),
    "the tag is not corrected": Wrong(
        tag_is_not_corrected,
        "fair",
        [
            submit("initech", look=2),
            claim(),
            finish(),
            submit("globex", 2, look=1),
            submit("initech", 3, look=2),
            ahead("bert", free=2),
            advance(31.0),
            claim(),
        ],
    ),
    "debts do not fade": Wrong(
        changed(FairClock, "fade", lambda self, share, now: None),
        "fair",
        [submit("acme"), claim(), finish("slow"), advance(10.0)],
    ),
    "the clock is not saved": Wrong(
        changed_sql("save_queue_state", "clock = ?", "clock = 0 * ?"),
        "fair",
        [
            submit("globex", 4, look=2),
            *[claim()] * 2,
            submit("globex", 0, urgent=1, look=1),
            claim(),
            submit("acme", 3, look=1),
            *[claim()] * 3,
        ],
    ),
    "a place is not saved": Wrong(
        changed_sql("save_entry", "rank = excluded.rank", "rank = queue_entries.rank"),
        "fair",
        [
            submit("acme", 3, look=2),
            *[claim()] * 2,
            submit("initech", 2, look=2),
            ahead("bert", free=2),
            ahead("bert"),
        ],
    ),
    "a quota is ignored": Wrong(
        changed(Quota, "is_open", lambda self, now: True),
        "classic",
        [
            step("set_quota", pipeline="default", limit=None, max_running=1),
            submit("acme", 2),
            *[claim()] * 2,
        ],
    ),
    "a worker gets documents of pipelines that it does not serve": Wrong(
        changed(claims, "_all_pipelines", lambda _of_requests: None),
        "classic",
        [
            submit("acme", pipeline="orders"),
            step("claim_of_some", worker="anna", free=1, served=["default"]),
        ],
    ),
    "a late worker keeps what its steps found": Wrong(
        changed_sql("save_interim", "lease = ?2", "?2 > 0"),
        "classic",
        [submit("acme"), COME_LATE, step("end_a_step", back=1)],
    ),
    "a retry forgets what steps found": Wrong(
        changed_sql("claimed_documents", "interim WHERE document", "interim WHERE -document"),
        "classic",
        [submit("acme"), *AGAIN, claim()],
    ),
    "claims that a step ended count as lost": Wrong(
        changed_sql("settled_claims", "document, settled", "document, 0"),
        "classic",
        [submit("acme"), *AGAIN, *AGAIN, claim(), RESCUE],
    ),
    "a policy is switched without its slots": Wrong(
        changed_sql("rewrite_slots", "slot_seq = document", "slot_seq = slot_seq"),
        "classic",
        [
            submit("acme", 3, urgent=2, look=1),
            claim(),
            step("switch", policy="fair"),
            ahead("bert", free=2),
        ],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_right_store_passes_the_history_that_finds_a_wrong_one(
    store_factory: StoreFactory, name: str
) -> None:
    replay(store_factory, WRONG[name].policy, WRONG[name].history)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_store_is_found_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutate, policy, history = WRONG[name]
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        replay(sqlite_store, policy, history)


@pytest.mark.faults
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_store_is_found_by_search(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutate, policy, _ = WRONG[name]
    mutate(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)):
        check_against_model(
            sqlite_store, policy, max_examples=600, stateful_step_count=50, shrink=False
        )
