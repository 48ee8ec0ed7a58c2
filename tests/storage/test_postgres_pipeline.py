"""Statements that travel together to PostgreSQL: their results, errors and a lost connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import postgreskit
import psycopg
import pytest
from storekit import Clock, RulesInForce, postgres_store

from fairlead.storage.postgres import pipeline
from fairlead.storage.postgres.connection import READER_OPTIONS, connect
from fairlead.storage.postgres.dialect import translated
from fairlead.storage.postgres.session import Session
from fairlead.storage.sql.queries import statements

pytestmark = pytest.mark.services


@pytest.fixture
def session() -> Iterator[Session]:
    session = connect(postgreskit.server().url, READER_OPTIONS)
    yield session
    session.close()


def test_results_belong_to_their_statements_in_whatever_order_they_are_read(
    session: Session,
) -> None:
    numbers = [session.execute("SELECT ?::int", (number,)) for number in range(5)]
    texts = session.execute("SELECT ?::text, ?::bytea, ?::float8", ("ä\0", b"\0\xff", 0.1))
    assert texts.get == ("ä\N{REPLACEMENT CHARACTER}", b"\0\xff", 0.1)
    assert [cursor.get for cursor in reversed(numbers)] == [4, 3, 2, 1, 0]


def test_more_than_a_buffer_holds_is_sent_and_received(session: Session) -> None:
    long = "x" * 1_000_000
    cursors = [session.execute("SELECT ?::text", (long,)) for _ in range(10)]
    assert all(cursor.get == long for cursor in cursors)


def test_the_first_error_is_raised_and_nothing_after_it_was_run(session: Session) -> None:
    session.command("CREATE TEMPORARY TABLE t (n BIGINT)")
    session.command("BEGIN")
    session.execute("INSERT INTO t VALUES (?)", (1,))
    wrong = session.execute("SELECT 1 / ?::int", (0,))
    later = session.execute("SELECT count(*) FROM t")
    with pytest.raises(psycopg.errors.DivisionByZero):
        session.commit()
    for cursor in (wrong, later):
        with pytest.raises(psycopg.errors.DivisionByZero):
            cursor.fetchall()
    session.roll_back()
    assert session.execute("SELECT count(*) FROM t").get == 0


def test_a_statement_that_was_not_reached_is_prepared_again(session: Session) -> None:
    session.execute("SELECT 1 / ?::int", (0,))
    session.execute("SELECT 'later'")
    with pytest.raises(psycopg.errors.DivisionByZero):
        session.pause()
    assert session.execute("SELECT 'later'").get == "later"


def test_prepared_statements_are_forgotten_where_there_are_many(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MOST_PREPARED", 3)
    assert [session.execute(f"SELECT {number}").get for number in range(10)] == list(range(10))
    assert session.execute("SELECT count(*) FROM pg_prepared_statements").get <= 3


def test_a_lost_connection_is_an_error_and_is_not_used_again(session: Session) -> None:
    process = session.connection.info.backend_pid
    with postgreskit.server().as_superuser() as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", (process,))
    cursor = session.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        cursor.fetchall()
    assert session.is_broken


def test_an_interrupt_leaves_no_connection_between_two_results(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_self: pipeline.StatementPipeline, _events: int) -> None:
        raise KeyboardInterrupt

    session.execute("SELECT pg_sleep(0.05)")
    with monkeypatch.context() as patch:
        patch.setattr(pipeline.StatementPipeline, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.pause()
    assert session.is_broken
    session.roll_back()


def test_the_types_of_all_values_can_be_told_from_their_statements(tmp_path: Path) -> None:
    """Values are sent without types."""
    with postgreskit.lent(tmp_path):
        postgres_store(tmp_path, RulesInForce(), Clock()).close()
        with psycopg.connect(postgreskit.url_for(tmp_path), autocommit=True) as connection:
            for number, (name, statement) in enumerate(statements().items()):
                if name != "before_document":  # a condition
                    connection.execute(f"PREPARE p{number} AS {translated(statement)}".encode())
