"""Opening: the tables of a new database are made, an unknown one is left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from storekit import Clock, RulesInForce, StoreFactory, sqlite_store, submit

from fairlead.errors import DamagedData, DataError, DiskFull, NewerData, OtherSchema
from fairlead.storage.postgres import connection as server
from fairlead.storage.sql.queries import SCHEMA_NUMBER, Schema, schema_of, shared_schema
from fairlead.storage.sqlite import connection as database
from fairlead.storage.sqlite.connection import APPLICATION_ID, prepare

pytestmark = pytest.mark.postgres_differs

HELPERS = Path(__file__).parents[1] / "helpers"


def opened(folder: Path) -> None:
    sqlite_store(folder, RulesInForce(), Clock()).close()


def test_a_new_database_has_number_and_hash_of_the_schema(tmp_path: Path) -> None:
    opened(tmp_path)
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    assert connection.pragma("user_version") == SCHEMA_NUMBER == 1
    assert connection.pragma("application_id") == APPLICATION_ID
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("auto_vacuum") == 2  # incremental
    identity = connection.execute("SELECT identity FROM schema_identity").get
    assert identity == database.schema().identity
    connection.close()


def test_the_identity_follows_the_words_of_the_schema_and_not_its_comments() -> None:
    script = shared_schema()
    identity = schema_of(script).identity
    assert identity.startswith("1-")
    assert schema_of(script.replace("\n", "  \n") + "-- A comment.\n").identity == identity
    assert schema_of(script.replace("urgent", "hurried")).identity != identity


def test_tables_of_another_schema_are_refused(
    tmp_path: Path, store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first release the schema is changed in place."""
    for module in (database, server):
        other = schema_of(module.schema().script + "CREATE TABLE more (id BIGINT);")
        with monkeypatch.context() as patch:
            patch.setattr(module, "schema", lambda other=other: other)
            if (module is server) == (store_factory is not sqlite_store):
                store_factory(tmp_path, RulesInForce(), Clock()).close()
    with pytest.raises(OtherSchema, match="another version of Fairlead before its first release"):
        store_factory(tmp_path, RulesInForce(), Clock())


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    opened(tmp_path)
    before = (tmp_path / "fairlead.db").read_bytes()
    opened(tmp_path)
    assert (tmp_path / "fairlead.db").read_bytes() == before


def test_every_connection_is_set_up(tmp_path: Path) -> None:
    opened(tmp_path)
    connection = database.connect(tmp_path / "fairlead.db")
    names = ("journal_mode", "synchronous", "secure_delete", "cache_size", "temp_store")
    assert [connection.pragma(name) for name in names] == ["wal", 2, 1, -4096, 2]
    connection.close()


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
    connection.pragma("user_version", SCHEMA_NUMBER + 1)
    connection.close()
    with pytest.raises(NewerData):
        opened(tmp_path)


def test_who_has_it_open_writes_nothing_more_once_a_newer_version_came(tmp_path: Path) -> None:
    """Nobody could find out later what was left out."""
    store = sqlite_store(tmp_path, RulesInForce(), Clock())
    (before,) = submit(store, "acme")
    connection = apsw.Connection(str(tmp_path / "fairlead.db"))
    connection.pragma("user_version", SCHEMA_NUMBER + 1)
    with pytest.raises(NewerData):
        submit(store, "acme")
    connection.pragma("user_version", SCHEMA_NUMBER)
    connection.close()
    assert [document.id for document in store.documents()] == [before.id]
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


def test_tables_that_do_not_fit_on_the_disk_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much() -> Schema:
        return schema_of("CREATE TABLE big (x); INSERT INTO big VALUES (zeroblob(1000000));")

    class Small(apsw.Connection):
        def __init__(self, *args: Any, **others: Any) -> None:
            super().__init__(*args, **others)
            self.pragma("max_page_count", 10)

    monkeypatch.setattr(database, "schema", too_much)
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
