"""The named statements: the source uses each of them, and rows have the columns of their tables."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

import fairlead
from fairlead.storage.sql.ends import Running
from fairlead.storage.sql.queries import read_statements, shared_schema, sql, statements
from fairlead.storage.sql.waiting_rows import Waiting

PACKAGES = ("fairlead.storage.sql", "fairlead.storage.postgres")
ROWS_OF_WAITING = [
    "waiting_by_slot",
    "waiting_by_age",
    "waiting_ahead",
    "due_documents",
    "take_waiting",
    "take_delayed",
]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_source_uses_every_statement(package: str) -> None:
    sources = Path(fairlead.__file__).parent.rglob("*.py")
    strings = set(re.findall(r"[\"'](\w+)[\"']", "\n".join(path.read_text() for path in sources)))
    assert read_statements(package).keys() - strings == set()


def test_postgres_replaces_only_statements_that_there_are() -> None:
    assert read_statements("fairlead.storage.postgres").keys() <= statements().keys()


@pytest.mark.parametrize("name", ROWS_OF_WAITING)
def test_statements_of_waiting_documents_return_the_columns_of_their_record(name: str) -> None:
    assert columns(name) == list(Waiting._fields)


@pytest.mark.parametrize("name", ["take_running", "take_claim"])
def test_statements_of_running_documents_return_the_columns_of_their_record(name: str) -> None:
    assert columns(name) == list(Running._fields)


def columns(name: str) -> list[str]:
    """The names of the columns that a statement of the shared ones returns."""
    connection = apsw.Connection(":memory:")
    connection.execute(shared_schema())
    described: list[str] = []

    def describe(cursor: apsw.Cursor, _statement: str, _values: object) -> bool:
        described.extend(column[0] for column in cursor.get_description())
        return False

    connection.exec_trace = describe
    with pytest.raises(apsw.ExecTraceAbort):
        connection.execute(re.sub(r"\?\d?", "NULL", sql(name)))
    return described
