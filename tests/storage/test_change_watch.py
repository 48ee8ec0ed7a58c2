"""The watch for commits of other processes misses none, and an unchanged WAL needs no query."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from fairlead.storage.sqlite import change_watch
from fairlead.storage.sqlite.change_watch import ChangeWatcher


class Asked(ChangeWatcher):
    """A watcher that counts its queries."""

    times = 0

    def _query_version(self) -> int:
        self.times += 1
        return super()._query_version()


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(tmp_path / "data.db"))
    connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (number INTEGER)").fetchall()
    yield connection
    connection.close()


@pytest.fixture
def watching(writing: apsw.Connection) -> Iterator[Asked]:
    watcher = Asked(Path(writing.filename))
    yield watcher
    watcher.close()


def let_rest(connection: apsw.Connection) -> None:
    """Let the log be as if it had been written long ago."""
    os.utime(f"{connection.filename}-wal", (1.0, 1.0))


def test_no_commit_is_missed_however_soon_it_comes(
    writing: apsw.Connection, watching: Asked
) -> None:
    seen = [watching.version()]
    for number in range(300):  # many of them within one tick of the file's clock
        writing.execute("INSERT INTO t VALUES (?)", (number,))
        seen.append(watching.version())
    assert len(set(seen)) == len(seen)


def test_a_log_at_rest_is_not_asked_about(
    writing: apsw.Connection, watching: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_watch, "QUERY_ANYWAY_SECONDS", 1000.0)
    let_rest(writing)
    before = watching.version()
    assert [watching.version() for _ in range(10)] == [before] * 10
    assert watching.times == 1
    writing.execute("INSERT INTO t VALUES (1)")
    assert watching.version() != before


def test_a_commit_that_the_file_does_not_tell_of_is_seen_in_the_end(
    writing: apsw.Connection, watching: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the disk took longer to flush it than a time takes to settle."""
    writing.execute("INSERT INTO t VALUES (1)")
    writing.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()  # the log keeps its size from here
    let_rest(writing)
    before = watching.version()
    writing.execute("INSERT INTO t VALUES (2)")
    let_rest(writing)
    assert watching.version() == before, "the file tells of nothing"
    monkeypatch.setattr(change_watch, "monotonic", lambda: float("inf"))
    assert watching.version() != before


def test_without_a_log_sqlite_is_asked(writing: apsw.Connection, watching: Asked) -> None:
    Path(f"{writing.filename}-wal").unlink()
    watching.version()
    watching.version()
    assert watching.times == 2
