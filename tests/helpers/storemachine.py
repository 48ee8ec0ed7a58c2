"""Random histories of a store beside the model; after every step they must agree."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, ClassVar

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace
from storekit import CRASHED, DAMAGED, DONE, StoreFactory, house, new_document
from storemodel import Model

from fairlead.errors import InvalidTransition, PendingCapReached
from fairlead.model.documents import Claim, Outcome, Saved, Submission
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.retry import RetryRule
from fairlead.policy.rules import Rules
from fairlead.storage import Store

RULES = Rules(
    reset_interval=10.0,
    thresholds=(-1, -2, -4),
    lane=OverdueLane(after=5.0, share=3),
    retry=RetryRule(max_attempts=3, first_delay=2.0, longest_delay=3.0),
    lease=30.0,
)

customers = st.sampled_from(["acme", "globex", "initech"])
workers = st.sampled_from(["anna", "bert"])
recent = st.integers(0, 5)
mostly_none = [None] * 2  # a store in which hardly anything may run shows hardly anything
own_settings = {
    "processing_cap": st.sampled_from([*mostly_none, 1, 2]),
    "pending_cap": st.sampled_from([*mostly_none, 3, 6]),
    "reset_interval": st.sampled_from([None, 0.0, 30.0]),
    "thresholds": st.sampled_from([None, (0,), (-1, -3)]),
}


class StoreMachine(RuleBasedStateMachine):
    """Subclasses name the store."""

    factory: ClassVar[StoreFactory]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.house = self.stack.enter_context(house(type(self).factory, RULES))
        self.model = Model(RULES)
        self.claims: list[Claim] = []

    def teardown(self) -> None:
        self.stack.close()

    @property
    def store(self) -> Store:
        return self.house.store

    @property
    def now(self) -> float:
        return self.house.clock.now

    # --- what may happen ---

    @rule(customer=customers, flags=st.lists(st.booleans(), min_size=1, max_size=6))
    def submit(self, customer: str, flags: list[bool]) -> None:
        new = tuple(new_document(urgent=flag) for flag in flags)
        is_new = customer not in self.model.customers
        expected = self.model.submit(customer, [(each.id, each.urgent) for each in new], self.now)
        try:
            accepted = self.store.submit(Submission(customer, new))
        except PendingCapReached:
            assert not expected
        else:
            assert expected
            assert [each.id for each in accepted] == [each.id for each in new]
        assert not (is_new and not expected)

    @rule(worker=workers)
    def claim(self, worker: str) -> None:
        self.claim_ahead(worker, 1, 0)

    @rule(worker=workers, free=st.integers(0, 2), ahead=st.integers(1, 4))
    def claim_ahead(self, worker: str, free: int, ahead: int) -> None:
        claims = self.store.claim_for([worker] * free, [worker] * ahead)
        expected = []
        for ready in [False] * free + [True] * ahead:
            claim = self.model.claim(worker, self.now, ready=ready)
            if claim is None:
                break
            expected.append(claim)
        assert [(each.id, each.fence, each.suspect) for each in claims] == expected
        self.claims += claims

    @rule(times=st.integers(1, 4))
    def work_off_some(self, times: int) -> None:
        for _ in range(times):
            self.claim("anna")
            if self.claims:
                self.finish(0, DONE)

    @rule(outcome=st.sampled_from([DONE, DAMAGED, CRASHED]))
    def come_late(self, outcome: Outcome) -> None:
        self.claim("slow")
        self.advance(RULES.lease + 1)
        self.claim("quick")
        if len(self.claims) > 1:
            self.finish(1, outcome)

    @precondition(lambda self: self.claims)
    @rule(back=recent, outcome=st.sampled_from([DONE, DONE, DAMAGED, CRASHED, CRASHED]))
    def finish(self, back: int, outcome: Outcome) -> None:
        claim = self.recent_claim(back)
        expected = self.model.finish(claim.id, claim.fence, outcome, self.now)
        assert (self.store.finish(claim, outcome) is Saved.SAVED) == expected

    @precondition(lambda self: self.claims)
    @rule(back=recent)
    def release(self, back: int) -> None:
        claim = self.recent_claim(back)
        expected = self.model.release(claim.id, claim.fence)
        assert (self.store.release([claim]) == [Saved.SAVED]) == expected

    @precondition(lambda self: self.claims)
    @rule(back=recent)
    def renew(self, back: int) -> None:
        claim = self.recent_claim(back)
        expected = self.model.renew(claim.id, claim.fence, self.now)
        assert (self.store.renew([claim]) == []) == expected

    @rule(worker=workers)
    def rescue_from(self, worker: str) -> None:
        assert self.store.rescue_from(worker) == self.model.rescue_from(worker)

    @rule(seconds=st.sampled_from([2.0, 4.0, 10.0, 11.0, 31.0]))
    def advance(self, seconds: float) -> None:
        self.house.clock.advance(seconds)

    @precondition(lambda self: self.model.documents)
    @rule(back=st.integers(0, 30))
    def cancel(self, back: int) -> None:
        self.decide("cancel", back)

    @precondition(lambda self: self.model.documents)
    @rule(back=st.integers(0, 30))
    def retry(self, back: int) -> None:
        self.decide("retry", back)

    @rule(customer=customers, paused=st.sampled_from([True, False, False]))
    def pause_or_resume(self, customer: str, paused: bool) -> None:
        self.store.add_customer(customer)
        self.model.customer(customer).paused = paused
        if paused:
            self.store.pause(customer)
        else:
            self.store.resume(customer)

    @rule(customer=customers, changes=st.fixed_dictionaries({}, optional=own_settings))
    def set_customer(self, customer: str, changes: dict[str, Any]) -> None:
        self.store.add_customer(customer)
        own = self.model.customer(customer)
        own.settings = replace(own.settings, **changes)
        self.store.set_customer(customer, **changes)
        assert self.store.customer(customer).settings == own.settings

    @rule(customer=customers)
    def reset(self, customer: str) -> None:
        self.store.add_customer(customer)
        self.model.customer(customer).count = None
        self.store.reset(customer)

    def recent_claim(self, back: int) -> Claim:
        return self.claims[-1 - back % len(self.claims)]

    def decide(self, what: str, back: int) -> None:
        id_ = self.model.documents[-1 - back % len(self.model.documents)].id
        expected = getattr(self.model, what)(id_)
        try:
            getattr(self.store, what)(id_)
        except (InvalidTransition, PendingCapReached):
            assert not expected
        else:
            assert expected

    # --- what must hold after each step ---

    @invariant()
    def documents_agree(self) -> None:
        kept = [
            (
                *(each.id, each.customer, each.urgent, each.state.value, each.count),
                *(each.priority, each.attempts, self.store.stored_document(each.id).retry_at),
                *(each.error, each.submitted_at),
            )
            for each in self.store.documents(limit=10_000)
        ]
        assert kept[::-1] == [
            (
                *(each.id, each.customer.name, each.urgent, each.state, each.count),
                *(each.priority, each.attempts, each.retry_at, each.error, each.submitted_at),
            )
            for each in self.model.documents
        ]

    @invariant()
    def customers_agree(self) -> None:
        kept = {
            each.name: (each.waiting, each.processing, each.counter and each.counter.count)
            for each in self.store.customers()
        }
        assert kept == {
            each.name: (len(each.having("waiting")), len(each.having("processing")), each.count)
            for each in self.model.customers.values()
        }

    @invariant()
    def the_whole_agrees(self) -> None:
        totals = self.store.totals()
        states = [each.state for each in self.model.documents]
        assert totals == (
            *(states.count("waiting"), states.count("processing"), len(self.model.customers)),
        )
        assert self.store.is_idle() == self.model.is_idle()
        assert self.store.problems() == []

    @invariant()
    def held_claims_agree(self) -> None:
        lost = set(self.store.lost(self.claims))
        assert lost == {each for each in self.claims if not self.model.held(each.id, each.fence)}


Step = tuple[str, dict[str, Any]]
"""A rule of the machine by its name, and its arguments."""


def replay(factory: StoreFactory, history: Iterable[Step]) -> None:
    """Take the steps of one history; raises where the store and the model disagree."""
    machine = _machine_of(factory)()
    try:
        for name, arguments in history:
            getattr(machine, name)(**arguments)
            machine.documents_agree()
            machine.customers_agree()
            machine.the_whole_agrees()
            machine.held_claims_agree()
    finally:
        machine.teardown()


def check_against_model(factory: StoreFactory, *, shrink: bool = True, **changes: Any) -> None:
    """Run random histories; raises where the store and the model disagree."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    run_state_machine_as_test(_machine_of(factory), settings=settings(phases=phases, **changes))


def _machine_of(factory: StoreFactory) -> type[StoreMachine]:
    return type("Machine", (StoreMachine,), {"factory": staticmethod(factory)})
