"""An invented installation with an hour of history, for pictures, tests and benchmarks."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.filling import submit_all
from fairlead import Fairlead
from fairlead.blobs.local import LocalBlobs
from fairlead.model.documents import Broken, Claim, Done, Failed, NewDocument, Outcome, Submission
from fairlead.model.engines import StepUse
from fairlead.model.names import new_id
from fairlead.model.pipelines import READ

HOSTILE = '<script>alert("x")</script> & "quoted" \'name\'.pdf'
TEXT = """Invoice 2041

Northwind Archive GmbH
12 chairs, walnut          1,440.00
 3 tables, oak             1,950.00
Delivery                     120.00

Total                      3,510.00 EUR
Payable within 30 days. Thank you for your order.
"""
STEADY = {
    "Acme Insurance": 240,
    "Globex": 300,
    "Umbrella Legal": 420,
    "Hooli Payroll": 500,
    "Stark & Sons": 700,
    "Wayne Notaries": 900,
    "Kowalski i Wspólnicy": 1300,
    "Müller Spedition": 1000,
}
"""Seconds between the documents of customers that send now and then."""
BURSTS = {
    "Northwind Archive": (-3000, 150),
    "Initech": (-1500, 34),
    "Vandelay Imports": (-840, 16),
    "Initech ": (-400, 8),
}
"""Bursts: when customers send many documents at once, and how many."""


class Clock:
    """The clock of the installation, which runs faster than the real one."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def fill(data: Path, *, workers: int = 2, seed: int = 7) -> None:
    """Simulate an hour of submissions and work; some documents still wait at its end."""
    now = time.time()
    clock, chance = Clock(now - 3600), random.Random(seed)
    arrivals = sorted(_arrivals(now, chance))
    with Fairlead(data, settings={"lease": 3600.0}, clock=clock) as fairlead:
        texts = LocalBlobs(fairlead.folder.texts)
        busy: list[tuple[float, Claim, Outcome]] = []
        fairlead.store.attend("made-up", workers, steps=[StepUse(READ, workers, workers)])
        while clock.now < now:
            clock.now += 2
            due = [arrival for arrival in arrivals if arrival[0] <= clock.now]
            del arrivals[: len(due)]
            for customer in dict.fromkeys(arrival[1] for arrival in due):
                names = [arrival[2] for arrival in due if arrival[1] == customer]
                _submit(fairlead, clock, customer, names, chance)
            done = [job for job in busy if job[0] <= clock.now]
            busy = [job for job in busy if job[0] > clock.now]
            if done:
                fairlead.store.finish_all([(claim, outcome) for _, claim, outcome in done])
            free = [f"host-0000:{100 + n}.1#{n}" for n in range(workers)]
            free = [
                worker for worker in free if worker not in {claim.worker for _, claim, _ in busy}
            ]
            for claim in fairlead.store.claim_for(free):
                seconds = chance.uniform(6, 40)
                busy.append((clock.now + seconds, claim, _outcome(claim, texts, seconds, chance)))
        _decide(fairlead, clock)
        fairlead.store.attend("made-up", workers, steps=[StepUse(READ, workers, workers)])


def _arrivals(now: float, chance: random.Random) -> Iterator[tuple[float, str, str]]:
    number = 2000
    for customer, gap in STEADY.items():
        at = now - 3600 + chance.uniform(0, gap)
        while at < now - 5:
            number += 1
            yield at, customer, f"invoice-{number}.pdf"
            at += chance.expovariate(1 / gap)
    for customer, (before, documents) in BURSTS.items():
        for number in range(documents):
            yield now + before, customer.strip(), f"scan-{number + 1:04}.tif"
    yield now - 200, "Globex", HOSTILE


def _submit(
    fairlead: Fairlead,
    clock: Clock,
    customer: str,
    names: list[str],
    chance: random.Random,
) -> None:
    content = TEXT.encode()
    sha256 = hashlib.sha256(content).hexdigest()
    documents = tuple(
        NewDocument(
            *(new_id(clock.now, chance.randbytes(16)), name, len(content), sha256), content=content
        )
        for name in names
    )
    fairlead.store.submit(Submission(customer, documents))


def _outcome(claim: Claim, texts: LocalBlobs, seconds: float, chance: random.Random) -> Outcome:
    number = chance.random()
    if number < 0.04 and claim.attempts < 3:
        return Broken("timeout", "reading took longer than 120 s", seconds)
    if number < 0.09:
        return Failed("damaged", "the file ends in the middle", "image/tiff", seconds)
    key = f"{claim.id}.{claim.fence}"
    text = TEXT.encode()
    texts.put_all([(key, text)])
    return Done("application/pdf", {"pages": 1}, key, hashlib.sha256(text).hexdigest(), seconds)


def _decide(fairlead: Fairlead, clock: Clock) -> None:
    clock.now += 1
    fairlead.customers.set("Northwind Archive", processing_cap=1, by="made-up")
    fairlead.customers.add("Soylent Records", by="made-up")
    fairlead.customers.pause("Vandelay Imports", by="made-up")
    waiting = fairlead.documents(customer="Northwind Archive", state="waiting", limit=3).items
    for document in waiting:
        fairlead.cancel(document.id, by="made-up")


@contextmanager
def crowd(data: Path, customers: int) -> Iterator[Fairlead]:
    """An open installation with so many customers, each with a few documents."""
    chance = random.Random(7)
    with Fairlead(data) as fairlead:
        names = [f"customer {number:04}" for number in range(customers)]
        submissions = []
        for name in names:
            documents = tuple(
                NewDocument(
                    *(new_id(time.time()), f"{number}.txt", 1, hashlib.sha256(b"x").hexdigest()),
                    content=b"x",
                )
                for number in range(chance.choice([1, 1, 2, 5, 12]))
            )
            submissions.append(Submission(name, documents))
        submit_all(fairlead.store, submissions)
        yield fairlead
