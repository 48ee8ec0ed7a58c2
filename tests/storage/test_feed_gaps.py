"""A reader of the event feed on PostgreSQL misses nothing during concurrent writes.

Events get their numbers before they are committed. So a reader may see a higher number before a
lower one; the lower one may also have been undone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import postgreskit
import psycopg
import pytest
from eventwriter import ADD
from storekit import postgres_store, submit

from fairlead.storage import Store

PROCESSES, ROUNDS = 6, 40
HELPERS = Path(__file__).parents[1] / "helpers"

pytestmark = [pytest.mark.postgres_differs, pytest.mark.services]


@pytest.fixture(scope="module", params=["postgres"])
def store_factory() -> object:
    return postgres_store


def numbers(store: Store, after: int = 0, limit: int = 1000) -> list[int]:
    return [event.seq for event in store.events(after, limit)]


@pytest.mark.full
def test_a_reader_misses_nothing_while_six_processes_write(store: Store, tmp_path: Path) -> None:
    script = [sys.executable, str(HELPERS / "eventwriter.py"), str(tmp_path)]
    processes = [
        subprocess.Popen(
            [*script, str(number), str(ROUNDS)],
            env={"PYTHONPATH": ":".join(sys.path), **postgreskit.address()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    seen = [0]
    while any(process.poll() is None for process in processes):
        seen += numbers(store, seen[-1], 5)
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    while new := numbers(store, seen[-1]):
        seen += new
    with psycopg.connect(postgreskit.url_for(tmp_path)) as connection:
        rows = connection.execute("SELECT seq FROM events ORDER BY seq").fetchall()
    assert len(rows) > PROCESSES * ROUNDS
    assert seen[1:] == [row[0] for row in rows]


def test_an_event_that_was_undone_is_not_waited_for(store: Store, tmp_path: Path) -> None:
    submit(store, "acme")
    last = store.last_event()
    with psycopg.connect(postgreskit.url_for(tmp_path)) as connection:
        connection.execute(ADD)
        connection.rollback()
    submit(store, "acme")
    assert numbers(store, last) == [last + 2]


def test_an_open_transaction_is_waited_for(store: Store, tmp_path: Path) -> None:
    submit(store, "acme")
    last = store.last_event()
    with psycopg.connect(postgreskit.url_for(tmp_path)) as connection:
        connection.execute(ADD)
        submit(store, "acme")
        assert [numbers(store, last) for _ in range(3)] == [[], [], []]
        assert store.last_event() == last, "a reader that begins now must not miss it either"
        connection.commit()
    assert numbers(store, last) == [last + 1, last + 2]


def test_a_transaction_that_ends_between_two_looks_is_not_missed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends after the numbers were read and before the reader reads the open transactions."""
    submit(store, "acme")
    last = store.last_event()
    with psycopg.connect(postgreskit.url_for(tmp_path)) as connection:
        connection.execute(ADD)
        submit(store, "acme")
        assert numbers(store, last) == []
        readers = store._readers  # type: ignore[attr-defined]
        ask = readers.value

        def commit_first(query: str) -> object:
            connection.commit()
            return ask(query)

        monkeypatch.setattr(readers, "value", commit_first)
        seen = numbers(store, last)
    assert seen == [last + 1, last + 2]


def test_an_event_without_a_gap_before_it_waits_for_nobody(store: Store, tmp_path: Path) -> None:
    submit(store, "acme")
    last = store.last_event()
    with psycopg.connect(postgreskit.url_for(tmp_path)) as connection:
        submit(store, "acme")
        connection.execute(ADD)
        assert numbers(store, last) == [last + 1]
        connection.rollback()


def test_results_wait_for_an_open_transaction_as_events_do(store: Store, tmp_path: Path) -> None:
    (document,) = submit(store, "acme")
    with psycopg.connect(postgreskit.url_for(tmp_path)) as connection:
        connection.execute(ADD)
        store.cancel(document.id)
        assert store.ends() == [], "the open transaction may be an earlier end"
        connection.commit()
    assert [ended.id for _, ended in store.ends()] == [document.id]
