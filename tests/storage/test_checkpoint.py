"""SQLite's WAL does not grow without limit, and checkpoints cost writers little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread

import apsw
import pytest

from fairlead.errors import DataError
from fairlead.storage.sqlite import checkpoint
from fairlead.storage.sqlite.checkpoint import Checkpointer

LONG = 20
PAGES = 5  # of each commit, about


class Writing:
    """A connection that writes, and how long its log was after each commit."""

    def __init__(self, path: Path, another: Callable[[], apsw.Connection] | None = None) -> None:
        self.path = path
        self.helpers = 0
        self.connection = apsw.Connection(str(path))
        self.connection.execute(
            "PRAGMA journal_mode = WAL; CREATE TABLE t (content BLOB)"
        ).fetchall()
        self.checkpointer = Checkpointer(self.connection, another or self.another)

    def another(self) -> apsw.Connection:
        self.helpers += 1
        return apsw.Connection(str(self.path))

    def commit(self) -> int:
        """Write, wait for a running checkpoint, and return the pages of the WAL."""
        self.connection.execute("INSERT INTO t VALUES (zeroblob(?))", (4096 * (PAGES - 1),))
        self.checkpointer.after_commit()
        self.checkpointer.close()
        return self.checkpointer._pages


@pytest.fixture(autouse=True)
def short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "LONG_WAL", LONG)


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    writing = Writing(tmp_path / "a.db")
    yield writing
    writing.connection.close()


def test_the_log_begins_anew_again_and_again(writing: Writing) -> None:
    pages = [writing.commit() for _ in range(60)]
    assert max(pages) < LONG + 4 * PAGES
    assert sum(after < before for before, after in pairwise(pages)) >= 5
    assert writing.connection.execute("SELECT count(*) FROM t").get == 60


def test_the_helper_copies_and_the_writer_has_the_rest(writing: Writing) -> None:
    while writing.commit() < LONG:
        assert writing.helpers == 0
    assert writing.helpers == 1
    home = writing.path.stat().st_size // 4096
    assert home > LONG // 2
    writing.commit()
    assert writing.commit() < LONG
    assert writing.helpers == 1


def test_while_somebody_reads_an_old_page_nobody_tries_at_each_commit(writing: Writing) -> None:
    writing.commit()
    reader = apsw.Connection(str(writing.path))
    reader.execute("BEGIN; SELECT count(*) FROM t").fetchall()
    pages = [writing.commit() for _ in range(60)]
    assert pages[-1] > 10 * LONG
    assert writing.helpers <= pages[-1] // LONG
    reader.close()
    assert min(writing.commit() for _ in range(30)) < LONG


def test_the_rest_is_tried_again_at_the_next_commit(writing: Writing) -> None:
    writing.commit()
    reader = apsw.Connection(str(writing.path))
    reader.execute("BEGIN; SELECT count(*) FROM t").fetchall()
    while writing.commit() < LONG:
        """Until the checkpoint thread has copied the pages without readers."""
    assert writing.commit() > LONG
    reader.close()
    assert min(writing.commit() for _ in range(2)) < LONG


def test_an_old_sqlite_lets_the_writer_do_it(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "MAY_CHECKPOINT_IN_THREAD", False)
    assert max(writing.commit() for _ in range(60)) < LONG + 4 * PAGES
    assert writing.helpers == 0


def test_a_helper_that_fails_harms_nobody(tmp_path: Path) -> None:
    def cannot() -> apsw.Connection:
        raise DataError("no more files can be opened")

    writing = Writing(tmp_path / "a.db", cannot)
    pages = [writing.commit() for _ in range(60)]
    assert max(pages) < LONG + 4 * PAGES  # the writer does it all, then
    writing.connection.close()


def test_where_no_thread_can_be_started_the_writer_does_it(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", cannot)
    assert max(writing.commit() for _ in range(60)) < LONG + 4 * PAGES
    assert writing.helpers == 0
