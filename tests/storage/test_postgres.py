"""What only the PostgreSQL store does: customers apart, the change feed, outages, its versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import Queue
from typing import Any

import postgreskit
import psycopg
import pytest
from postgreskit import Server
from storekit import (
    DONE,
    Clock,
    RulesInForce,
    busy_day,
    must_claim,
    new_document,
    postgres_store,
    submission,
    submit,
    submit_one,
)
from webhookkit import added

from fairlead.errors import (
    DamagedData,
    InvalidSetting,
    NewerData,
    StoreRefused,
    StoreUnreachable,
    UnknownCustomer,
    UnknownDocument,
)
from fairlead.model.documents import Saved, ShortTexts, Submission
from fairlead.model.keys import key_owner
from fairlead.model.states import State
from fairlead.policy.rules import Rules
from fairlead.storage.postgres import PostgresStore
from fairlead.storage.postgres.dialect import repeated, translated
from fairlead.storage.postgres.session import Session
from fairlead.storage.sql import reads
from fairlead.storage.sql.queries import SCHEMA_NUMBER, sql, statements

pytestmark = [pytest.mark.services, pytest.mark.postgres_differs]

TABLES_OF_CUSTOMERS = (
    *("customers", "accounts", "documents", "idempotency_keys", "events", "webhooks"),
    *(
        "deliveries",
        "access_keys",
        "deleted",
        "originals",
        "results",
        "waiting",
        "delayed",
        "running",
    ),
    "retry_slots",
)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[PostgresStore]:
    with postgreskit.lent(tmp_path):
        store = postgres_store(tmp_path, RulesInForce(), clock)
        assert isinstance(store, PostgresStore)
        yield store
        store.close()


# --- customers apart ---


def two_customers(store: PostgresStore) -> tuple[str, str]:
    """A document of each of two customers, with a row in every table there is."""
    claimed = []
    for name in ("acme", "globex"):
        added(store, name)
        store.set_customer(name, account=f"account of {name}")
        store.add_key(f"key of {name}", "0" * 64, key_owner(name))
        news = tuple(new_document(content=name.encode()) for _ in range(2))
        store.submit(Submission(name, news, key="once"))
        claim = must_claim(store)
        store.finish(claim, DONE._replace(short=ShortTexts(name.encode(), None)))
        store.delete(must_claim(store).id)
        claimed.append(claim.id)
    return claimed[0], claimed[1]


def test_raw_sql_in_a_customers_transaction_sees_nothing_of_others(store: PostgresStore) -> None:
    two_customers(store)
    everything = counted(store)
    with store.seen_by("acme"):
        own = counted(store)
    with store.seen_by("nobody at all"):
        nothing = counted(store)
    assert set(everything) == set(TABLES_OF_CUSTOMERS)
    assert {name: 2 * number for name, number in own.items()} == everything
    assert set(nothing.values()) == {0}


def counted(store: PostgresStore) -> dict[str, int]:
    with store._reading() as connection:
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").get
            for name in TABLES_OF_CUSTOMERS
        }


@pytest.mark.usefixtures("store")
def test_every_table_with_a_customer_is_guarded_for_its_owner_too(tmp_path: Path) -> None:
    query = (
        "SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class "
        "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    )
    with psycopg.connect(postgreskit.url_for(tmp_path)) as connection:
        guarded: dict[str, bool] = dict(connection.execute(query).fetchall())
    of_all = {
        *("fairlead", "attendance", "leases", "queue_state", "queue_costs", "queue_tallies"),
        *("queue_events", "queue_members", "queue_entries", "blob_places"),
    }
    assert {name for name, is_guarded in guarded.items() if not is_guarded} == of_all


def test_the_guard_ends_with_its_transaction(store: PostgresStore) -> None:
    two_customers(store)
    with store.seen_by("acme"):
        assert {document.customer for document in store.documents()} == {"acme"}
        assert [customer.name for customer in store.customers()] == ["acme"]
    assert {document.customer for document in store.documents()} == {"acme", "globex"}


def test_what_is_others_is_not_there_however_it_is_asked_for(store: PostgresStore) -> None:
    mine, other = two_customers(store)
    with store.seen_by("acme"):
        assert store.document(mine).id == mine
        assert store.short_texts(mine) == ShortTexts(b"acme", None)
        assert store.original(mine) == b"acme"
        with pytest.raises(UnknownDocument):
            store.document(other)
        with pytest.raises(UnknownCustomer):
            store.customer("globex")
        assert store.short_texts(other) is None
        assert store.original(other) is None
        assert store.documents(customer="globex") == []
        assert store.events(customer="globex") == []
        assert {event.customer for event in store.events()} == {"acme"}
        assert [webhook.customer for webhook in store.outbox.webhooks()] == ["acme"]


def test_the_queue_as_a_whole_is_told_to_everybody(store: PostgresStore) -> None:
    submit(store, "globex", 3)
    mine = submit_one(store, "acme")
    with store.seen_by("acme"):
        place = store.place(mine.id)
        assert place is not None
        assert place.other_documents == 3
        assert store.totals().waiting == 4


# --- the change feed ---


def test_a_commit_of_another_process_wakes_subscribers(
    store: PostgresStore, tmp_path: Path
) -> None:
    rung: Queue[bool] = Queue()
    other = postgres_store(tmp_path, RulesInForce(), Clock())
    other.changes.subscribe(lambda: rung.put(True))
    rung.get(timeout=30)  # it listens
    before = other.changes.version()
    submit_one(store, "acme")
    rung.get(timeout=30)
    assert other.changes.version() != before
    other.close()


def test_a_closed_subscription_is_not_woken(store: PostgresStore) -> None:
    mine: Queue[str] = Queue()
    first, second = (lambda: mine.put("first")), (lambda: mine.put("second"))
    subscription = store.changes.subscribe(first)
    assert mine.get(timeout=30) == "first"
    subscription.close()
    store.changes.subscribe(second)
    submit_one(store, "acme")
    assert mine.get(timeout=30) == "second"


# --- errors that stay with their write ---


def test_a_database_error_of_one_write_undoes_nothing_of_the_others(store: PostgresStore) -> None:
    twice = new_document()
    store.submit(Submission("acme", (twice,)))
    first, wrong, third = store.submit_each(
        [submission("acme"), Submission("globex", (twice,)), submission("initech")]
    )
    assert isinstance(wrong, Exception)
    assert not isinstance(first, Exception)
    assert not isinstance(third, Exception)
    assert {document.customer for document in store.documents()} == {"acme", "initech"}
    assert store.problems() == []


def test_a_text_with_the_character_nul_is_kept_without_it(store: PostgresStore) -> None:
    document = new_document()._replace(name="a\0b.txt")
    store.submit(Submission("acme", (document,)))
    assert store.document(document.id).name == "a\N{REPLACEMENT CHARACTER}b.txt"


# --- the server's clock ---


def test_times_are_the_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)  # a machine whose clock is decades behind
    with postgreskit.lent(tmp_path):
        store = PostgresStore(postgreskit.url_for(tmp_path), rules=RulesInForce())
        with psycopg.connect(postgreskit.url_for(tmp_path)) as connection:
            row = connection.execute("SELECT extract(epoch FROM now())::float8").fetchone()
            assert row is not None
            (before,) = row
            document = submit_one(store, "acme")
            claim = must_claim(store)
        assert before <= document.submitted_at <= claim.started_at <= store.now() < before + 600
        store.close()


# --- versions ---


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    with postgreskit.lent(tmp_path):
        postgres_store(tmp_path, RulesInForce(), Clock()).close()
        url = postgreskit.url_for(tmp_path)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE fairlead SET version = 999")
        with pytest.raises(NewerData, match="schema number 999"):
            PostgresStore(url, rules=RulesInForce())
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE fairlead SET version = %s", (SCHEMA_NUMBER,))


def test_another_programs_tables_are_left_alone(tmp_path: Path) -> None:
    url = postgreskit.url_for(tmp_path)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE documents (mine INTEGER)")
        with pytest.raises(DamagedData, match="other programs"):
            PostgresStore(url, rules=RulesInForce())
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (0,)


# --- a server that is away ---


def test_an_address_that_nobody_answers_is_said_so() -> None:
    with pytest.raises(StoreUnreachable, match=r"127\.0\.0\.1:1/x cannot be reached"):
        PostgresStore("postgresql://127.0.0.1:1/x", rules=RulesInForce())


def test_a_wrong_password_is_said_so_and_not_told() -> None:
    url = postgreskit.server().url_of(password="hunter2")
    with pytest.raises(StoreRefused, match="password authentication failed") as caught:
        PostgresStore(url, rules=RulesInForce(), patient=True)
    assert "hunter2" not in str(caught.value)


def test_a_database_that_is_not_there_is_said_so() -> None:
    url = postgreskit.server().url.removesuffix("fairlead") + "nowhere"
    with pytest.raises(StoreRefused, match="does not exist"):
        PostgresStore(url, rules=RulesInForce())


@pytest.mark.parametrize("url", ["postgresql://a b", "postgresql://h/d?nonsense=1"])
def test_an_address_that_is_none_is_said_so(url: str) -> None:
    with pytest.raises(InvalidSetting, match="store must be a URL"):
        PostgresStore(url, rules=RulesInForce())


@pytest.fixture(scope="module")
def frail() -> Iterator[Server]:
    """A server that is killed now and then, and forgets nothing."""
    with postgreskit.frail_server() as server:
        yield server


@pytest.mark.parametrize("end", [Server.stop, Server.kill])
def test_it_goes_on_by_itself_when_the_server_is_back(
    frail: Server, end: Callable[[Server], None]
) -> None:
    store = PostgresStore(frail.url, rules=RulesInForce())
    rung: Queue[bool] = Queue()
    store.changes.subscribe(lambda: rung.put(True))
    document = submit_one(store, "acme")
    store.totals()
    claim = must_claim(store)
    end(frail)
    with pytest.raises(StoreUnreachable):
        submit_one(store, "acme")
    with pytest.raises(StoreUnreachable):
        store.totals()
    frail.start()
    while not rung.empty():
        rung.get()
    assert document.id in store.known_documents([document.id])
    if store.lost([claim]):  # claims need not be durable
        claim = must_claim(store)
    assert store.finish(claim, DONE) is Saved.SAVED
    submit_one(store, "acme")
    rung.get(timeout=30)  # and is heard again
    store.close()


def test_a_store_is_waited_for(frail: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    frail.stop()
    pauses: list[float] = []

    def start_in_the_pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            monkeypatch.undo()
            frail.start()

    monkeypatch.setattr("fairlead.storage.postgres.connection.time.sleep", start_in_the_pause)
    store = PostgresStore(frail.url, rules=RulesInForce(), patient=True)
    assert pauses == pytest.approx([0.45, 0.9, 1.8], rel=0.12), "doubled, with jitter"
    store.totals()
    store.close()


def test_a_process_that_froze_in_a_transaction_does_not_hold_up_the_others(
    store: PostgresStore,
) -> None:
    with store._reading() as connection:
        limits = connection.execute(
            "SELECT current_setting('idle_in_transaction_session_timeout'), "
            "current_setting('lock_timeout')"
        ).fetchone()
    assert limits == ("30s", "30s")


# --- the shared statements ---


def test_statements_are_translated() -> None:
    assert translated("SELECT ? FROM d INDEXED BY queue WHERE a = ?") == (
        "SELECT $1 FROM d WHERE a = $2"
    )
    assert repeated("INSERT INTO t (a, b, c) VALUES (?, 'x', ?)", 2, (False, True)) == (
        b"INSERT INTO t (a, b, c) VALUES ($2, 'x', $1), ($3, 'x', $1)"
    )
    assert repeated("UPDATE t SET a = ?", 2, (False,)) is None
    assert translated("UPDATE t SET a = ?2, b = ?1 + ?2") == "UPDATE t SET a = $2, b = $1 + $2"


GROWS = re.compile(
    r"Seq Scan on (documents|customers|events|deliveries|waiting|running|queue_\w+s)"
    r"|Seq Scan on (originals|results)"
)

LIST_GROWS = re.compile(r"(Seq|Bitmap Heap) Scan on (documents|waiting)|Hash Join|Merge Join")
"""Other tables are short here, so that a reader scans them."""


def plan(connection: Session, statement: str, values: Sequence[Any]) -> str:
    """The generic plan of a prepared statement."""
    rows = connection.execute("EXPLAIN " + translated(statement), values).fetchall()
    return "\n".join(row[0] for row in rows)


def plans_of_lists(
    store: PostgresStore, states: Iterable[State | None] = State, pipeline: str | None = None
) -> dict[tuple[State | None, str | None], str]:
    """How pages of one state are read, as readers' connections plan it (finding 11)."""
    others: dict[str, Any] = dict.fromkeys(
        ("priority", "parent", "id_prefix", "name", "reference", "batch", "before")
    )
    plans = {}
    for state in states:
        for customer in (None, "customer 1"):
            with store._reading(whole=True) as connection:
                explained = Explained(connection)
                reads.documents(
                    explained,  # type: ignore[arg-type]
                    Rules(),
                    customer=customer,
                    state=state,
                    pipeline=pipeline,
                    metadata={},
                    limit=5,
                    **others,
                )
                plans[state, customer] = explained.plan
    return plans


class Explained:
    """A connection that plans the statement instead of running it."""

    is_remote = True

    def __init__(self, connection: Session) -> None:
        self._connection = connection
        self.plan = ""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        if statement == sql("walk_in_order"):
            return self._connection.execute(statement).fetchall()
        self.plan = plan(self._connection, statement, values)
        return []


def test_no_statement_of_claim_settle_and_submit_grows(
    store: PostgresStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans at 20,000 rows."""
    for number in range(40):
        submit(store, f"customer {number}", 500, urgent=number % 9 == 0)
    store._writer.run(lambda connection: connection.execute("ANALYZE"))
    seen: dict[str, Sequence[Any]] = {}
    execute = Session.execute

    def note(self: Session, statement: str, values: Sequence[Any] = (), /) -> Any:
        if statement in statements().values():
            seen[statement] = values
        return execute(self, statement, values)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "execute", note)
        busy_day(store, clock)
    plans = store._writer.run(
        lambda connection: {text: plan(connection, text, seen[text]) for text in seen}  # type: ignore[arg-type]
    )
    assert {text: lines for text, lines in plans.items() if GROWS.search(lines)} == {}
    assert len(plans) >= 20, "the day was not busy enough to show all statements"
    lists = plans_of_lists(store)
    assert {text: lines for text, lines in lists.items() if LIST_GROWS.search(lines)} == {}
    sorts = {(state, customer) for (state, customer), lines in lists.items() if "Sort" in lines}
    assert {state for state, _ in sorts} <= {State.PROCESSING}, "others end with the page"
    documents = tuple(new_document()._replace(pipeline="held") for _ in range(1000))
    store.submit(Submission("customer 1", documents))
    store._writer.run(lambda connection: connection.execute("ANALYZE"))
    for (_, customer), lines in plans_of_lists(store, [None], "held").items():
        index = "documents_of_customer_by_pipeline" if customer else "documents_of_pipeline"
        assert f"Index Scan Backward using {index} on documents d " in lines
        assert "Sort" not in lines
    watched = store._writer.run(
        lambda connection: plan(connection, "SELECT * FROM documents ORDER BY sha256", ())  # type: ignore[arg-type]
    )
    assert GROWS.search(watched)
