"""All rows of the SQLite file, for another store to take over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import apsw

from fairlead.storage.sql.rows import Row
from fairlead.storage.sql.table_copy import NUMBERED


class SqliteTables:
    """The rows, seen through a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """All rows of a table."""
        names = ", ".join(f'"{each}"' for each in columns)
        return iter(self._connection.execute(f'SELECT {names} FROM "{table}"'))  # noqa: S608 (ours)

    def last_number(self, table: str) -> int:
        """The highest number that a row of this table ever had."""
        kept = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        highest = f'SELECT max("{NUMBERED[table]}") FROM "{table}"'  # noqa: S608 (ours)
        return max(kept.get or 0, self._connection.execute(highest).get or 0)
