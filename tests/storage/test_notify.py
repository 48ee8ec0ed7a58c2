"""NOTIFY after commits: soon, not too often, and never left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from queue import Queue

import postgreskit
import psycopg
import pytest
from storekit import Clock, RulesInForce, postgres_store, submit_one

from fairlead.storage.postgres import PostgresStore
from fairlead.storage.postgres.listen import NotifyFeed
from fairlead.storage.postgres.notify import PAUSE_SECONDS, NotifyPublisher

pytestmark = pytest.mark.services

TIMEOUT = 30.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    return postgreskit.url_for(tmp_path)


@pytest.fixture
def publisher(url: str) -> Iterator[NotifyPublisher]:
    with closing(NotifyPublisher(url)) as publisher:
        yield publisher


@pytest.fixture
def listening(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("LISTEN fairlead")
        yield connection


@pytest.fixture
def feeds(url: str) -> Iterator[Callable[[], NotifyFeed]]:
    """Feeds of one schema, each as another process would have it."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(NotifyFeed(url, lambda: 0)))


def must_hear(connection: psycopg.Connection) -> None:
    assert list(connection.notifies(timeout=TIMEOUT, stop_after=1)), "no notification came"


def number_of_notifications(connection: psycopg.Connection) -> int:
    """How many have come by now, and before one that is sent for this purpose."""
    connection.execute("NOTIFY fairlead, 'last'")
    for number, note in enumerate(connection.notifies(timeout=TIMEOUT)):
        if note.payload == "last":
            return number
    raise AssertionError("the last notification did not come")


def subscribe(feed: NotifyFeed) -> Queue[float]:
    """The times of wake-ups, from when it listens."""
    woken: Queue[float] = Queue()
    feed.subscribe(lambda: woken.put(time.monotonic()))
    woken.get(timeout=TIMEOUT)
    return woken


def test_a_change_is_published(publisher: NotifyPublisher, listening: psycopg.Connection) -> None:
    for _ in range(3):
        publisher.changed()
        must_hear(listening)


def test_changes_in_quick_succession_share_a_notification(
    publisher: NotifyPublisher, listening: psycopg.Connection
) -> None:
    publisher.changed()
    must_hear(listening)  # it is connected
    began = time.monotonic()
    for _ in range(20_000):
        publisher.changed()
    publisher.close()
    passed = time.monotonic() - began
    assert 1 <= number_of_notifications(listening) <= passed / PAUSE_SECONDS + 2


def test_the_last_change_is_made_up_for(feeds: Callable[[], NotifyFeed]) -> None:
    commits, seen = [0], Queue[int]()
    feeds().subscribe(lambda: seen.put(commits[0]))
    seen.get(timeout=TIMEOUT)  # it listens
    committing = feeds()
    for _ in range(2000):
        commits[0] += 1
        committing.committed()
    while seen.get(timeout=TIMEOUT) < 2000:
        """The last one is still to come."""


def test_closing_sends_what_is_due(url: str, listening: psycopg.Connection) -> None:
    """As a command does that submits one document and ends."""
    for _ in range(5):
        with closing(NotifyPublisher(url)) as publisher:
            publisher.changed()
        must_hear(listening)


def test_nothing_is_sent_where_nothing_changed(url: str, listening: psycopg.Connection) -> None:
    NotifyPublisher(url).close()
    assert number_of_notifications(listening) == 0


def test_a_lost_connection_is_replaced(
    publisher: NotifyPublisher, listening: psycopg.Connection
) -> None:
    publisher.changed()
    must_hear(listening)
    lost = publisher.backend_pid
    listening.execute("SELECT pg_terminate_backend(%s, 30000)", (lost,))
    publisher.changed()
    must_hear(listening)
    assert publisher.backend_pid != lost


def test_closing_does_not_wait_for_a_server_that_is_gone() -> None:
    publisher = NotifyPublisher("postgresql://nobody@127.0.0.1:1/none")
    publisher.changed()
    publisher.close()
    assert publisher.backend_pid is None


def test_subscribers_of_the_same_process_are_woken_once_and_at_once(
    feeds: Callable[[], NotifyFeed],
) -> None:
    mine, other = feeds(), feeds()
    my_wakeups, others_wakeups = subscribe(mine), subscribe(other)
    mine.committed()
    assert my_wakeups.qsize() == 1
    others_wakeups.get(timeout=TIMEOUT)
    other.committed()  # its notification comes after mine
    my_wakeups.get(timeout=TIMEOUT)
    my_wakeups.get(timeout=TIMEOUT)
    assert my_wakeups.empty()


def test_a_commit_of_a_store_wakes_another_one_without_the_trigger(
    tmp_path: Path, url: str
) -> None:
    def store() -> PostgresStore:
        opened = postgres_store(tmp_path, RulesInForce(), Clock())
        assert isinstance(opened, PostgresStore)
        return opened

    with closing(store()) as committing, closing(store()) as waiting:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TRIGGER IF EXISTS ring ON events")
        woken: Queue[bool] = Queue()
        with waiting.changes.subscribe(lambda: woken.put(True)) as changes:
            woken.get(timeout=TIMEOUT)  # it listens
            changes.changed()
            submit_one(committing, "acme")
            woken.get(timeout=TIMEOUT)
            assert changes.changed()
