"""One of several processes that use a store in every way at once, for `seconds`.

    busy_store_process.py KIND FOLDER POLICY PROCESS SECONDS BASE

It prints `ready`, waits for a line, and works. Ids of documents that were accepted are appended to
FOLDER/accepted-PROCESS, right after the store said so: they survive a kill.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from committed_history import ProcessClock, record
from queue_model import PipelineSettings, QueueSettings
from storekit import CRASHED, DAMAGED, DONE, STORES, RulesInForce

from fairlead.errors import InvalidTransition, PendingCapReached
from fairlead.model.documents import Claim, NewDocument, Sniff, Submission
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName
from fairlead.policy.retry import RetryRule
from fairlead.policy.rules import Rules
from fairlead.storage import Store

CUSTOMERS = tuple(f"customer {number}" for number in range(8))
BURST = "burst"
"""Its count is never reset."""
SHARED = CUSTOMERS[:3]
"""They share an account."""
PENDING_CAP = 40
MOST_WAITING = 40
"""A process claims instead of submitting once this many of its documents are unclaimed."""
PIPELINES = {
    "default": PipelineSettings(max_running=24),
    "slow": PipelineSettings(max_running=4, limit=60.0),
}
SETTINGS = {
    "classic": QueueSettings(
        policy="classic", interval=0.4, overdue_after=0.3, share=4, pipelines=PIPELINES
    ),
    "fair": QueueSettings(
        policy="fair",
        allowance=6.0,
        interval=2.0,
        overdue_after=0.3,
        share=4,
        pipelines=PIPELINES,
    ),
}


def rules_of(policy: str) -> RulesInForce:
    settings = SETTINGS[policy]
    name: PolicyName = "fair" if policy == "fair" else "classic"
    return RulesInForce(
        Rules(
            policy=name,
            unit=settings.unit,
            allowance=settings.allowance,
            reset_interval=settings.interval,
            lane=OverdueLane(settings.lane_after, settings.share),
            retry=RetryRule(max_attempts=3, first_delay=0.02, longest_delay=0.1),
            lease=0.4,
        )
    )


def open_store(kind: str, folder: Path, policy: str, clock: ProcessClock) -> Store:
    factory: Any = STORES[kind]
    store: Store = factory(folder, rules_of(policy), clock)
    return store


class Worker:
    def __init__(self, store: Store, process: int, accepted: int) -> None:
        self.store, self.process, self.accepted = store, process, accepted
        self.name = f"worker {process}"
        self.random = random.Random(process)
        self.claims: list[Claim] = []
        self.known: list[str] = []
        self.numbers = self.backlog = 0
        self.done: Counter[str] = Counter()
        self.actions: dict[Callable[[], None], int] = {
            self.submit: 30,
            self.submit_urgent: 6,
            self.submit_burst: 12,
            self.submit_for_many: 4,
            self.claim: 50,
            self.finish: 40,
            self.renew: 12,
            self.release: 3,
            self.forget: 1,
            self.cancel: 4,
            self.retry: 4,
            self.pause: 2,
            self.resume: 6,
            self.set_cap: 3,
            self.set_weight: 2,
            self.reset: 1,
        }

    def work(self) -> None:
        weights = list(self.actions.values())
        (action,) = self.random.choices(list(self.actions), weights)
        action()
        self.done[action.__name__] += 1

    def customer(self) -> str:
        return self.random.choice(CUSTOMERS)

    def submission(self, customer: str, number: int, *, urgent: bool = False) -> Submission:
        documents, pipeline = [], self.random.choice(["default"] * 4 + ["slow"])
        for _ in range(number):
            self.numbers += 1
            id_ = f"{self.process:03d}{self.numbers:023d}"
            look = Sniff("pdf", self.random.choice([1, 2, 5, 12]))
            new = NewDocument(id_, f"{id_}.pdf", 10, "0" * 64, urgent, look, pipeline=pipeline)
            documents.append(new)
        return Submission(customer, tuple(documents))

    def accept(self, *submissions: Submission) -> None:
        if self.backlog > MOST_WAITING:
            self.claim()
            return
        ids = []
        for outcome in self.store.submit_each(submissions):
            if isinstance(outcome, PendingCapReached):
                self.done["refused"] += 1
            elif isinstance(outcome, Exception):
                raise outcome
            else:
                ids += [document.id for document in outcome]
        self.backlog += len(ids)
        os.write(self.accepted, "".join(f"{id_}\n" for id_ in ids).encode())
        self.known = (self.known + ids)[-60:]

    def submit(self) -> None:
        self.accept(self.submission(self.customer(), self.random.randint(1, 5)))

    def submit_urgent(self) -> None:
        self.accept(self.submission(self.customer(), self.random.randint(1, 2), urgent=True))

    def submit_burst(self) -> None:
        self.accept(self.submission(BURST, 1))

    def submit_for_many(self) -> None:
        customers = self.random.sample(CUSTOMERS, 3)
        self.accept(*(self.submission(name, self.random.randint(1, 2)) for name in customers))

    def claim(self) -> None:
        workers = [self.name] * self.random.choice([1, 2, 5, 12])
        ahead = [self.name] * self.random.choice([0, 0, 3])
        claims = self.store.claim_for(workers, ahead)
        self.done["claimed"] += len(claims)
        self.backlog -= len(claims)
        self.claims += claims

    def finish(self) -> None:
        number = self.random.randint(1, max(1, len(self.claims)))
        ending, self.claims = self.claims[:number], self.claims[number:]
        outcomes = [(claim, self.outcome()) for claim in ending]
        if outcomes:
            self.done.update(f"finish {saved}" for saved in self.store.finish_all(outcomes))

    def outcome(self) -> Any:
        outcomes: list[Any] = [DONE, DAMAGED, CRASHED]
        (outcome,) = self.random.choices(outcomes, [12, 2, 2])
        return outcome._replace(seconds=round(self.random.uniform(0.5, 12.0), 3))

    def renew(self) -> None:
        if self.claims:
            lost = self.store.renew(self.claims)
            self.done["lost"] += len(lost)
            self.claims = [claim for claim in self.claims if claim not in lost]

    def release(self) -> None:
        ending, self.claims = self.claims[-2:], self.claims[:-2]
        if ending:
            self.store.release(ending)

    def forget(self) -> None:
        """As if it were another process, which died."""
        self.claims = []

    def cancel(self) -> None:
        if self.known:
            with suppress(InvalidTransition):
                self.store.cancel(self.random.choice(self.known[-20:]))

    def retry(self) -> None:
        if self.known:
            with suppress(InvalidTransition, PendingCapReached):
                self.store.retry(self.random.choice(self.known))

    def pause(self) -> None:
        self.store.pause(self.customer())

    def resume(self) -> None:
        self.store.resume(self.customer())

    def set_cap(self) -> None:
        cap = self.random.choice([None, None, 1, 3])
        self.store.set_customer(self.customer(), processing_cap=cap)

    def set_weight(self) -> None:
        weight = self.random.choice([0.5, 1.0, 2.0])
        self.store.set_customer(self.random.choice(CUSTOMERS[3:]), weight=weight)

    def reset(self) -> None:
        self.store.reset(self.customer())


def main(kind: str, folder: str, policy: str, process: str, seconds: str, base: str) -> None:
    clock = ProcessClock(float(base), int(process))
    record()
    store = open_store(kind, Path(folder), policy, clock)
    path = Path(folder) / f"accepted-{process}"
    accepted = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    worker = Worker(store, int(process), accepted)
    print("ready", flush=True)
    sys.stdin.readline()
    end = clock() + float(seconds)
    while clock() < end:
        worker.work()
    store.close()
    print(json.dumps(worker.done), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
