"""The embedded store: one SQLite file, several processes."""

from fairlead.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
