"""The fair rule in a store: it decides as the simulator does, and keeps its books."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storekit import (
    DONE,
    STORES,
    Clock,
    RulesInForce,
    StoreFactory,
    customers_of,
    house,
    must_claim,
    new_document,
    submit,
    submit_one,
    work_off,
)
from storekit import histories as number_of_histories

from fairlead.model.customers import CustomerSettings
from fairlead.model.documents import Document, EventKind, Failed, Sniff, Submission
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.retry import RetryRule
from fairlead.policy.rules import Rules
from fairlead.simulation.policies import SimulatedFair
from fairlead.simulation.trace import Arrival
from fairlead.storage import Store

WORKERS = 2
FAIR = Rules(
    policy="fair",
    unit=4.0,
    reset_interval=40.0,
    lane=OverdueLane(after=16.0, share=3),
    lease=1e9,
)
WEIGHTS = {"acme": 1.0, "globex": 2.0, "initech": 0.5}

SHAPES = ("short", "long", "text")
submissions = st.tuples(
    st.just("submit"), st.sampled_from(list(WEIGHTS)), st.integers(1, 5), st.sampled_from(SHAPES)
)
claims = st.just(("claim",))
ends = st.tuples(st.just("finish"), st.integers(0, 3), st.sampled_from([0.5, 1.0, 4.0, 16.0]))
pauses = st.tuples(st.just("advance"), st.sampled_from([0.25, 1.0, 8.0, 17.0, 64.0]))
histories = st.lists(st.one_of(submissions, claims, claims, ends, pauses), min_size=10, max_size=60)


@pytest.fixture
def rules() -> RulesInForce:
    return RulesInForce(FAIR)


def send(store: Store, customer: str, number: int = 1, shape: str = "text") -> list[Document]:
    documents = tuple(new_document()._replace(look=Sniff(shape)) for _ in range(number))
    return store.submit(Submission(customer, documents))


def teach(store: Store, shape: str, seconds: float) -> None:
    """Let the store learn what documents of a shape take."""
    send(store, "teacher", shape=shape)
    store.finish(must_claim(store), DONE._replace(seconds=seconds))


class Beside:
    """A store and the simulated policy, side by side."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.simulated = SimulatedFair(FAIR.fair(), WORKERS, FAIR.lane_of("fair"))
        self.documents: list[str] = []
        self.held: list[Any] = []
        store.attend("engine", WORKERS)

    def submit(self, customer: str, number: int, shape: str) -> None:
        if self.store.add_customer(customer):  # the simulation has no customers yet
            self.store.set_customer(customer, weight=WEIGHTS[customer])
        for document in send(self.store, customer, number, shape):
            arrival = Arrival(
                self.clock.now, customer, 1.0, WEIGHTS[customer], estimate=document.estimate
            )
            placed = self.simulated.accept(arrival, self.clock.now)
            assert (document.count, document.priority) == (placed.count, placed.priority)
            self.documents.append(document.id)

    def claim(self) -> None:
        claim, simulated = self.store.claim("worker"), self.simulated.claim(self.clock.now)
        assert (claim and claim.id) == (simulated and self.documents[simulated.document])
        if claim is not None and simulated is not None:
            told = self.store.events(after=self.store.last_event() - 1)[0]
            assert told.data.get("lane", False) == simulated.lane
            self.held.append((claim, simulated.document))

    def finish(self, which: int, seconds: float) -> None:
        if self.held:
            claim, arrival = self.held.pop(which % len(self.held))
            self.store.finish(claim, DONE._replace(seconds=seconds))
            self.simulated.finish(arrival, seconds, self.clock.now)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", STORES)
def test_a_store_decides_as_the_simulator_does(name: str) -> None:
    @settings(max_examples=number_of_histories(STORES[name], 100))
    @given(histories)
    def agree(history: list[tuple[Any, ...]]) -> None:
        with house(STORES[name], FAIR) as where:
            both = Beside(where.store, where.clock)
            for step, *values in history:
                getattr(both, step)(*values)
            for _ in range(len(both.documents)):
                both.claim()
                both.finish(0, 1.0)
            assert both.simulated.claim(both.clock.now) is None
            assert where.store.problems() == []

    agree()


# --- accounts and weights ---


def started(store: Store, number: int) -> list[str]:
    """The customers of the next so many claims."""
    return [must_claim(store).customer for _ in range(number)]


def test_work_is_shared_by_weight(store: Store) -> None:
    for name, weight in (("light", 1.0), ("heavy", 3.0)):
        store.add_customer(name, weight=weight)
        submit(store, name, 12)
    assert started(store, 12).count("heavy") == 9


def test_many_ids_of_one_account_win_nothing(store: Store) -> None:
    for number in range(10):
        store.add_customer(f"id {number}", account="sender")
        submit(store, f"id {number}", 4)
    submit(store, "honest", 4)
    assert started(store, 8).count("honest") == 4


def test_many_ids_without_an_account_win_a_lot(store: Store) -> None:
    """What the account is there for."""
    for number in range(10):
        submit(store, f"id {number}", 4)
    submit(store, "honest", 4)
    assert started(store, 10).count("honest") == 0


def test_one_weight_holds_for_the_whole_account(store: Store) -> None:
    for name in ("a", "b"):
        store.add_customer(name, account="both", weight=2.0)
    store.set_customer("a", account="both", weight=5.0)
    assert store.customer("b").settings.weight == 5.0


def test_a_customer_that_joins_an_account_takes_its_weight(store: Store) -> None:
    for name in ("a", "b"):
        store.add_customer(name)
    store.set_customer("a", account="both", weight=2.0)
    store.set_customer("b", account="both")
    assert store.customer("b").settings == CustomerSettings(account="both", weight=2.0)
    store.set_customer("b", account=None, weight=1.0)
    assert store.customer("b").settings.account is None
    assert store.customer("a").settings.weight == 2.0


def test_moving_a_customer_with_documents_keeps_all_numbers(store: Store) -> None:
    submit(store, "a", 3)
    submit(store, "b", 3)
    must_claim(store)
    store.set_customer("a", account="both", weight=3.0)
    store.set_customer("b", account="both", weight=3.0)
    assert store.problems() == []
    store.set_customer("a", account=None, weight=1.0)
    assert store.problems() == []
    assert len(work_off(store)) == 5


@pytest.mark.parametrize("account", ["new", "known"])
def test_a_customer_that_changes_its_account_keeps_its_order(store: Store, account: str) -> None:
    store.add_customer("other", account="known")
    submit_one(store, "other")
    early = submit(store, "acme", 5)
    store.set_customer("acme", account=account)
    late = submit_one(store, "acme")
    store.set_customer("acme", account=None)
    last = submit_one(store, "acme")
    own = [claim.id for claim in work_off(store) if claim.customer == "acme"]
    assert own == [*(each.id for each in early), late.id, last.id]


# --- costs ---


def test_what_was_measured_is_what_the_next_one_is_charged(store: Store) -> None:
    guessed = send(store, "acme", shape="novel")[0].estimate
    store.finish(must_claim(store), DONE._replace(seconds=12.0))
    assert send(store, "acme", shape="novel")[0].estimate == 12.0 != guessed
    assert send(store, "acme", shape="other thing")[0].estimate == guessed


def test_long_documents_pay_for_their_length(store: Store) -> None:
    teach(store, "long", 10.0)
    teach(store, "short", 1.0)
    send(store, "long", 5, shape="long")
    send(store, "short", 20, shape="short")
    assert started(store, 11).count("short") == 10


def test_work_that_took_less_than_estimated_is_given_back(store: Store) -> None:
    teach(store, "long", 16.0)
    send(store, "acme", shape="long")
    before = store.customer("acme").tags
    store.finish(must_claim(store), DONE._replace(seconds=4.0))
    after = store.customer("acme").tags
    assert before is not None
    assert after is not None
    assert after.finish == before.finish - 12.0


@pytest.mark.parametrize("end", ["cancelled", "cancelled at work", "failed"])
def test_a_document_is_charged_for_the_work_it_made(store: Store, clock: Clock, end: str) -> None:
    teach(store, "long", 16.0)
    submit(store, "somebody", 3)  # the clock shall not jump
    (document,) = send(store, "acme", shape="long")
    placed = store.customer("acme").tags
    assert placed is not None
    store.pause("somebody")
    if end == "cancelled":
        store.cancel(document.id)
        worked = 0.0
    else:
        claim = must_claim(store)
        assert claim.customer == "acme"
        clock.advance(2.0)
        worked = 2.0
        if end == "failed":
            store.finish(claim, Failed("damaged", "it is cut", seconds=worked))
        else:
            store.cancel(document.id)
    tags = store.customer("acme").tags
    assert tags is not None
    assert tags.finish == placed.finish - 16.0 + worked


def test_cancelling_wins_no_place_before_what_still_waits(store: Store) -> None:
    documents = submit(store, "acme", 6)
    store.cancel(documents[2].id)
    late = submit_one(store, "acme")
    assert [claim.id for claim in work_off(store)][-1] == late.id


def test_a_document_that_is_queued_again_pays_again(store: Store) -> None:
    teach(store, "long", 16.0)
    (document,) = send(store, "acme", shape="long")
    submit(store, "globex", 1)
    placed = store.customer("acme").tags
    store.cancel(document.id)
    assert store.customer("acme").tags != placed
    assert store.retry(document.id).policy == "fair/1"
    assert store.customer("acme").tags == placed


# --- pauses and caps ---


def test_a_pause_saves_up_no_credit(store: Store) -> None:
    submit(store, "paused", 20)
    store.pause("paused")
    submit(store, "busy", 40)
    started(store, 20)
    store.resume("paused")
    assert 4 <= started(store, 10).count("paused") <= 6


def test_a_cap_that_is_lifted_saves_up_no_credit(store: Store) -> None:
    submit(store, "capped", 20)
    store.set_customer("capped", processing_cap=1)
    submit(store, "busy", 40)
    assert started(store, 20).count("capped") == 1
    store.set_customer("capped", processing_cap=None)
    assert 4 <= started(store, 10).count("capped") <= 6


def test_a_paused_backlog_does_not_hold_newcomers_back(store: Store) -> None:
    submit(store, "paused", 20)
    store.pause("paused")
    submit_one(store, "newcomer")
    store.resume("paused")
    assert "newcomer" in started(store, 2)


def test_a_paused_backlog_does_not_drive_the_clock(store: Store) -> None:
    submit(store, "paused", 20)
    store.pause("paused")
    tags = store.customer("paused").tags
    assert tags is not None
    assert store.clock().value < tags.last


def test_what_is_sent_after_a_pause_comes_after_what_was_sent_before(store: Store) -> None:
    early = submit(store, "paused", 3)
    store.pause("paused")
    submit(store, "busy", 20)
    started(store, 10)
    store.resume("paused")
    late = submit_one(store, "paused")
    own = [claim.id for claim in work_off(store) if claim.customer == "paused"]
    assert own == [*(each.id for each in early), late.id]


def test_a_pause_costs_nothing_later(store: Store) -> None:
    submit(store, "paused", 2)
    store.pause("paused")
    submit(store, "busy", 60)
    started(store, 30)
    store.resume("paused")
    submit(store, "paused", 20)
    assert 8 <= started(store, 20).count("paused") <= 12


def test_a_lift_ends_with_the_policy(store: Store, rules: RulesInForce) -> None:
    submit(store, "paused", 2)
    store.pause("paused")
    submit(store, "busy", 60)
    started(store, 30)
    store.resume("paused")
    rules.change(policy="classic", lane=None)
    submit(store, "newcomer", 2)
    served = [each for each in started(store, 7) if each != "busy"]
    assert served == ["paused", "paused", "newcomer", "newcomer"]


def test_urgent_documents_go_first_and_nobody_else_is_affected(store: Store) -> None:
    submit(store, "acme", 3)
    submit(store, "globex", 3)
    urgent = submit_one(store, "acme", urgent=True)
    claims = work_off(store)
    assert next(claim.id for claim in claims if claim.customer == "acme") == urgent.id
    assert customers_of(claims)[:6].count("globex") == 3


def test_a_reset_lets_a_customer_start_at_the_clock(store: Store) -> None:
    submit(store, "somebody", 5)
    teach(store, "long", 64.0)
    send(store, "acme", 3, shape="long")
    work = [must_claim(store) for _ in range(3)]
    assert "acme" in customers_of(work)
    store.reset("acme")
    tags = store.customer("acme").tags
    assert tags is not None
    assert tags.finish <= store.clock().value + 3 * 64.0


# --- switching ---


CLASSIC = Rules(policy="classic", retry=RetryRule(max_attempts=1), lane=None)


def test_a_new_store_begins_with_classic(store_factory: StoreFactory) -> None:
    with house(store_factory) as where:
        assert where.store.policy() == "classic"
        assert submit_one(where.store, "acme").policy == "classic/1"


def test_switching_places_what_waits_anew_and_says_so(
    store: Store, rules: RulesInForce, caplog: pytest.LogCaptureFixture
) -> None:
    rules.change(policy="classic", lane=None)
    submit(store, "large", 30)
    submit(store, "small", 3)
    assert customers_of([must_claim(store) for _ in range(6)]) == ["large"] * 3 + ["small"] * 3
    submit(store, "small", 3)
    rules.change(policy="fair")
    assert sorted(started(store, 6)) == ["large"] * 3 + ["small"] * 3
    (told,) = [each for each in store.events() if each.kind is EventKind.POLICY_SWITCHED]
    assert told.customer is None
    assert told.data == {
        "before": "classic",
        "after": "fair",
        "documents": 36,
        "customers": 2,
        "moved": told.data["moved"],
    }
    assert told.data["moved"] > 20
    assert "the policy is now fair (was classic)" in caplog.text


def test_going_there_and_back_is_as_if_nothing_had_been(store: Store, rules: RulesInForce) -> None:
    rules.change(policy="classic", lane=None)
    store.add_customer("own", thresholds=(-1, -2))
    before = submit(store, "own", 9) + submit(store, "acme", 9, urgent=True)
    must_claim(store)
    rules.change(policy="fair")
    late = submit(store, "acme", 2)
    rules.change(policy="classic")
    submit_one(store, "trigger")
    for document in before:
        now = store.document(document.id)
        assert (now.count, now.priority, now.policy) == (
            document.count,
            document.priority,
            "classic/1",
        )
    assert [store.document(each.id).count for each in late] == [-9, -10]


def test_a_document_of_another_policy_that_is_queued_again_gets_a_place_of_this_one(
    store: Store, rules: RulesInForce
) -> None:
    document = submit_one(store, "acme")
    store.cancel(document.id)
    rules.change(policy="classic")
    assert store.retry(document.id).policy == "classic/1"
    store.cancel(document.id)
    rules.change(policy="fair")
    assert store.retry(document.id).policy == "fair/1"


def test_two_processes_with_different_settings_do_not_switch_to_and_fro(
    store_factory: StoreFactory, tmp_path: Any, clock: Clock
) -> None:
    first = store_factory(tmp_path, RulesInForce(FAIR), clock)
    second = store_factory(tmp_path, RulesInForce(CLASSIC), clock)
    third = store_factory(tmp_path, RulesInForce(), clock)
    for each in (first, second, third, first, second, third):
        submit_one(each, "acme")
    switched = [each for each in first.events() if each.kind is EventKind.POLICY_SWITCHED]
    assert [each.data["after"] for each in switched] == ["fair", "classic"]
    assert {each.policy() for each in (first, second, third)} == {"classic"}
    for each in (first, second, third):
        each.close()


def test_delayed_and_running_documents_are_placed_anew_as_well(
    store: Store, rules: RulesInForce, clock: Clock
) -> None:
    rules.change(policy="classic", lane=None)
    documents = submit(store, "acme", 4)
    running = must_claim(store)
    rules.change(policy="fair")
    submit_one(store, "globex")
    assert {store.document(each.id).policy for each in documents} == {"fair/1"}
    store.release([running])
    assert must_claim(store).id == running.id


# --- measured ---


def test_equal_service_has_an_index_of_one(store: Store, clock: Clock) -> None:
    store.attend("engine", 1)
    for name in ("a", "b"):
        submit(store, name, 20)
    for _ in range(10):
        claim = must_claim(store)
        clock.advance(2.0)
        store.finish(claim, DONE._replace(seconds=2.0))
    found = store.fairness()
    assert found.jain_index == pytest.approx(1.0)
    assert found.worst is not None
    assert found.worst.lag == pytest.approx(0.0)
    assert found.waiting_customers == 2
    assert found.workers == 1


def test_one_who_gets_nothing_shows_in_index_and_lag(
    store: Store, rules: RulesInForce, clock: Clock
) -> None:
    """First come, first served within one priority: classic lets the later one wait."""
    rules.change(policy="classic", lane=None)
    store.attend("engine", 1)
    rules.change(thresholds=(-100,))
    submit(store, "first", 20)
    submit(store, "second", 20)
    for _ in range(10):
        claim = must_claim(store)
        clock.advance(2.0)
        store.finish(claim, DONE._replace(seconds=2.0))
    found = store.fairness()
    assert found.jain_index == pytest.approx(0.5)
    assert found.worst is not None
    assert found.worst.name == "second"
    assert found.worst.lag == pytest.approx(10.0)
    assert found.most_overdue is not None
    assert found.most_overdue.customer == "second"
    assert found.most_overdue.seconds == pytest.approx(20.0)


def test_a_broken_bound_is_told_once(store: Store, rules: RulesInForce, clock: Clock) -> None:
    """The bound holds by the rule; a worker that never claims breaks it all the same."""
    store.attend("engine", 1)
    submit(store, "acme", 2)
    clock.advance(1000.0)
    store.attend("engine", 1)
    for _ in range(2):
        store.claim("worker")
    told = [each for each in store.events() if each.kind is EventKind.BOUND_BROKEN]
    assert [each.customer for each in told] == ["acme"]
    assert told[0].data["waited"] == 1000.0
    assert told[0].data["bound"] < 1000.0


def test_a_broken_bound_is_not_told_again_while_the_wait_lasts(
    store: Store, rules: RulesInForce, clock: Clock
) -> None:
    rules.change(lane=OverdueLane(after=16.0, share=1000))  # which is never open
    store.add_customer("heavy", weight=1000.0)
    submit(store, "heavy", 6)
    submit(store, "acme", 2)
    assert started(store, 2) == ["heavy", "acme"]
    clock.advance(5000.0)
    store.attend("engine", 1)
    assert started(store, 4) == ["heavy"] * 4
    told = [each for each in store.events() if each.kind is EventKind.BOUND_BROKEN]
    assert sorted(str(each.customer) for each in told) == ["acme", "heavy"]


def test_what_is_due_to_an_account_runs_from_its_own_wait_on(store: Store, clock: Clock) -> None:
    store.attend("engine", 1)
    submit(store, "early", 5)
    clock.advance(10.0)
    submit(store, "late", 5)
    due = {each.name: each.due for each in store.fairness().accounts}
    assert due == {"early": pytest.approx(10.0), "late": 0.0}
    clock.advance(10.0)
    due = {each.name: each.due for each in store.fairness().accounts}
    assert due == {"early": pytest.approx(15.0), "late": pytest.approx(5.0)}


def test_a_customer_that_was_paused_did_not_wait(store: Store, clock: Clock) -> None:
    store.attend("engine", 1)
    submit(store, "acme", 2)
    store.pause("acme")
    clock.advance(1000.0)
    store.resume("acme")
    store.claim("worker")
    assert not [each for each in store.events() if each.kind is EventKind.BOUND_BROKEN]


def test_engines_count_while_they_say_so(store: Store, rules: RulesInForce, clock: Clock) -> None:
    rules.change(lease=30.0)
    store.attend("one", 2)
    store.attend("two", 3)
    assert store.fairness().workers == 5
    store.leave("one")
    assert store.fairness().workers == 3
    clock.advance(31.0)
    assert store.fairness().workers == 0


def test_the_lane_has_its_share_of_the_work(store: Store, clock: Clock) -> None:
    store.attend("engine", 1)
    submit(store, "large", 40)
    submit(store, "small", 1)
    for _ in range(30):
        claim = must_claim(store)
        clock.advance(4.0)
        store.finish(claim, DONE._replace(seconds=4.0))
    share = store.fairness().lane_share
    assert share is not None
    assert 0 <= share <= 1 / 3
