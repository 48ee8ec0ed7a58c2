"""The embedded store: one SQLite file, several processes."""

from fairlead.stores.sqlite.embedded import SqliteStore

__all__ = ["SqliteStore"]
