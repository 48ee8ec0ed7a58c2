"""The queue of `fairlead.policy`, wholly in memory, behind the interface of the queue model."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

from msgspec.structs import replace
from queue_model import DEFAULT_PIPELINE, Place, QueueSettings, Start

from fairlead.model.customers import Counter
from fairlead.policy import queue
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.fair import FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue_entry import Member, QueuedDocument
from fairlead.policy.queue_events import Ended, MemberChanged, Reset
from fairlead.policy.quotas import Quota


class PolicyQueue:
    """Numbers stand for names: customers get positive ones, shared accounts negative ones."""

    def __init__(self, settings: QueueSettings) -> None:
        self.classic = ClassicPolicy(settings.interval, settings.thresholds)
        rule = FairRule(settings.unit, settings.allowance, settings.interval, settings.thresholds)
        lane = OverdueLane(settings.lane_after, settings.share) if settings.share else None
        quotas = {
            name: Quota(pipeline.limit, pipeline.max_running)
            for name, pipeline in settings.pipelines.items()
        }
        policy: Any = settings.policy
        self.queue = queue.Queue(rule, lane, queue.QueueState(policy, quotas=quotas))
        self.rule = rule
        self._customers: dict[str, int] = {}
        self._accounts: dict[str, int] = {}
        self._settings: dict[int, MemberChanged] = {}
        self._counters: dict[int, Counter] = {}
        self._documents: list[QueuedDocument] = []
        self._priorities: list[int] = []
        self._running: dict[int, queue.Start] = {}
        self._delayed: dict[int, float] = {}
        self._numbers = count(1)

    # --- documents ---

    def submit(
        self,
        customer: str,
        *,
        now: float,
        estimate: float = 6.0,
        urgent: bool = False,
        pipeline: str = DEFAULT_PIPELINE,
    ) -> tuple[int, int, int]:
        member, number = self._customer(customer), len(self._documents)
        if self.queue.is_fair:
            shown = self.queue.count(member, now)
            priority = self.rule.priority_of(shown)
            slot = (0 if urgent else 1), number
        else:
            check = self.classic.check(self._counters.get(member), now=now)
            self._counters[member] = check.counter
            shown, priority = check.count, check.priority
            slot = priority, number
        document = QueuedDocument(
            number,
            member,
            slot,
            priority=priority,
            urgent=urgent,
            estimate=estimate,
            submitted_at=now,
            pipeline=pipeline,
        )
        self._documents.append(document)
        self.queue.push(document, now)
        return number, shown, priority

    def claim(self, now: float, pipelines: Collection[str] | None = None) -> Start | None:
        chosen = self.queue.choose(1, now, None if pipelines is None else list(pipelines))
        if not chosen:
            return None
        (start,) = chosen
        self._running[start.document.number] = start
        name = next(name for name, id_ in self._customers.items() if id_ == start.customer)
        charge = start.charge
        values = (start.document.number, name, start.through_lane)
        if charge is None:
            return Start(*values)
        return Start(*values, charge.seconds, "tag" if charge.to_tag else "debt")

    def finish(self, document: int, now: float, actual: float) -> None:
        self._end(document, now, actual)

    def lose(self, document: int, now: float) -> None:
        self._end(document, now, 0.0)
        self._wait(document, now)

    def fail_attempt(
        self, document: int, now: float, actual: float, retry_at: float | None
    ) -> None:
        self._end(document, now, actual)
        if retry_at is not None:
            self._delayed[document] = retry_at

    def cancel(self, document: int, now: float, actual_if_running: float = 0.0) -> bool:
        if document in self._running:
            self._end(document, now, actual_if_running)
        elif document in self._delayed:
            del self._delayed[document]
        elif self._documents[document].is_waiting:
            self.queue.drop(self._documents[document], now)
        else:
            return False
        return True

    def due(self, now: float) -> list[int]:
        due = sorted((at, document) for document, at in self._delayed.items() if at <= now)
        for _, document in due:
            del self._delayed[document]
            self._wait(document, now)
        return [document for _, document in due]

    def _wait(self, document: int, now: float) -> None:
        waiting = self._documents[document]
        waiting.is_waiting = True
        self.queue.push(waiting, now)

    def _end(self, document: int, now: float, actual: float) -> None:
        start = self._running.pop(document)
        charge, inner = (
            None if charged is None else (charged.seconds, charged.weight, charged.to_tag)
            for charged in (start.charge, start.inner)
        )
        place = (start.customer, start.document.pipeline)
        self.queue.fold([Ended(now, *place, actual, start.payer, charge, inner)])

    # --- customers and accounts ---

    def pause(self, customer: str, now: float) -> None:
        self._change(self._customer(customer), now, is_paused=True)

    def resume(self, customer: str, now: float) -> None:
        self._change(self._customer(customer), now, is_paused=False)

    def set_cap(self, customer: str, cap: int | None, now: float) -> None:
        self._change(self._customer(customer), now, cap=cap)

    def set_weight(self, account: str, weight: float, now: float) -> None:
        if account in self._accounts:
            shared = self._accounts[account]
            for member, settings in self._settings.items():
                if settings.account == shared:
                    self._change(member, now, weight=weight)
        else:
            self._change(self._customer(account), now, weight=weight)

    def set_account(self, customer: str, account: str | None, now: float) -> None:
        shared = None
        weight = 1.0
        if account is not None:
            shared = self._accounts.setdefault(account, -1 - len(self._accounts))
            if shared in self.queue.members:
                weight = self.queue.members[shared].share.weight
        self._change(self._customer(customer), now, account=shared, weight=weight)

    def reset(self, customer: str, now: float) -> None:
        self._counters.pop(self._customer(customer), None)
        self.queue.fold([Reset(now, self._customer(customer))])

    def switch(self, policy: str, now: float) -> None:
        raise NotImplementedError("a store switches the policy, with all its rows")

    def _customer(self, name: str) -> int:
        if name not in self._customers:
            self._customers[name] = next(self._numbers)
        return self._customers[name]

    def _change(self, member: int, now: float, **changes: Any) -> None:
        before = self._settings.get(member, MemberChanged(now, member))
        self._settings[member] = replace(before, at=now, **changes)
        self.queue.fold([self._settings[member]])

    # --- what it shows ---

    def debt(self, account: str, now: float, customer: str | None = None) -> float:
        member = self._member(account, customer)
        clock = self.queue.clock
        if member.account is not None:
            clock = self.queue.members[member.account].inner_clock or clock
        clock.fade(member.share, now)
        return member.share.debt

    def place(self, account: str, customer: str | None = None) -> Place | None:
        member = self._member(account, customer)
        return member.share.place

    def _member(self, account: str, customer: str | None) -> Member:
        if customer is not None:
            return self.queue.member(self._customer(customer))
        if account in self._accounts:
            return self.queue.member(self._accounts[account])
        return self.queue.member(self._customer(account))

    def next_opening(self, now: float) -> float | None:
        waiting = {document.pipeline for document in self._documents if document.is_waiting}
        opens = [
            quota.opens_at(now)
            for name, quota in self.queue.state.quotas.items()
            if name in waiting and quota.rate is not None and not quota.is_open(now)
        ]
        return min(opens, default=None)
