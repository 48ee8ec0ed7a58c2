"""A store written the plain way: lists and sorting, everything computed anew at each question.

It knows the settings of the rules and none of their code, so that both can be wrong only
separately.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.model.customers import CustomerSettings
from fairlead.model.documents import Broken, Done, Failed, Outcome
from fairlead.policy.rules import Rules

Place = tuple[int, int]


@dataclass
class ModelDocument:
    id: str
    number: int
    customer: ModelCustomer
    urgent: bool
    count: int
    priority: int
    submitted_at: float
    place: Place
    state: str = "waiting"
    attempts: int = 0
    fence: int = 0
    ready: bool = False
    lost_before: bool = False
    worker: str | None = None
    lease_until: float = 0.0
    retry_at: float | None = None
    error: str | None = None

    @property
    def is_queued(self) -> bool:
        return self.state == "waiting" and self.retry_at is None

    @property
    def is_suspect(self) -> bool:
        """Whether it was tried before, or may have been."""
        return self.attempts > 0 or self.lost_before

    @property
    def turn(self) -> tuple[bool, int, int]:
        """The order within a customer: urgent ones, then by priority, then by arrival."""
        return not self.urgent, self.priority, self.number


@dataclass
class ModelCustomer:
    name: str
    number: int
    count: int | None = None
    counted_at: float = 0.0
    settings: CustomerSettings = field(default_factory=CustomerSettings)
    paused: bool = False
    last_started_at: float = 0.0
    documents: list[ModelDocument] = field(default_factory=list)

    def having(self, state: str) -> list[ModelDocument]:
        return [each for each in self.documents if each.state == state]

    @property
    def queued(self) -> list[ModelDocument]:
        return [each for each in self.documents if each.is_queued]

    @property
    def pending(self) -> int:
        return len(self.having("waiting")) + len(self.having("processing"))

    @property
    def may_run(self) -> bool:
        cap = self.settings.processing_cap
        at_cap = cap is not None and len(self.having("processing")) >= cap
        return bool(self.queued) and not self.paused and not at_cap

    @property
    def waits_since(self) -> float:
        oldest = min(self.queued, key=lambda each: each.number)
        return max(self.last_started_at, oldest.submitted_at)


class Model:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.customers: dict[str, ModelCustomer] = {}
        self.documents: list[ModelDocument] = []
        self.credit = 0

    def submit(self, name: str, new: list[tuple[str, bool]], now: float) -> bool:
        """Whether it is accepted."""
        customer = self.customer(name)
        cap = customer.settings.pending_cap
        if cap is not None and customer.pending + len(new) > cap:
            return False
        for id_, urgent in new:
            self.check(customer, now)
            self.add(customer, id_, urgent, now)
        return True

    def customer(self, name: str) -> ModelCustomer:
        return self.customers.setdefault(name, ModelCustomer(name, len(self.customers)))

    def check(self, customer: ModelCustomer, now: float) -> None:
        interval = customer.settings.reset_interval
        interval = self.rules.reset_interval if interval is None else interval
        if customer.count is None or now > customer.counted_at + interval:
            customer.count = 0
        else:
            customer.count -= 1
        customer.counted_at = now

    def add(self, customer: ModelCustomer, id_: str, urgent: bool, now: float) -> None:
        assert customer.count is not None
        priority, number = 1, len(self.documents)
        for bound in customer.settings.thresholds or self.rules.thresholds:
            if customer.count < bound:
                priority += 1
        document = ModelDocument(
            *(id_, number, customer, urgent, customer.count, priority, now, (priority, number))
        )
        self.documents.append(document)
        customer.documents.append(document)

    def claim(
        self, worker: str, now: float, *, ready: bool = False
    ) -> tuple[str, int, bool] | None:
        """The document that goes next: its id, its fence, and whether it is a suspect.

        None: there is none, or it is a suspect and would lie ready.
        """
        self.bring_back(now)
        running = [each for each in self.customers.values() if each.may_run]
        if not running:
            return None
        credit = self.credit
        chosen = self.by_lane(running, now) or self.by_line(running)
        is_suspect = chosen.is_suspect
        if ready and is_suspect:
            self.credit = credit
            return None
        chosen.state, chosen.worker, chosen.ready = "processing", worker, ready
        chosen.attempts += 1
        chosen.fence += 1
        chosen.lease_until = now + self.rules.lease
        chosen.customer.last_started_at = now
        return chosen.id, chosen.fence, is_suspect

    def bring_back(self, now: float) -> None:
        for each in self.documents:
            if each.retry_at is not None and each.retry_at <= now:
                each.retry_at = None
            if each.state == "processing" and each.lease_until < now:
                self.lose(each)

    def lose(self, document: ModelDocument) -> None:
        """Its worker is gone."""
        document.state, document.lost_before = "waiting", True
        if document.ready:
            document.attempts -= 1
        elif document.attempts >= self.rules.retry.max_attempts:
            document.state, document.error = "failed", "worker-lost"

    def by_lane(self, running: list[ModelCustomer], now: float) -> ModelDocument | None:
        lane = self.rules.lane
        if lane is None or self.credit < lane.share - 1:
            return None
        overdue = [each for each in running if now > each.waits_since + lane.after]
        if not overdue:
            return None
        self.credit -= lane.share - 1
        customer = min(overdue, key=lambda each: (each.waits_since, each.number))
        return min(customer.queued, key=lambda each: each.place[1])

    def by_line(self, running: list[ModelCustomer]) -> ModelDocument:
        if self.rules.lane is not None:
            self.credit = min(self.rules.lane.share - 1, self.credit + 1)
        best = min((each for one in running for each in one.queued), key=lambda each: each.place)
        chosen = min(best.customer.queued, key=lambda each: each.turn)
        best.place, chosen.place = chosen.place, best.place
        return chosen

    def held(self, id_: str, fence: int) -> ModelDocument | None:
        document = self.document(id_)
        is_held = document.state == "processing" and document.fence == fence
        return document if is_held else None

    def finish(self, id_: str, fence: int, outcome: Outcome, now: float) -> bool:
        """Whether it is saved."""
        document = self.held(id_, fence)
        if document is None:
            return False
        match outcome:
            case Done():
                document.state, document.error = "done", None
            case Failed(code, _, _):
                document.state, document.error = "failed", code
            case Broken(code, _):
                self.break_off(document, code, now)
        return True

    def break_off(self, document: ModelDocument, code: str, now: float) -> None:
        retry = self.rules.retry
        document.state, document.error = "failed", code
        if document.attempts < retry.max_attempts:
            document.state = "waiting"
            delays = [retry.first_delay * 2**number for number in range(document.attempts)]
            document.retry_at = now + min(retry.longest_delay, delays[-1])

    def release(self, id_: str, fence: int) -> bool:
        document = self.held(id_, fence)
        if document is None:
            return False
        document.state = "waiting"
        document.attempts -= 1
        return True

    def renew(self, id_: str, fence: int, now: float) -> bool:
        document = self.held(id_, fence)
        if document is not None:
            document.lease_until = now + self.rules.lease
        return document is not None

    def rescue_from(self, worker: str) -> int:
        held = [
            each for each in self.documents if each.state == "processing" and each.worker == worker
        ]
        for each in held:
            self.lose(each)
        return len(held)

    def cancel(self, id_: str) -> bool:
        """Whether that is possible."""
        document = self.document(id_)
        if document.state in ("done", "failed"):
            return False
        document.state, document.retry_at = "cancelled", None
        return True

    def retry(self, id_: str) -> bool:
        """Whether that is possible."""
        document = self.document(id_)
        if document.state in ("waiting", "processing"):
            return True
        cap = document.customer.settings.pending_cap
        if document.state == "done" or (cap is not None and document.customer.pending >= cap):
            return False
        document.state, document.attempts, document.error = "waiting", 0, None
        document.lost_before = False
        return True

    def document(self, id_: str) -> ModelDocument:
        return next(each for each in self.documents if each.id == id_)

    def is_idle(self) -> bool:
        return not any(
            each.may_run
            or each.having("processing")
            or (not each.paused and any(one.retry_at is not None for one in each.documents))
            for each in self.customers.values()
        )
