"""The settings of SQLite on which its promises and its speed depend."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.storage.sqlite.connection import connect, prepare


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
