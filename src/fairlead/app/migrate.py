"""Moves the store of a data folder to a database server."""

from __future__ import annotations

from pathlib import Path

from fairlead.app import postgres_store
from fairlead.config.data_folder import DataFolder
from fairlead.config.settings import Sources
from fairlead.storage.sqlite import SqliteStore


def migrate_store(data: Path, to: str) -> dict[str, int]:
    """Copy all rows of a data folder to an empty PostgreSQL database; return rows per table.

    No other process can write to the folder meanwhile. Its database is renamed afterwards. Files,
    such as long documents and texts, stay where they are.
    """
    folder = DataFolder(data)
    folder.check_exists()
    rules = Sources(data).rules
    with folder.as_server():
        target = postgres_store()(to, rules=rules)
        source = SqliteStore(folder.database, rules=rules, clock=target.now)
        try:
            with source.held_still() as tables:
                numbers = target.import_tables(tables)
        finally:
            source.close()
            target.close()
        folder.put_database_aside()
    return numbers
