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
from store_model import StoreModel
from storekit import CRASHED, DAMAGED, DONE, StoreFactory, fresh_store, new_document

from fairlead.errors import InvalidTransition, PendingCapReached
from fairlead.model.customers import CustomerRecord
from fairlead.model.documents import Claim, Delayed, Outcome, Saved, Sniff, Submission
from fairlead.model.pipelines import ClaimRequest, Pipeline
from fairlead.model.results import Interim, decode_interim
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName
from fairlead.policy.retry import RetryRule
from fairlead.policy.rules import Rules
from fairlead.storage import Store

RULES = Rules(
    unit=2.0,
    allowance=0.5,
    reset_interval=10.0,
    thresholds=(-1, -2, -4),
    lane=OverdueLane(after=5.0, share=3),
    retry=RetryRule(max_attempts=3, first_delay=2.0, longest_delay=3.0),
    lease=30.0,
    pipelines=(Pipeline("default"), Pipeline("invoices", ("read", "invoices:fields"))),
)
PIPELINES = ("default", "invoices", "orders")
STEPS = ("read", "invoices:fields", "invoices:export")
LOOKS = (Sniff("text"), Sniff("image"), Sniff("pdf", 100))
"""Of documents that cost little, a second, and more than that, before anything is learned."""
OUTCOMES: dict[str, Outcome] = {
    "done": DONE,
    "quick": DONE._replace(seconds=0.5),
    "slow": DONE._replace(seconds=5.0),
    "damaged": DAMAGED._replace(seconds=1.0),
    "crashed": CRASHED,
    "crashed late": CRASHED._replace(seconds=3.0),
}

customers = st.sampled_from(["acme", "globex", "initech", "umbrella"])
workers = st.sampled_from(["anna", "bert"])
outcomes = st.sampled_from(list(OUTCOMES))
recent = st.integers(0, 5)
mostly_none = [None] * 2  # a store in which hardly anything may run shows hardly anything
limits = {None: None, "30/min": 0.5, "1/s": 1.0}
"""Of a pipeline, as the settings and as the model have them."""
pipelines = st.sampled_from(PIPELINES)
some_pipelines = st.lists(pipelines, min_size=1, max_size=2, unique=True)
own_settings = {
    "account": st.sampled_from([None, "shared"]),
    "weight": st.sampled_from([0.5, 1.0, 2.0]),
    "processing_cap": st.sampled_from([*mostly_none, 1, 2]),
    "pending_cap": st.sampled_from([*mostly_none, 3, 6]),
    "reset_interval": st.sampled_from([None, 0.0, 30.0]),
    "thresholds": st.sampled_from([None, (0,), (-1, -3)]),
}


class StoreMachine(RuleBasedStateMachine):
    """Subclasses name the store and the policy with which it begins."""

    factory: ClassVar[StoreFactory]
    policy: ClassVar[PolicyName]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.fresh = self.stack.enter_context(fresh_store(type(self).factory, RULES))
        self.model = StoreModel(RULES)
        self.claims: list[Claim] = []
        self.switch(self.policy)

    def teardown(self) -> None:
        self.stack.close()

    @property
    def store(self) -> Store:
        return self.fresh.store

    @property
    def now(self) -> float:
        return self.fresh.clock.now

    # --- actions ---

    @rule(
        customer=customers,
        flags=st.lists(st.booleans(), min_size=1, max_size=6),
        look=st.integers(0, 2),
        pipeline=pipelines,
    )
    def submit(
        self, customer: str, flags: list[bool], look: int = 0, pipeline: str = "default"
    ) -> None:
        new = tuple(
            new_document(urgent=flag)._replace(look=LOOKS[look], pipeline=pipeline)
            for flag in flags
        )
        expected = self.model.has_room(customer, len(new))
        try:
            accepted = self.store.submit(Submission(customer, new))
        except PendingCapReached:
            assert not expected
        else:
            assert expected
            assert [document.id for document in accepted] == [document.id for document in new]
            for one in accepted:
                self.model.add(
                    *(customer, one.id, one.estimate, self.now),
                    urgent=one.urgent,
                    pipeline=pipeline,
                )

    @rule(worker=workers)
    def claim(self, worker: str) -> None:
        self.claim_ahead(worker, 1, 0)

    @rule(worker=workers, free=st.integers(1, 2), served=some_pipelines)
    def claim_of_some(self, worker: str, free: int, served: list[str]) -> None:
        """A worker that serves only some pipelines."""
        self.claim_ahead(worker, free, 0, served)

    @rule(worker=workers, free=st.integers(0, 2), ahead=st.integers(1, 4))
    def claim_ahead(
        self, worker: str, free: int, ahead: int, served: list[str] | None = None
    ) -> None:
        last = self.store.last_event()
        request = ClaimRequest([worker] * free, [worker] * ahead, served)
        claims, _ = self.store.claim_requests([request])
        claimed = [event for event in self.store.events(after=last) if event.kind == "claimed"]
        self.model.bring_back(self.now)
        expected = []
        for ready in [False] * free + [True] * ahead:
            claim = self.model.claim_next(worker, self.now, ready=ready, pipelines=served)
            if claim is None:
                break
            expected.append((claim.id, claim.is_suspect, claim.lane))
        lanes = {event.document: event.data.get("lane", False) for event in claimed}
        assert [(claim.id, claim.suspect, lanes[claim.id]) for claim in claims] == expected
        assert not {claim.fence for claim in claims} & {claim.fence for claim in self.claims}
        for claimed_one in claims:
            self.model.hold(claimed_one.id, claimed_one.fence, self.now)
            history = self.model.history(self.model.document(claimed_one.id))
            assert interim_of(claimed_one) == history.interim
        self.claims += claims

    @rule(times=st.integers(1, 4))
    def work_off_some(self, times: int) -> None:
        for _ in range(times):
            self.claim("anna")
            if self.claims:
                self.finish(0, "done")

    @rule(outcome=outcomes)
    def come_late(self, outcome: str) -> None:
        self.claim("slow")
        self.advance(RULES.lease + 1)
        self.claim("quick")
        if len(self.claims) > 1:
            self.finish(1, outcome)

    @precondition(lambda self: self.claims)
    @rule(back=recent, outcome=outcomes)
    def finish(self, back: int, outcome: str) -> None:
        claim = self.recent_claim(back)
        expected = self.model.settle(claim.id, claim.fence, OUTCOMES[outcome], self.now)
        assert (self.store.finish(claim, OUTCOMES[outcome]) is Saved.SAVED) == expected

    @precondition(lambda self: self.claims)
    @rule(back=recent)
    def end_a_step(self, back: int) -> None:
        """The next step follows in the same claim."""
        claim = self.recent_claim(back)
        before = interim_of(claim) or Interim(STEPS)
        interim = Interim(STEPS, min(before.done + 1, len(STEPS) - 1), settled=before.settled)
        expected = self.model.keep(claim.id, claim.fence, interim)
        assert (self.store.keep_interim([(claim, interim)]) == [Saved.SAVED]) == expected

    @precondition(lambda self: self.claims)
    @rule(back=recent, fails=st.booleans())
    def try_a_step_again(self, back: int, fails: bool) -> None:
        """A step failed, or is to be called again later."""
        claim = self.recent_claim(back)
        before = self.model.history(self.model.document(claim.id)).interim or Interim(STEPS, 1)
        attempts, settled = before.attempts + fails, before.settled + 1
        interim = replace(before, attempts=attempts, settled=settled)
        outcome = Delayed(4.0, interim, "step-failed" if fails else None, seconds=1.0)
        expected = self.model.settle(claim.id, claim.fence, outcome, self.now)
        assert (self.store.finish(claim, outcome) is Saved.SAVED) == expected

    @rule(
        pipeline=pipelines,
        limit=st.sampled_from([None, *limits]),
        max_running=st.sampled_from([*mostly_none, 1, 2]),
    )
    def set_quota(self, pipeline: str, limit: str | None, max_running: int | None) -> None:
        self.model.set_quota(pipeline, limits[limit], max_running)
        self.store.use_quotas([Pipeline(pipeline, limit=limit, max_running=max_running)])

    @precondition(lambda self: self.claims)
    @rule(back=recent)
    def release(self, back: int) -> None:
        claim = self.recent_claim(back)
        expected = self.model.release(claim.id, claim.fence, self.now)
        assert (self.store.release([claim]) == [Saved.SAVED]) == expected

    @precondition(lambda self: self.claims)
    @rule(back=recent)
    def renew(self, back: int) -> None:
        claim = self.recent_claim(back)
        expected = self.model.renew(claim.id, claim.fence, self.now)
        assert (self.store.renew([claim]) == []) == expected

    @rule(worker=workers)
    def rescue_from(self, worker: str) -> None:
        assert self.store.rescue_from(worker) == self.model.rescue_from(worker, self.now)

    @rule(seconds=st.sampled_from([2.0, 4.0, 10.0, 11.0, 31.0]))
    def advance(self, seconds: float) -> None:
        self.fresh.clock.advance(seconds)

    @precondition(lambda self: self.model.documents)
    @rule(back=st.integers(0, 30))
    def cancel(self, back: int) -> None:
        self.decide("cancel", back)

    @precondition(lambda self: self.model.documents)
    @rule(back=st.integers(0, 30))
    def retry(self, back: int) -> None:
        self.decide("retry", back)

    @precondition(lambda self: self.claims)
    @rule(back=recent)
    def cancel_and_retry(self, back: int) -> None:
        """Of all documents, a decision rarely meets one that was claimed lately."""
        id_ = self.recent_claim(back).id
        self.decide_on("cancel", id_)
        self.decide_on("retry", id_)

    @rule(customer=customers, paused=st.sampled_from([True, False, False]))
    def pause_or_resume(self, customer: str, paused: bool) -> None:
        self.store.add_customer(customer)
        self.model.set_paused(customer, self.now, paused=paused)
        if paused:
            self.store.pause(customer)
        else:
            self.store.resume(customer)

    @rule(customer=customers, changes=st.fixed_dictionaries({}, optional=own_settings))
    def set_customer(self, customer: str, changes: dict[str, Any]) -> None:
        self.store.add_customer(customer)
        self.model.set_customer(customer, changes, self.now)
        self.store.set_customer(customer, **changes)
        assert self.store.customer(customer).settings == self.model.settings_of(customer)

    @rule(customer=customers)
    def reset(self, customer: str) -> None:
        self.store.add_customer(customer)
        self.model.reset(customer, self.now)
        self.store.reset(customer)

    @rule(policy=st.sampled_from(["classic", "fair"]))
    def switch(self, policy: PolicyName) -> None:
        self.model.switch(policy, self.now)
        self.store.use_policy(policy)

    def recent_claim(self, back: int) -> Claim:
        return self.claims[-1 - back % len(self.claims)]

    def decide(self, action: str, back: int) -> None:
        self.decide_on(action, self.model.histories[-1 - back % len(self.model.histories)].id)

    def decide_on(self, action: str, id_: str) -> None:
        expected = getattr(self.model, f"{action}_document")(id_, self.now)
        try:
            getattr(self.store, action)(id_)
        except (InvalidTransition, PendingCapReached):
            assert not expected
        else:
            assert expected

    # --- invariants after each step ---

    @invariant()
    def documents_agree(self) -> None:
        stored = [
            (
                *(
                    document.id,
                    document.customer,
                    document.urgent,
                    document.state.value,
                    document.count,
                ),
                *(
                    document.priority,
                    document.attempts,
                    self.store.stored_document(document.id).retry_at,
                ),
                *(document.error, document.submitted_at, document.pipeline, document.step),
            )
            for document in self.store.documents(limit=10_000)
        ]
        model = self.model
        assert stored[::-1] == [
            (
                *(
                    history.id,
                    document.customer.name,
                    document.urgent,
                    model.state_of(document),
                    document.count,
                ),
                *(document.priority, history.attempts, model.retry_at(document), history.error),
                *(document.submitted_at, document.pipeline, model.step_of(document)),
            )
            for document, history in zip(model.documents, model.histories, strict=True)
        ]

    @invariant()
    def customers_agree(self) -> None:
        stored = {
            customer.name: (customer.waiting, customer.processing, self.count_of(customer))
            for customer in self.store.customers()
        }
        assert stored == {
            name: (
                len(self.model.documents_of(name, "waiting", "delayed")),
                len(self.model.documents_of(name, "processing")),
                self.expected_count(name),
            )
            for name in self.model.customers
        }

    def count_of(self, customer: CustomerRecord) -> int | None:
        """Under classic the count of the last submission, under fair that of the next."""
        if customer.standing is not None:
            return customer.standing.count
        return None if customer.counter is None else customer.counter.count

    def expected_count(self, name: str) -> int | None:
        if self.model.policy == "fair":
            return self.model.count_of_next(name, self.now)
        return self.model.customers[name].count

    @invariant()
    def the_whole_agrees(self) -> None:
        totals = self.store.totals()
        states = [self.model.state_of(document) for document in self.model.documents]
        assert totals == (
            *(states.count("waiting"), states.count("processing"), len(self.model.customers)),
        )
        assert self.store.is_idle() == self.model.is_idle()
        assert self.store.problems() == []

    @invariant()
    def held_claims_agree(self) -> None:
        lost = set(self.store.lost(self.claims))
        assert lost == {
            claim for claim in self.claims if not self.model.held_document(claim.id, claim.fence)
        }


def interim_of(claim: Claim) -> Interim | None:
    return None if claim.interim is None else decode_interim(claim.interim)


Step = tuple[str, dict[str, Any]]
"""A rule of the machine by its name, and its arguments."""


def replay(factory: StoreFactory, policy: PolicyName, history: Iterable[Step]) -> None:
    """Take the steps of one history; raises where the store and the model disagree."""
    machine = _machine_of(factory, policy)()
    try:
        for name, arguments in history:
            getattr(machine, name)(**arguments)
            machine.documents_agree()
            machine.customers_agree()
            machine.the_whole_agrees()
            machine.held_claims_agree()
    finally:
        machine.teardown()


def check_against_model(
    factory: StoreFactory, policy: PolicyName, *, shrink: bool = True, **changes: Any
) -> None:
    """Run random histories; raises where the store and the model disagree."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    machine = _machine_of(factory, policy)
    run_state_machine_as_test(machine, settings=settings(phases=phases, **changes))


def _machine_of(factory: StoreFactory, policy: PolicyName) -> type[StoreMachine]:
    names = {"factory": staticmethod(factory), "policy": policy}
    return type("Machine", (StoreMachine,), names)
