"""A store behind the interface of the queue model, so that a trace can be run on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from queue_model import DEFAULT_PIPELINE, Place, QueueSettings, Start
from storekit import CRASHED, DONE, StoreUnderTest, new_document
from trace_driver import TraceDriver

from fairlead.model.documents import Claim, EventKind, Sniff, Submission
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName
from fairlead.policy.rules import Rules
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import load_folded

LONGER_THAN_A_TRACE = 1e9


def rules_of(settings: QueueSettings) -> Rules:
    policy: PolicyName = "fair" if settings.policy == "fair" else "classic"
    return Rules(
        policy=policy,
        unit=settings.unit,
        allowance=settings.allowance,
        reset_interval=settings.interval,
        lane=OverdueLane(settings.lane_after, settings.share) if settings.share else None,
        lease=LONGER_THAN_A_TRACE,
    )


class StoreQueue:
    """Documents are numbered in the order of submission, as in the model."""

    def __init__(self, fresh: StoreUnderTest, estimates: Sequence[float] = ()) -> None:
        self.store, self.clock = fresh.store, fresh.clock
        self.rules = fresh.rules
        self.ids: list[str] = []
        self.numbers: dict[str, int] = {}
        self.claims: dict[int, Claim] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self._seed_costs(estimates)

    def _seed_costs(self, estimates: Sequence[float]) -> None:
        """Each document has its own shape, with these learned costs."""
        rows = [(str(number), "bytes", 0, 1, estimate) for number, estimate in enumerate(estimates)]

        def seed(connection: Connection) -> None:
            connection.executemany(sql("save_cost"), rows)

        self.store._writer.run(seed)

    def submit(
        self,
        customer: str,
        *,
        now: float,
        estimate: float = 6.0,
        urgent: bool = False,
        pipeline: str = DEFAULT_PIPELINE,
    ) -> tuple[int, int, int]:
        assert pipeline == DEFAULT_PIPELINE
        number = len(self.ids)
        new = new_document(urgent=urgent)._replace(look=Sniff(str(number)))
        self.clock.now = now
        (document,) = self.store.submit(Submission(customer, (new,)))
        assert document.estimate == estimate
        self.ids.append(document.id)
        self.numbers[document.id] = number
        return number, document.count, document.priority

    def claim(self, now: float, pipelines: Collection[str] | None = None) -> Start | None:
        assert pipelines is None
        return next(iter(self.claim_many(now, 1)), None)

    def claim_many(self, now: float, number: int) -> list[Start]:
        self.clock.now = now
        starts = []
        for claim in self.store.claim_for(["worker"] * number):
            document = self.numbers[claim.id]
            self.claims[document] = claim
            last = self.store.events_of(claim.id)[-1]
            assert last.kind is EventKind.CLAIMED
            starts.append(Start(document, claim.customer, bool(last.data.get("lane"))))
        return starts

    def finish(self, document: int, now: float, actual: float) -> None:
        self.clock.now = now
        self.store.finish(self.claims.pop(document), DONE._replace(seconds=actual))

    def lose(self, document: int, now: float) -> None:
        self.clock.now = now
        self.store.rescue_from(self.claims.pop(document).worker)

    def fail_attempt(
        self, document: int, now: float, actual: float, retry_at: float | None
    ) -> None:
        assert retry_at is not None
        self.clock.now = now
        self.store.finish(self.claims.pop(document), CRASHED._replace(seconds=actual))

    def cancel(self, document: int, now: float, actual_if_running: float = 0.0) -> bool:
        self.clock.now = now
        if not self.store.document(self.ids[document]).state.is_pending:
            return False
        self.store.cancel(self.ids[document])
        self.claims.pop(document, None)
        return True

    def due(self, now: float) -> list[int]:
        raise NotImplementedError("claims move what is due")

    def pause(self, customer: str, now: float) -> None:
        self._known(customer, now)
        self.store.pause(customer)

    def resume(self, customer: str, now: float) -> None:
        self._known(customer, now)
        self.store.resume(customer)

    def set_cap(self, customer: str, cap: int | None, now: float) -> None:
        self._set(customer, now, processing_cap=cap)

    def set_weight(self, account: str, weight: float, now: float) -> None:
        self._set(account, now, weight=weight)

    def set_account(self, customer: str, account: str | None, now: float) -> None:
        self._set(customer, now, account=account)

    def _set(self, customer: str, now: float, **changes: Any) -> None:
        usual: dict[str, Any] = {"processing_cap": None, "weight": 1.0, "account": None}
        before = self.settings.setdefault(customer, usual)
        if before | changes != before:
            self._known(customer, now)
            self.store.set_customer(customer, **changes)
            before.update(changes)

    def _known(self, customer: str, now: float) -> None:
        self.clock.now = now
        self.store.add_customer(customer)

    def reset(self, customer: str, now: float) -> None:
        self.clock.now = now
        self.store.reset(customer)

    def switch(self, policy: str, now: float) -> None:
        self.clock.now = now
        self.store.use_policy("fair" if policy == "fair" else "classic")

    def debt(self, account: str, now: float, customer: str | None = None) -> float:
        assert customer is None
        with self.store._reading(whole=True) as connection:
            member = connection.execute(sql("customer_id"), (account,)).get
            queue = load_folded(connection, self.rules(), {member}).queue
        share = queue.member(member).share
        queue.clock.fade(share, now)
        return share.debt

    def place(self, account: str, customer: str | None = None) -> Place | None:
        """Not used."""

    def next_opening(self, now: float) -> float | None:
        """There are no quotas."""


class GroupClaimDriver(TraceDriver):
    """All idle workers of an instant claim together."""

    queue: StoreQueue

    def claim(self, now: float) -> None:
        starts = self.queue.claim_many(now, self.idle) if self.idle else []
        for start in starts:
            document = start.document
            self.attempts[document] = self.attempts.get(document, 0) + 1
            self.started[document] = now
            self.ends[document] = now + self.event_of(document).seconds
            self.note(now, "start", name=start.customer, document=document, start=start)
