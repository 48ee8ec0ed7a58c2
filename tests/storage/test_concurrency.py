"""Many at once: exact counts, shared commits, and errors that stay with their caller."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import apsw
import postgreskit
import psycopg
import pytest
from locked_database import locked
from storekit import (
    LEASE,
    STORES,
    Clock,
    RulesInForce,
    StoreFactory,
    must_claim,
    sqlite_store,
    submission,
    submit,
    submit_one,
)

from fairlead.errors import DataError, PendingCapReached, StoreBusy
from fairlead.storage import Store
from fairlead.storage.postgres import PostgresStore, writer
from fairlead.storage.postgres.connection import lock_number
from fairlead.storage.sql import claims
from fairlead.storage.sql.group_commit import AFTERMATH, GroupCommitWriter
from fairlead.storage.sqlite import lock_wait

pytestmark = pytest.mark.postgres_differs

AT_ONCE, EACH = 8, 50
EXACT = [-number for number in range(AT_ONCE * EACH)]

SUBMIT_IN_A_PROCESS = f"""
import sys
from pathlib import Path
from storekit import STORES, Clock, RulesInForce, new_document
from fairlead.model.documents import Submission
store = STORES[sys.argv[1]](Path(sys.argv[2]), RulesInForce(), Clock())
print("ready", flush=True)
sys.stdin.readline()
for number in range({EACH}):
    new = new_document()._replace(id=f"{{sys.argv[3]}}-{{number}}")
    print(store.submit(Submission("acme", (new,)))[0].count)
"""


def test_threads_get_exact_counts(store: Store) -> None:
    def submit_some(_: int) -> list[int]:
        return [submit_one(store, "acme").count for _ in range(EACH)]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        counts = [count for counted in pool.map(submit_some, range(AT_ONCE)) for count in counted]
    assert sorted(counts, reverse=True) == EXACT
    assert (
        sorted((document.count for document in store.documents(limit=2000)), reverse=True) == EXACT
    )
    assert store.customer("acme").waiting == AT_ONCE * EACH


@pytest.mark.services
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def test_processes_get_exact_counts(kind: str, tmp_path: Path) -> None:
    if kind == "postgres":
        postgreskit.server()
    helpers = Path(__file__).parents[1] / "helpers"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", SUBMIT_IN_A_PROCESS, kind, str(tmp_path), f"child {number}"],
            env={"PYTHONPATH": str(helpers), **postgreskit.address()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(AT_ONCE)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"  # all have opened the new store at once
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    counts = [int(line) for child in children for line in child.communicate()[0].split()]
    assert [child.returncode for child in children] == [0] * AT_ONCE
    assert sorted(counts, reverse=True) == EXACT


def test_workers_at_once_get_each_document_once(
    store: Store, store_factory: StoreFactory, tmp_path: Path
) -> None:
    submit(store, "acme", 50)
    submit(store, "globex", 50)

    def claim_some(number: int) -> list[str]:
        own = store_factory(tmp_path, RulesInForce(), Clock())
        try:
            claimed_ids = []
            while claim := own.claim(f"worker {number}"):
                claimed_ids.append(claim.id)
            return claimed_ids
        finally:
            own.close()

    with ThreadPoolExecutor(4) as pool:
        claimed = [id_ for ids in pool.map(claim_some, range(4)) for id_ in ids]
    assert sorted(claimed) == sorted(document.id for document in store.documents())


# --- group commit, which is how the embedded store makes durable writes cheap ---


class Gathered:
    """Writes of many threads that are all queued before the first of them runs."""

    def __init__(self, store: Any) -> None:
        self.writer: Any = store._writer
        self.commits = 0
        self.writer._connection.set_commit_hook(self._count)

    def _count(self) -> bool:
        self.commits += 1
        return False

    def run(self, actions: list[Callable[[], Any]]) -> list[Future[Any]]:
        with ThreadPoolExecutor(len(actions)) as pool, self.writer._lock:
            return [self._queued(pool, action) for action in actions]

    def _queued(self, pool: ThreadPoolExecutor, action: Callable[[], Any]) -> Future[Any]:
        number = len(self.writer._queue)
        future = pool.submit(action)
        while len(self.writer._queue) == number:
            """Its thread is on its way to the queue, behind which the lock holds it."""
        return future


@pytest.fixture
def embedded(tmp_path: Path) -> Any:
    store = sqlite_store(tmp_path, RulesInForce(), Clock())
    yield store
    assert store.problems() == []
    store.close()


def test_writes_that_wait_together_share_one_commit(embedded: Any) -> None:
    gathered = Gathered(embedded)
    futures = gathered.run([lambda: submit_one(embedded, "acme").count] * 40)
    assert sorted((future.result() for future in futures), reverse=True) == EXACT[:40]
    assert gathered.commits == 1


def test_one_writes_error_undoes_nothing_of_the_others(embedded: Any) -> None:
    embedded.add_customer("capped", pending_cap=1)
    gathered = Gathered(embedded)
    actions = [
        lambda: submit(embedded, "acme"),
        lambda: submit(embedded, "capped", 2),
        lambda: submit(embedded, "acme"),
    ]
    first, refused, third = gathered.run(actions)
    assert isinstance(refused.exception(), PendingCapReached)
    assert (first.result()[0].count, third.result()[0].count) == (0, -1)
    assert gathered.commits == 1
    assert embedded.documents(customer="capped") == []


def test_an_interrupted_leader_leaves_nothing_half_done(embedded: Any) -> None:
    def interrupted() -> None:
        def action(connection: apsw.Connection) -> None:
            connection.execute("UPDATE customers SET day = 99")
            raise KeyboardInterrupt

        embedded._writer.run(action)

    submit(embedded, "acme")
    gathered = Gathered(embedded)
    actions = [lambda: submit(embedded, "acme"), interrupted, lambda: submit(embedded, "acme")]
    errors = [future.exception() for future in gathered.run(actions)]
    # The thread that got the lock first is the leader, and is interrupted.
    assert sorted(type(error).__name__ for error in errors) == [
        *("KeyboardInterrupt", "StoreBusy", "StoreBusy"),
    ]
    assert gathered.commits == 0
    assert embedded.customer("acme").waiting == 1
    assert submit_one(embedded, "acme").count == -1


def test_an_interruption_after_the_commit_costs_the_others_nothing(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = embedded._writer._commit

    def commit_and_interrupt(batch: list[Any]) -> None:
        commit(batch)
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded._writer, "_commit", commit_and_interrupt)
    futures = Gathered(embedded).run([lambda: submit_one(embedded, "acme")] * 3)
    accepted = [future.result().id for future in futures if future.exception() is None]
    assert len(accepted) == 2
    assert embedded.known_documents(accepted) == set(accepted)
    assert embedded.customer("acme").waiting == 3


def test_a_write_that_an_interrupted_leader_took_along_does_not_wait_for_ever(
    embedded: Any,
) -> None:
    """The leader was interrupted after it took the writes and before it settled them."""
    writer: GroupCommitWriter = embedded._writer

    class TakesAndForgets(type(writer._queue)):  # type: ignore[misc]  # a deque
        def append(self, write: object) -> None:
            """As if the leader had it in hand when it was interrupted."""

    writer._queue = TakesAndForgets()
    with pytest.raises(StoreBusy):
        submit(embedded, "acme")


def test_a_failing_commit_fails_every_write_of_its_batch(embedded: Any) -> None:
    gathered = Gathered(embedded)
    embedded._writer._connection.set_commit_hook(lambda: True)  # SQLite then rolls back
    errors = [future.exception() for future in gathered.run([lambda: submit(embedded, "acme")] * 3)]
    assert all(isinstance(error, Exception) for error in errors)
    embedded._writer._connection.set_commit_hook(None)
    assert embedded.documents() == []
    assert submit_one(embedded, "acme").count == 0


def test_a_closed_store_says_so_in_our_words(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path, RulesInForce(), Clock())
    store.close()
    with pytest.raises(DataError):
        store.submit(submission("acme"))


def test_a_lock_that_was_waited_for_in_vain_is_not_waited_for_long_again(
    embedded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All writers wait behind the one that waits for the lock."""
    patience = embedded._writer._lock_wait
    assert patience.longest == lock_wait.BUSY_SECONDS
    with locked(tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr(lock_wait, "BUSY_SECONDS", 0.0)
            with pytest.raises(StoreBusy):
                submit(embedded, "acme")
        assert patience.longest == lock_wait.STILL_BUSY_SECONDS < lock_wait.BUSY_SECONDS
        assert embedded.documents() == []  # reading goes on
    submit(embedded, "acme")
    assert patience.longest == lock_wait.BUSY_SECONDS


def test_who_is_about_to_stop_waits_for_a_lock_only_for_a_moment(
    embedded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a thread that has waited already, for any time."""
    monkeypatch.setattr(lock_wait, "BUSY_SECONDS", 3600.0)
    monkeypatch.setattr(lock_wait, "LAST_SECONDS", 0.01)
    waits, look = threading.Event(), lock_wait.LockWait.__call__

    def tell(self: lock_wait.LockWait, looks: int) -> bool:
        waits.set()
        return look(self, looks)

    monkeypatch.setattr(lock_wait.LockWait, "__call__", tell)
    with locked(tmp_path), ThreadPoolExecutor(1) as pool:
        held_up = pool.submit(submit, embedded, "acme")
        waits.wait()
        embedded.hurry()
        with pytest.raises(StoreBusy):
            held_up.result()
        with pytest.raises(StoreBusy):
            submit(embedded, "acme")
    assert submit_one(embedded, "acme").count == 0  # what needs no waiting is done


def test_a_signal_is_heard_while_a_lock_is_waited_for(embedded: Any, tmp_path: Path) -> None:
    """In the main thread, where all signals are heard; as if Ctrl-C were pressed."""

    def press(_waiting: lock_wait.LockWait, looks: int) -> bool:
        if looks == 0:
            signal.raise_signal(signal.SIGINT)
        return True

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with locked(tmp_path), pytest.MonkeyPatch.context() as patch:
            patch.setattr(lock_wait.LockWait, "__call__", press)
            with pytest.raises(KeyboardInterrupt):
                submit(embedded, "acme")
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(submit(embedded, "acme")) == 1


def test_a_lease_that_ended_while_the_claim_waited_is_left_alone(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder waited for the same lock, and is about to renew it."""
    store: Any = sqlite_store(tmp_path, RulesInForce(), clock)
    submit(store, "acme")
    claim = must_claim(store)
    begin = store._writer._begin

    def begin_late(**named: Any) -> Any:
        clock.advance(LEASE + 1)
        return begin(**named)

    with monkeypatch.context() as patch:
        patch.setattr(store._writer, "_begin", begin_late)
        assert store.claim("another") is None
    assert store.renew([claim]) == []
    clock.advance(LEASE + 1)
    assert store.claim("another") is not None
    store.close()


def test_a_lock_takes_no_document_from_another_process(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any time: no worker could renew a lease meanwhile, and some return later."""
    monkeypatch.setattr(lock_wait, "BUSY_SECONDS", 0.0)
    monkeypatch.setattr(lock_wait, "STILL_BUSY_SECONDS", 0.0)
    with ExitStack() as ending:
        ours, theirs = (sqlite_store(tmp_path, RulesInForce(), clock) for _ in range(2))
        ending.callback(ours.close)
        ending.callback(theirs.close)
        submit(ours, "acme")
        claim = must_claim(theirs)
        with locked(tmp_path):
            for _ in range(3):
                with pytest.raises(StoreBusy):
                    ours.claim("ours")
                clock.advance(LEASE)
        assert ours.claim("ours") is None
        clock.advance(AFTERMATH / 2)
        assert ours.claim("ours") is None
        assert theirs.renew([claim]) == []
        clock.advance(max(AFTERMATH, LEASE) + 1)
        assert must_claim(ours).id == claim.id  # they are gone after all


def test_locks_that_come_again_and_again_keep_no_document_from_others(
    store: Any, clock: Clock
) -> None:
    """A dead worker is detected even if the grace period of one lock reaches into the next."""
    submit(store, "acme")
    claim = must_claim(store)
    began = clock()
    while clock() < began + 2 * LEASE:
        clock.advance(AFTERMATH / 2)
        store._writer._grace.failed(clock())
        store._writer._grace.succeeded(clock())
    assert must_claim(store).id == claim.id


# --- PostgreSQL, where writes do not wait for each other ---


@pytest.fixture
def served(tmp_path: Path, clock: Clock) -> Any:
    with postgreskit.lent(tmp_path):
        store = STORES["postgres"](tmp_path, RulesInForce(), clock)
        assert isinstance(store, PostgresStore)
        yield store
        assert store.problems() == []
        store.close()


def test_a_submission_waits_only_for_one_of_the_same_customer(
    served: PostgresStore, tmp_path: Path
) -> None:
    submit(served, "acme")
    submit(served, "globex")
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(postgreskit.url_for(tmp_path)) as other,
    ):
        other.execute("SELECT 1 FROM customers WHERE name = 'acme' FOR UPDATE")
        waits = pool.submit(submit_one, served, "acme")
        assert submit_one(served, "globex").count == -1
        assert must_claim(served).customer in ("acme", "globex")
        assert not waits.done()
        other.rollback()
        assert waits.result().count == -1


def test_a_claim_goes_on_where_the_holder_of_the_lock_froze(
    served: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock merely saves work; their snapshots keep claims apart."""
    monkeypatch.setitem(writer._CLAIMER_OPTIONS, "lock_timeout", "10ms")
    submit(served, "acme", 2)
    with psycopg.connect(postgreskit.url_for(tmp_path)) as frozen:
        frozen.execute(f"SELECT pg_advisory_lock({lock_number(0)})".encode())
        assert must_claim(served).customer == "acme"
    assert must_claim(served).customer == "acme"


def test_a_claim_that_was_overtaken_is_made_anew(
    served: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quicker one has waited for the lock in vain, and has read the same queue."""
    monkeypatch.setitem(writer._CLAIMER_OPTIONS, "lock_timeout", "10ms")
    first, second = submit(served, "acme", 2)
    choose, tries = claims._choose, list[str]()

    def choose_late(*values: Any) -> Any:
        chosen = choose(*values)
        if not tries:
            tries.append("late")
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(claim_quickly).result() == first.id
        return chosen

    def claim_quickly() -> str:
        with closing(STORES["postgres"](tmp_path, RulesInForce(), Clock())) as quicker:
            return must_claim(quicker).id

    monkeypatch.setattr(claims, "_choose", choose_late)
    assert must_claim(served).id == second.id
