"""Measures claims with very many documents waiting, and behind documents that may not start."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from bench.filling import submit_all
from bench.peers import cpu
from bench.peers.contestants import Contestant, contestants
from bench.peers.measure import fresh_place
from bench.peers.servers import Servers, missing, tidy
from bench.peers.stores import finish, opened, short_documents
from bench.peers.workers.settings import AT_ONCE
from fairlead.model.documents import NewDocument, Submission
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.storage import Store
from fairlead.storage.sql.queries import Connection

FEW = 1_000
CUSTOMERS = 1_000
BATCH = 50
CLAIMS_A_ROUND = 4
ROUNDS = 15
HEAD = "head"
HELD = "held"
USUAL = ("fairlead-postgres-classic", "fairlead-sqlite-classic")


class Cost(NamedTuple):
    """CPU seconds of client and server for one document."""

    claim: float
    finish: float


class Case(NamedTuple):
    """A store to claim from, and the processes of its server."""

    title: str
    store: Store
    roots: Sequence[int]


def main(servers: Servers, documents: int, names: Sequence[str]) -> None:
    """Measure the named stores and policies; by default classic on both stores."""
    for contestant in contestants():
        is_chosen = contestant.name in (names or USUAL) and contestant.batch == BATCH
        if is_chosen and not contestant.is_peer and not missing(contestant.server):
            compare(servers, contestant, documents)


def compare(servers: Servers, contestant: Contestant, documents: int) -> None:
    with ExitStack() as stack:
        cases = []
        for number, title in enumerate(titles(documents)):
            place = stack.enter_context(fresh_place(servers, contestant))
            store = opened(place.url, contestant.policy)
            stack.callback(store.close)
            print(f"{contestant.name}: filling {title}", file=sys.stderr)
            prepare(store, number, documents)
            if contestant.server == "postgres":
                tidy(servers.postgres, place.url)
            cases.append(Case(title, store, place.roots))
        costs: dict[str, list[Cost]] = {case.title: [] for case in cases}
        for number in range(ROUNDS + 1):
            for case in cases:
                cost = measure(case)
                if number:  # the first round warms up
                    costs[case.title].append(cost)
    print_ratios(contestant.name, costs)


def titles(documents: int) -> list[str]:
    behind = documents * 9 // 10
    return [
        f"{FEW:,} waiting",
        f"{documents:,} waiting",
        f"behind {behind:,} of a paused customer",
        f"behind {behind:,} of a capped customer",
        f"behind {behind:,} of {CUSTOMERS:,} customers, held by a quota",
    ]


def prepare(store: Store, number: int, documents: int) -> None:
    """Few; many; many behind a paused customer, behind a capped one, behind a quota."""
    behind = 0 if number < 2 else documents * 9 // 10
    if number == 4:
        fill_held(store, behind)
    elif behind:
        fill_head(store, behind, is_paused=number == 2)
    fill_evenly(store, FEW if number == 0 else documents - behind)


def fill_head(store: Store, documents: int, *, is_paused: bool) -> None:
    """A customer before all others, by priority and by arrival, none of whose may start."""
    store.add_customer(HEAD, thresholds=(-10_000_000,), processing_cap=None if is_paused else 1)
    for first in range(0, documents, AT_ONCE):
        store.submit(Submission(HEAD, short_documents(first, min(AT_ONCE, documents - first))))
    if is_paused:
        store.pause(HEAD)
    else:
        (claim,) = store.claim_for(["held"])  # keeps the only place of its customer
        assert claim.customer == HEAD


def fill_held(store: Store, documents: int) -> None:
    """Documents of a pipeline whose quota lets none start, before all others."""
    quotas = json.dumps({HELD: {"max_running": 0}})

    def write(connection: Connection) -> None:
        connection.execute("UPDATE queue_state SET quotas = ?", (quotas,))

    store._writer.run(write)  # noqa: SLF001 (no setting names pipelines yet)
    fill_evenly(store, documents, HELD, HELD)


def fill_evenly(
    store: Store, documents: int, prefix: str = "customer", pipeline: str = DEFAULT_PIPELINE
) -> None:
    """First some documents of each customer in turns, as with few documents, then the others."""
    turns = min(documents // CUSTOMERS, 5)
    for _ in range(turns):
        for first in range(0, CUSTOMERS, AT_ONCE):
            names = [f"{prefix} {first + number}" for number in range(AT_ONCE)]
            submit_one_each(store, names, pipeline)
    per_customer = documents // CUSTOMERS - turns
    for number in range(CUSTOMERS):
        for first in range(0, per_customer, AT_ONCE):
            some = in_pipeline(pipeline, short_documents(first, min(AT_ONCE, per_customer - first)))
            store.submit(Submission(f"{prefix} {number}", some))


def in_pipeline(pipeline: str, documents: Sequence[NewDocument]) -> tuple[NewDocument, ...]:
    return tuple(document._replace(pipeline=pipeline) for document in documents)


def submit_one_each(
    store: Store, customers: Sequence[str], pipeline: str = DEFAULT_PIPELINE
) -> None:
    documents = in_pipeline(pipeline, short_documents(0, len(customers)))
    pairs = zip(customers, documents, strict=True)
    submit_all(store, [Submission(name, (document,)) for name, document in pairs])


def measure(case: Case) -> Cost:
    """Claims of 50 and their finish; as many documents are submitted again afterwards."""
    began = spent(case)
    batches = [case.store.claim_for(["bench"] * BATCH) for _ in range(CLAIMS_A_ROUND)]
    claimed = spent(case)
    for claims in batches:
        finish(case.store, claims)
    finished = spent(case)
    taken = [claim.customer for claims in batches for claim in claims]
    assert not [name for name in taken if name.startswith((HEAD, HELD))]
    submit_one_each(case.store, taken)
    return Cost((claimed - began) / len(taken), (finished - claimed) / len(taken))


def spent(case: Case) -> float:
    """CPU seconds so far, of this process and of the server's."""
    return time.process_time() + cpu.running_seconds(case.roots)


def print_ratios(name: str, costs: dict[str, list[Cost]]) -> None:
    print(f"{name}, claimed by {BATCH}: CPU µs of a document, and the ratio to the first")
    medians = {
        title: (
            statistics.median(value.claim for value in values),
            statistics.median(value.claim + value.finish for value in values),
        )
        for title, values in costs.items()
    }
    base_claim, base_both = next(iter(medians.values()))
    for title, (claim, both) in medians.items():
        print(
            f"  {title}: claim {claim * 1e6:,.0f} ({claim / base_claim:.2f}), "
            f"with finish {both * 1e6:,.0f} ({both / base_both:.2f})"
        )
