"""Imports all rows of another store, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.errors import TargetNotEmpty
from fairlead.storage.postgres.session import Session
from fairlead.storage.sql.rows import NUMBERED, TABLES, TableCopy

_COLUMNS = """
SELECT column_name, data_type = 'boolean' FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = ? ORDER BY ordinal_position"""
_GUARDED = """
SELECT relname FROM pg_class
WHERE relforcerowsecurity AND relnamespace = current_schema()::regnamespace"""
_DOCUMENT_NUMBERS = """
SELECT setval('document_numbers', greatest(
  (SELECT coalesce(max(seq), 0) FROM documents), (SELECT coalesce(max(seq), 0) FROM deleted)) + 1,
  FALSE)"""
_IS_USED = """
SELECT EXISTS (SELECT 1 FROM customers) OR EXISTS (SELECT 1 FROM events)
  OR EXISTS (SELECT 1 FROM access_keys) OR EXISTS (SELECT 1 FROM queue_costs)"""


def import_tables(session: Session, tables: TableCopy, where: str) -> dict[str, int]:
    """Copy all tables into an empty store; return the number of rows of each."""
    if session.execute(_IS_USED).get:
        raise TargetNotEmpty(
            f"{where} already has data; choose an empty database, "
            "or an empty schema in the URL: ?options=-csearch_path%3Dfairlead"
        )
    guarded = [row[0] for row in session.execute(_GUARDED)]
    _alter(session, guarded, "NO FORCE ROW LEVEL SECURITY")  # COPY FROM does not support it
    session.execute("DELETE FROM queue_state")
    numbers = {name: _copy(session, name, tables) for name in TABLES}
    for name, column in NUMBERED.items():
        query = f"SELECT setval(pg_get_serial_sequence('{name}', '{column}'), ?, TRUE)"
        if last := tables.last_number(name):
            session.execute(query, (last,))
    session.execute(_DOCUMENT_NUMBERS)
    _alter(session, guarded, "FORCE ROW LEVEL SECURITY")
    return numbers


def _alter(session: Session, tables: Iterable[str], action: str) -> None:
    for name in tables:
        session.execute(f"ALTER TABLE {name} {action}")


def _copy(session: Session, table: str, tables: TableCopy) -> int:
    columns = session.execute(_COLUMNS, (table,)).fetchall()
    names = [name for name, _ in columns]
    number = 0
    statement = f"COPY {table} ({', '.join(names)}) FROM STDIN".encode()
    with session.connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in tables.rows(table, names):
            copy.write_row(
                [
                    bool(value) if is_boolean else value
                    for value, (_, is_boolean) in zip(row, columns, strict=True)
                ]
            )
            number += 1
    return number
