"""The queues to compare: names, batch sizes, numbers of documents, servers and durability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

ServerName = Literal["postgres", "redis", "rabbitmq", "sqlite"]

FSYNC = "PostgreSQL, every commit fsynced, logged tables"
FULL = "SQLite WAL, synchronous=FULL: every commit fsynced"
AOF = "Redis append-only file, fsynced each second: a power cut loses up to a second"
PERSISTENT = "RabbitMQ durable queue, persistent messages, no publisher confirms"

BATCHES = (50, 10, 1)
DOCUMENTS = {50: 24_000, 10: 10_000, 1: 2_400, 500: 60_000}
"""Documents by batch size: some seconds of work for the fastest."""

BY_ALL = frozenset(
    {
        *("fairlead-postgres-classic", "fairlead-postgres-fair", "fairlead-postgres-fair-many"),
        *("fairlead-sqlite-classic", "fairlead-sqlite-fair"),
    }
)
"""The rows of Fairlead that are measured with all batch sizes, not only the largest."""


@dataclass(frozen=True)
class Contestant:
    """One row of the result: a queue with one batch size.

    `program` is the module in `workers` that fills and drains it. `single`: one command starts
    all its worker processes. `customers`: 0 means that each document is another customer's.
    """

    name: str
    program: str
    server: ServerName
    durability: str
    batch: int | None
    documents: int
    single: bool = False
    policy: str = "classic"
    customers: int = 20

    @property
    def is_peer(self) -> bool:
        """Whether it runs in the peers' environment."""
        return not self.program.startswith("fairlead_")

    @property
    def is_submission(self) -> bool:
        """Whether bulk acceptance is measured, not claim and finish."""
        return self.name.endswith("-submit")


def contestants() -> list[Contestant]:
    """All of them, in the order of the table."""
    return [*peers(), *fairlead(), *steps(), *submissions()]


def peers() -> Iterator[Contestant]:
    for batch in BATCHES:
        number = DOCUMENTS[batch]
        yield Contestant("pgqueuer", "pgqueuer_queue", "postgres", FSYNC, batch, number)
    yield Contestant("procrastinate", "procrastinate_queue", "postgres", FSYNC, None, 2_000)
    late = "acknowledged late"
    yield Contestant(
        "celery-redis", "celery_queue", "redis", f"{AOF}; {late}", None, 4_000, single=True
    )
    yield Contestant(
        "celery-rabbitmq", "celery_queue", "rabbitmq", f"{PERSISTENT}; {late}", None, 6_000, True
    )
    yield Contestant("dramatiq-redis", "dramatiq_queue", "redis", AOF, None, 10_000, single=True)
    gone = "no acknowledgement: a task in work is lost with its worker"
    yield Contestant(
        "huey-redis", "huey_queue", "redis", f"{AOF}; {gone}", None, 10_000, single=True
    )


def fairlead() -> Iterator[Contestant]:
    servers: tuple[tuple[ServerName, str], ...] = (("postgres", FSYNC), ("sqlite", FULL))
    for server, durability in servers:
        for policy in ("classic", "fair"):
            for suffix, customers in (("", 20), ("-many", 0)):
                name = f"fairlead-{server}-{policy}{suffix}"
                for batch in BATCHES if name in BY_ALL else BATCHES[:1]:
                    yield Contestant(
                        name=name,
                        program="fairlead_store",
                        server=server,
                        durability=durability,
                        batch=batch,
                        documents=DOCUMENTS[batch],
                        policy=policy,
                        customers=customers,
                    )


def steps() -> Iterator[Contestant]:
    """Whole engines with a no-op step, which claim up to about fifty documents at once."""
    batch, program = BATCHES[0], "fairlead_step"
    for server, durability in (("postgres", FSYNC), ("sqlite", FULL)):
        name = f"fairlead-{server}-step"
        yield Contestant(name, program, server, durability, batch, 6_000)  # type: ignore[arg-type]


def submissions() -> Iterator[Contestant]:
    """Bulk acceptance: no work, calls of 500."""
    number = DOCUMENTS[500]
    yield Contestant("pgqueuer-submit", "pgqueuer_queue", "postgres", FSYNC, 500, number)
    for server, durability in (("postgres", FSYNC), ("sqlite", FULL)):
        name = f"fairlead-{server}-submit"
        yield Contestant(name, "fairlead_store", server, durability, 500, number)  # type: ignore[arg-type]
