"""Measures what the locks of the WAL cost: `python -m bench.wal_locks`.

One store submits, claims, finishes and reads documents one by one, in memory. It takes the locks of
`storage/sqlite/wal_locks.py` in half of the rounds, at random. The medians of the CPU time with and
without them are printed.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from unittest.mock import patch

import click

from fairlead.model.documents import Claim, Done, NewDocument, Submission
from fairlead.policy.rules import Rules
from fairlead.storage.sqlite import SqliteStore
from fairlead.storage.sqlite.wal_locks import WalLocks

CUSTOMERS = 20
DONE = Done("text/plain", {"pages": 1}, "text-of-it", "0" * 64)
LOCKS = {
    name: getattr(WalLocks, name) for name in ("begin_write", "end_write", "begin_read", "end_read")
}
Times = dict[tuple[str, bool], list[float]]


@click.command()
@click.option("--documents", default=6_000, show_default=True)
def main(documents: int) -> None:
    """Print the CPU time of each operation with and without the locks."""
    times: Times = defaultdict(list)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        store = SqliteStore(Path(folder) / "fairlead.db", rules=Rules, clock=time.time)
        with closing(store):
            for number in range(documents):
                one_round(store, number, times)
    for name in ("submit", "claim", "finish", "read"):
        without, locked = (median(times[name, is_locked]) for is_locked in (False, True))
        print(f"{name}: {without:.1f} µs, with locks {locked:.1f} µs ({locked / without - 1:+.1%})")


def one_round(store: SqliteStore, number: int, times: Times) -> None:
    is_locked = random.Random(number).random() < 0.5  # not in step with anything
    submission = Submission(f"customer {number % CUSTOMERS}", (new_document(number),))

    def measure(name: str, call: Callable[[], object]) -> object:
        began = time.process_time()
        result = call()
        times[name, is_locked].append((time.process_time() - began) * 1e6)
        return result

    with locks(are_real=is_locked):
        measure("submit", lambda: store.submit(submission))
        claim = measure("claim", lambda: store.claim("worker"))
        assert isinstance(claim, Claim)
        measure("finish", lambda: store.finish(claim, DONE))
        measure("read", lambda: store.document(claim.id))


@contextmanager
def locks(*, are_real: bool) -> Iterator[None]:
    """Both replace methods, as that itself costs time."""
    with ExitStack() as stack:
        for name, method in LOCKS.items():
            new = method if are_real else lambda *_: None
            stack.enter_context(patch.object(WalLocks, name, new))
        yield


def new_document(number: int) -> NewDocument:
    return NewDocument(f"{number:026d}", f"{number}.txt", 10, f"{number:064x}", False)


if __name__ == "__main__":
    main()
