"""Stores with a clock and rules that the test sets, and shorthands to submit, claim and finish."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import postgreskit
import pytest

from fairlead.model.documents import Broken, Claim, Document, Done, Failed, NewDocument, Submission
from fairlead.policy.rules import Rules
from fairlead.storage import Store
from fairlead.storage.postgres import PostgresStore
from fairlead.storage.sqlite import SqliteStore

LEASE = 30.0
DONE = Done("text/plain", {"pages": 1}, "text-of-it", "0" * 64)
DAMAGED = Failed("damaged", "the file ends in the middle")
CRASHED = Broken("crashed", "the reader crashed")

_numbers = count(1)


class Clock:
    """A clock that stands still until a test advances it."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class RulesInForce:
    """The rules of an installation, which a test may change at any moment."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules(lease=LEASE)

    def __call__(self) -> Rules:
        return self.rules

    def change(self, **changes: Any) -> None:
        self.rules = replace(self.rules, **changes)


class StoreUnderTest(NamedTuple):
    """A store with the clock and the rules that the test sets."""

    store: Store
    clock: Clock
    rules: RulesInForce


StoreFactory = Callable[[Path, RulesInForce, Clock], Store]


def sqlite_store(folder: Path, rules: RulesInForce, clock: Clock) -> Store:
    return SqliteStore(folder / "fairlead.db", rules=rules, clock=clock)


def postgres_store(folder: Path, rules: RulesInForce, clock: Clock) -> Store:
    return PostgresStore(postgreskit.url_for(folder), rules=rules, clock=clock)


STORES: dict[str, StoreFactory] = {"sqlite": sqlite_store, "postgres": postgres_store}
"""Every store that has to keep the contract."""


def histories(factory: StoreFactory, number: int) -> int:
    """How many random histories to try: a tenth where each step is a round trip to a server."""
    from hypothesis_profiles import examples  # noqa: PLC0415 (processes of tests import this file)

    return examples(number // 10 if factory is postgres_store else number)


@contextmanager
def fresh_store(factory: StoreFactory, rules: Rules | None = None) -> Iterator[StoreUnderTest]:
    """A fresh store in a folder of its own, for tests that need many of them."""
    clock, in_force = Clock(), RulesInForce(rules)
    with fast_folder() as folder, postgreskit.lent(folder):
        store = factory(folder, in_force, clock)
        try:
            yield StoreUnderTest(store, clock, in_force)
        finally:
            store.close()


@contextmanager
def fast_folder() -> Iterator[Path]:
    """A folder in memory, if possible: these tests need order, not durability."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def new_document(*, urgent: bool = False, content: bytes | None = None) -> NewDocument:
    """A document with a claimed size of a file, or a short one with its content."""
    number, size = next(_numbers), 10 if content is None else len(content)
    new = NewDocument(f"{number:026d}", f"{number}.txt", size, f"{number:064x}", urgent)
    return new._replace(content=content)


def submission(
    customer: str, number: int = 1, *, urgent: bool = False, **others: Any
) -> Submission:
    documents = tuple(new_document(urgent=urgent) for _ in range(number))
    return Submission(customer, documents, **others)


def submit(
    store: Store, customer: str, number: int = 1, *, urgent: bool = False, **others: Any
) -> list[Document]:
    """Submit this number of documents together."""
    return store.submit(submission(customer, number, urgent=urgent, **others))


def submit_one(store: Store, customer: str, *, urgent: bool = False, **others: Any) -> Document:
    return submit(store, customer, urgent=urgent, **others)[0]


def must_claim(store: Store, worker: str = "worker") -> Claim:
    claim = store.claim(worker)
    assert claim is not None, "a document should have been there to claim"
    return claim


def work_off(store: Store) -> list[Claim]:
    """One worker claims and finishes until nothing is left; its claims in order."""
    claims = []
    while claim := store.claim("only"):
        store.finish(claim, DONE)
        claims.append(claim)
    return claims


def ids(things: list[Document] | list[Claim]) -> list[str]:
    return [thing.id for thing in things]


def customers_of(claims: list[Claim]) -> list[str]:
    return [claim.customer for claim in claims]


def let_go_first(store: Any, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another thread act once, after the call of a write and before its transaction."""
    name = "_begin" if hasattr(store._writer, "_begin") else "_run_once"
    begin = getattr(store._writer, name)

    def begin_late(*values: Any, **how: Any) -> Any:
        monkeypatch.undo()
        act()
        return begin(*values, **how)

    monkeypatch.setattr(store._writer, name, begin_late)


def busy_day(store: Store, clock: Clock) -> None:
    """Every kind of step that submitting, claiming and settling can take."""
    submit(store, "customer 1", 2, key="k", fingerprint="f")
    submit(store, "customer 1", 2, key="k", fingerprint="f")
    submit_one(store, "new customer", urgent=True)
    for outcome in (DONE, DAMAGED, CRASHED):
        store.finish(must_claim(store), outcome)
    store.release([must_claim(store)])
    claim = must_claim(store)
    store.renew([claim])
    store.lost([claim])
    clock.advance(LEASE + 6)
    for _ in range(4):  # a rescue, a retry, and the lane
        must_claim(store)
