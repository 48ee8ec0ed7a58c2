"""A store written the plain way, over `QueueModel`: attempts, leases, fences, retries, caps.

It knows the settings of the rules and none of their code, so that both can be wrong only
separately. Estimates are told by the store: learned costs have tests of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace
from queue_model import Document, PipelineSettings, QueueModel, QueueSettings

from fairlead.model.customers import CustomerSettings
from fairlead.model.documents import Broken, Delayed, Done, Failed, Outcome
from fairlead.model.results import Interim
from fairlead.policy.rules import Rules


@dataclass
class History:
    """What the store knows of a document beyond its place in the queue."""

    id: str
    attempts: int = 0
    fence: int | None = None
    worker: str = ""
    ready: bool = False
    lost_before: bool = False
    started_at: float = 0.0
    error: str | None = None
    end: str = ""
    """done, failed or cancelled, once its state is `ended`."""
    interim: Interim | None = None
    """What its finished steps found; none once it has ended."""

    @property
    def lost(self) -> int:
        """How many claims did not end by a step's decision."""
        return self.attempts - (0 if self.interim is None else self.interim.settled)

    @property
    def is_suspect(self) -> bool:
        """Whether it was tried before, or may have been."""
        return self.attempts > 0 or self.lost_before


@dataclass(frozen=True)
class ModelClaim:
    id: str
    is_suspect: bool
    lane: bool


@dataclass
class Lease:
    worker: str
    until: float


class StoreModel(QueueModel):
    """Times are given. Documents are named by their ids."""

    def __init__(self, rules: Rules) -> None:
        lane = rules.lane
        super().__init__(
            QueueSettings(
                policy=rules.policy or "classic",
                unit=rules.unit,
                allowance=rules.allowance,
                interval=rules.reset_interval,
                overdue_after=0.0 if lane is None else lane.after,
                share=0 if lane is None else lane.share,
                thresholds=rules.thresholds,
                pipelines={},
            )
        )
        self.rules = rules
        self.histories: list[History] = []
        """Of each document, by its number."""
        self.leases: dict[int, Lease] = {}
        self.own_settings: dict[str, CustomerSettings] = {}

    # Customers.

    def settings_of(self, name: str) -> CustomerSettings:
        """As they are shown: the weight is that of the account."""
        own = self.own_settings.get(name, CustomerSettings())
        account = self.account_of(self.customer(name))
        return replace(own, weight=self.weights.get(account, 1.0))

    def set_customer(self, name: str, changes: dict[str, Any], now: float) -> None:
        """A customer that joins an account without a weight takes the account's weight."""
        before = self.settings_of(name)
        after = replace(before, **changes)
        account = after.account
        weight = after.weight
        if account in self.weights and weight == before.weight:
            weight = self.weights[account]
        self.own_settings[name] = replace(after, weight=1.0)
        customer = self.customer(name)
        self.set_interval(name, after.reset_interval, now)
        customer.thresholds = after.thresholds
        self.bring_to(customer, now)
        customer.cap = after.processing_cap
        self.weights[account or name] = weight
        self.set_account(name, account, now)
        self.enter_or_leave(customer, now)

    def documents_of(self, name: str, *states: str) -> list[Document]:
        return [
            document
            for document in self.documents
            if document.customer.name == name and document.state in states
        ]

    def pending(self, name: str) -> int:
        return len(self.documents_of(name, "waiting", "delayed", "processing"))

    def has_room(self, name: str, documents: int) -> bool:
        cap = self.settings_of(name).pending_cap
        return cap is None or self.pending(name) + documents <= cap

    # Claims.

    def add(
        self, name: str, id_: str, estimate: float, now: float, *, urgent: bool, pipeline: str
    ) -> None:
        self.submit(name, now=now, estimate=estimate, urgent=urgent, pipeline=pipeline)
        self.histories.append(History(id_))

    def set_quota(self, name: str, limit: float | None, max_running: int | None) -> None:
        """Another quota begins with a full bucket."""
        quota = PipelineSettings(max_running, limit)
        if quota != self.pipeline(name):
            self.quotas[name] = quota
            self.tokens.pop(name, None)

    @property
    def quotas(self) -> dict[str, PipelineSettings]:
        assert isinstance(self.settings.pipelines, dict)
        return self.settings.pipelines

    def bring_back(self, now: float) -> None:
        """What a claim does first: expired leases, then delayed documents."""
        expired = [fence for fence, lease in self.leases.items() if lease.until < now]
        self.lose_leases(expired, now)
        self.due(now)

    def lose_leases(self, fences: list[int], now: float) -> int:
        for fence in fences:
            del self.leases[fence]
        lost = [document for document in self.documents if self.history(document).fence in fences]
        for document in lost:
            self.lose_worker(document, now)
        return len(lost)

    def lose_worker(self, document: Document, now: float) -> None:
        """Its worker is gone."""
        history = self.history(document)
        history.fence = None
        history.lost_before = True
        if history.ready:
            history.attempts -= 1
        elif history.lost >= self.rules.retry.max_attempts:
            self.finish(document.number, now, 0.0)
            history.end, history.error, history.interim = "failed", "worker-lost", None
            return
        self.lose(document.number, now)

    def claim_next(
        self,
        worker: str,
        now: float,
        *,
        ready: bool = False,
        pipelines: Collection[str] | None = None,
    ) -> ModelClaim | None:
        """The document that goes next; None: there is none, or it would lie ready as a suspect.

        The caller tells the fence by `hold`.
        """

        def may_start(document: Document) -> bool:
            return not (ready and self.history(document).is_suspect)

        start = self.claim(now, pipelines, may_start)
        if start is None:
            return None
        history = self.histories[start.document]
        claim = ModelClaim(history.id, history.is_suspect, start.lane)
        history.worker, history.ready, history.started_at = worker, ready, now
        history.attempts += 1
        return claim

    def hold(self, id_: str, fence: int, now: float) -> None:
        """The store gave this fence to a claim, which is that of the lease."""
        history = self.history(self.document(id_))
        history.fence = fence
        self.leases[fence] = Lease(history.worker, now + self.rules.lease)

    def held_document(self, id_: str, fence: int) -> Document | None:
        document = self.document(id_)
        is_held = document.state == "processing" and self.history(document).fence == fence
        return document if is_held else None

    def renew(self, id_: str, fence: int, now: float) -> bool:
        """Whether the claim is held; all claims of its lease are renewed."""
        if fence in self.leases:
            self.leases[fence].until = now + self.rules.lease
        return self.held_document(id_, fence) is not None

    def rescue_from(self, worker: str, now: float) -> int:
        own = [fence for fence, lease in self.leases.items() if lease.worker == worker]
        return self.lose_leases(own, now)

    # Ends.

    def settle(self, id_: str, fence: int, outcome: Outcome, now: float) -> bool:
        """Whether it is saved."""
        document = self.held_document(id_, fence)
        if document is None:
            return False
        history = self.history(document)
        history.fence = None
        match outcome:
            case Done():
                self.finish(document.number, now, outcome.seconds)
                history.end, history.error, history.interim = "done", None, None
            case Failed():
                self.finish(document.number, now, outcome.seconds)
                history.end, history.error, history.interim = "failed", outcome.code, None
            case Broken():
                self.break_off(document, outcome, now)
            case Delayed():
                history.error, history.interim = outcome.code, outcome.interim
                self.fail_attempt(document.number, now, outcome.seconds, now + outcome.delay)
        return True

    def keep(self, id_: str, fence: int, interim: Interim) -> bool:
        """Whether what the steps of a claim found is kept."""
        document = self.held_document(id_, fence)
        if document is None:
            return False
        self.history(document).interim = interim
        return True

    def break_off(self, document: Document, broken: Broken, now: float) -> None:
        retry, history = self.rules.retry, self.history(document)
        history.error = broken.code
        due = None
        if history.attempts < retry.max_attempts:
            delays = [retry.first_delay * 2**number for number in range(history.attempts)]
            due = now + min(retry.longest_delay, delays[-1])
        else:
            history.end, history.interim = "failed", None
        self.fail_attempt(document.number, now, broken.seconds, due)

    def release(self, id_: str, fence: int, now: float) -> bool:
        document = self.held_document(id_, fence)
        if document is None:
            return False
        history = self.history(document)
        history.fence = None
        history.attempts -= 1
        self.lose(document.number, now)
        return True

    def cancel_document(self, id_: str, now: float) -> bool:
        """Whether that is possible."""
        document = self.document(id_)
        history = self.history(document)
        if history.end in ("done", "failed"):
            return False
        if not history.end:
            used = now - history.started_at
            self.cancel(document.number, now, used)
            history.end, history.fence, history.interim = "cancelled", None, None
        return True

    def retry_document(self, id_: str, now: float) -> bool:
        """Whether that is possible."""
        document = self.document(id_)
        history = self.history(document)
        if not history.end:
            return True
        if not self.has_room(document.customer.name, 1):
            return False
        history.end, history.attempts, history.error = "", 0, None
        history.lost_before = False
        self.wait_again(document, now)
        return True

    # What can be read.

    def history(self, document: Document) -> History:
        return self.histories[document.number]

    def document(self, id_: str) -> Document:
        return next(document for document in self.documents if self.history(document).id == id_)

    def state_of(self, document: Document) -> str:
        """As it is shown."""
        if document.state == "ended":
            return self.history(document).end
        return "waiting" if document.state == "delayed" else document.state

    def step_of(self, document: Document) -> str | None:
        """The step that runs, or that failed last; of a document that has ended, none is known."""
        history = self.history(document)
        if document.state == "ended":
            return None
        if history.interim is not None:
            return history.interim.step
        has_begun = document.state == "processing" or history.error is not None
        return self.rules.first_step(document.pipeline) if has_begun else None

    def retry_at(self, document: Document) -> float | None:
        return document.retry_at if document.state == "delayed" else None

    def is_idle(self) -> bool:
        """Whether nothing runs, and nothing will run without an operator."""
        return not any(
            document.state == "processing"
            or (document.state in ("waiting", "delayed") and not document.customer.paused)
            for document in self.documents
        )
