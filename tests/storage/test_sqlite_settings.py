"""The settings of SQLite on which its promises and its speed depend."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fairlead.storage.sql.queries import sql
from fairlead.storage.sqlite.connection import AT_ONCE, connect, prepare


@pytest.mark.parametrize("number", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE])
def test_any_number_of_rows_is_inserted_in_order(tmp_path: Path, number: int) -> None:
    prepare(tmp_path / "fairlead.db")
    with closing(connect(tmp_path / "fairlead.db")) as connection:
        events = [(float(at), "submitted", 1, at, None, None) for at in range(number)]
        connection.executemany(sql("add_event"), events)
        inserted = connection.execute(
            "SELECT at, kind, customer, document, data, actor FROM events"
        )
        assert inserted.fetchall() == events
        connection.executemany(sql("save_tally"), [("waiting", 1, 1)] * number)
        total = connection.execute("SELECT coalesce(sum(documents), 0) FROM queue_tallies").get
        assert total == number, "each row changes the one before it"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("journal_mode", "wal"),  # readers and the writer do not wait for each other
        ("synchronous", 2),  # FULL
        ("secure_delete", 1),
        ("auto_vacuum", 2),  # incremental
        ("cache_size", -4096),  # of readers
        ("journal_size_limit", 67108864),
        ("temp_store", 2),  # memory
    ],
)
def test_every_setting_is_in_force(tmp_path: Path, name: str, value: object) -> None:
    prepare(tmp_path / "fairlead.db")
    connection = connect(tmp_path / "fairlead.db")
    try:
        assert connection.pragma(name) == value
    finally:
        connection.close()
