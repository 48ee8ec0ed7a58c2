"""Opening: a new database is made, an unknown one is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from storekit import Clock, RulesInForce, sqlite_store, submit, work_off

from fairlead.errors import DamagedData, DataError, DiskFull, NewerData
from fairlead.model.customers import LONGEST_RESET_INTERVAL
from fairlead.storage.sqlite import connection as database
from fairlead.storage.sqlite.connection import APPLICATION_ID, migrations, prepare

HELPERS = Path(__file__).parents[1] / "helpers"


def opened(folder: Path) -> None:
    sqlite_store(folder, RulesInForce(), Clock()).close()


def test_a_new_database_has_the_newest_version(tmp_path: Path) -> None:
    opened(tmp_path)
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    assert connection.pragma("user_version") == len(migrations())
    assert connection.pragma("application_id") == APPLICATION_ID
    assert connection.pragma("journal_mode") == "wal"
    connection.close()


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    opened(tmp_path)
    before = (tmp_path / "fairlead.db").read_bytes()
    opened(tmp_path)
    assert (tmp_path / "fairlead.db").read_bytes() == before


def test_a_folder_of_the_first_version_goes_on_under_both_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = migrations()[:1]
    monkeypatch.setattr(database, "migrations", lambda: first)
    prepare(tmp_path / "fairlead.db")
    monkeypatch.undo()
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    connection.execute(OF_THE_FIRST_VERSION)
    connection.close()
    rules = RulesInForce()
    store = sqlite_store(tmp_path, rules, Clock())
    assert store.problems() == []
    assert not any(claim.suspect for claim in store.claim_for([], ["worker"] * 2))
    assert store.rescue_from("worker") == 2
    assert [(each.count, each.attempts) for each in store.documents()] == [(-1, 0), (0, 0)]
    assert [each.count for each in submit(store, "acme")] == [-2]
    rules.change(policy="fair")
    submit(store, "globex")
    assert store.problems() == []
    assert len(work_off(store)) == 4
    assert store.events()[0].customer == "acme"
    store.close()


OF_THE_FIRST_VERSION = """
INSERT INTO customers (
  id, name, created_at, count, counted_at, waiting, head_rank, head_seq, waits_since)
VALUES (7, 'acme', 1000.0, -1, 999999.0, 2, 1.0, 1, 1000.0);
INSERT INTO documents (
  seq, id, customer, name, size, sha256, state, priority, count, policy, urgent, submitted_at,
  rank, slot_rank, slot_seq, queued)
VALUES
  (1, 'a', 7, 'a.txt', 10, 'x', 'waiting', 1, 0, 'classic/1', 0, 1000.0, 1.0, 1.0, 1, 1),
  (2, 'b', 7, 'b.txt', 10, 'x', 'waiting', 1, -1, 'classic/1', 0, 1000.0, 1.0, 1.0, 2, 1);
UPDATE line_state SET next_seq = 3;
INSERT INTO events (at, kind, customer, document) VALUES (1000.0, 'submitted', 7, 1);
"""


def test_an_interval_longer_than_any_is_brought_to_the_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = migrations()[:10]
    monkeypatch.setattr(database, "migrations", lambda: before)
    prepare(tmp_path / "fairlead.db")
    monkeypatch.undo()
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    connection.execute(OF_LONG_INTERVALS)
    connection.close()
    store = sqlite_store(tmp_path, RulesInForce(), Clock())
    found = {each.name: each.settings.reset_interval for each in store.customers()}
    assert found == {"endless": LONGEST_RESET_INTERVAL, "short": 60.0, "usual": None}
    store.close()


OF_LONG_INTERVALS = """
INSERT INTO accounts (id) VALUES (1), (2), (3);
INSERT INTO customers (name, created_at, account, reset_interval)
VALUES ('endless', 1000.0, 1, 1e300), ('short', 1000.0, 2, 60.0), ('usual', 1000.0, 3, NULL);
"""


def test_deliveries_of_documents_that_were_deleted_before_keep_their_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = migrations()[:12]
    monkeypatch.setattr(database, "migrations", lambda: before)
    prepare(tmp_path / "fairlead.db")
    monkeypatch.undo()
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    connection.execute(OF_DELETED_DOCUMENTS)
    connection.close()
    opened(tmp_path)
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    (gone, answer), (kept, _) = connection.execute("SELECT body, answer FROM deliveries")
    connection.close()
    expected = {"type": "document.done", "timestamp": "1970-01-01T00:16:40.500Z"}
    assert json.loads(gone) == expected | {"data": {"id": "gone"}}
    assert answer is None
    assert json.loads(kept)["data"]["name"] == "secret.pdf"


OF_DELETED_DOCUMENTS = """
INSERT INTO accounts (id) VALUES (1);
INSERT INTO customers (id, name, created_at, account) VALUES (7, 'acme', 1000.0, 1);
INSERT INTO webhooks (id, customer, url, kinds, secret, created_at)
VALUES ('w', 7, 'http://a.test/', '["document.done"]', 'whsec_', 1000.0);
INSERT INTO deliveries (webhook, kind, document, body, created_at, answer)
SELECT 'w', 'document.done', value, '{"type":"document.done","data":{"name":"secret.pdf"}}', 1000.5,
  'thanks for secret.pdf'
FROM json_each('["gone", "kept"]');
INSERT INTO deleted (seq, id, customer, at) VALUES (1, 'gone', 7, 1001.0);
"""


def test_writes_wait_for_the_disk(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path, RulesInForce(), Clock())
    levels = []

    def note(_: apsw.Cursor, sql: str, __: object) -> bool:
        if sql == "COMMIT":
            levels.append(writer.pragma("synchronous"))
        return True

    writer = store._writer._connection  # type: ignore[attr-defined]  # of the embedded store
    writer.exec_trace = note
    submit(store, "acme", 2)
    store.claim("worker")
    submit(store, "acme")
    store.close()
    full, normal = 2, 1
    assert levels == [full, normal, full]


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    opened(tmp_path)
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    connection.pragma("user_version", len(migrations()) + 1)
    connection.close()
    with pytest.raises(NewerData):
        opened(tmp_path)


def test_who_has_it_open_writes_nothing_more_once_a_newer_version_came(tmp_path: Path) -> None:
    """What it would leave out, nobody could tell later."""
    store = sqlite_store(tmp_path, RulesInForce(), Clock())
    (before,) = submit(store, "acme")
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    connection.pragma("user_version", len(migrations()) + 1)
    with pytest.raises(NewerData):
        submit(store, "acme")
    connection.pragma("user_version", len(migrations()))
    connection.close()
    assert [each.id for each in store.documents()] == [before.id]
    assert submit(store, "acme")[0].count == -1
    store.close()


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = (tmp_path / "fairlead.db").read_bytes()
    with pytest.raises(DamagedData):
        opened(tmp_path)
    assert (tmp_path / "fairlead.db").read_bytes() == before


@pytest.mark.parametrize("text", ["short", "a long letter to somebody\n" * 500])
def test_a_text_file_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "fairlead.db").write_text(text)
    with pytest.raises(DamagedData):
        opened(tmp_path)
    assert (tmp_path / "fairlead.db").read_text() == text


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing"):
        opened(tmp_path / "missing")


def test_a_database_is_looked_at_under_the_lock_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise owner and tables may be seen at two moments, before and after another made it."""
    order = []

    class Noted(apsw.Connection):
        def __init__(self, *args: Any, **others: Any) -> None:
            order.append("look")
            super().__init__(*args, **others)

    monkeypatch.setattr("fcntl.flock", lambda *_: order.append("lock"))
    monkeypatch.setattr("apsw.Connection", Noted)
    prepare(tmp_path / "fairlead.db")
    assert order == ["lock", "look"]


def test_a_migration_that_does_not_fit_on_the_disk_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much() -> tuple[str, ...]:
        return ("CREATE TABLE big (x); INSERT INTO big VALUES (zeroblob(1000000));",)

    class Small(apsw.Connection):
        def __init__(self, *args: Any, **others: Any) -> None:
            super().__init__(*args, **others)
            self.pragma("max_page_count", 10)

    monkeypatch.setattr(database, "migrations", too_much)
    monkeypatch.setattr("apsw.Connection", Small)
    with pytest.raises(DiskFull):
        prepare(tmp_path / "fairlead.db")
    monkeypatch.undo()
    opened(tmp_path)


@pytest.mark.services
def test_processes_that_make_one_new_folder_at_once_all_succeed(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from storekit import *\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "sqlite_store(Path(sys.argv[1]), RulesInForce(), Clock()).close()\n"
    )
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        children = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(folder)],
                env={"PYTHONPATH": str(HELPERS)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        errors = [child.communicate()[1] for child in children]
        assert [child.returncode for child in children] == [0, 0], errors
