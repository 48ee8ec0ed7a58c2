"""The embedded store: one SQLite file, several processes."""

from fairlead.storage.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
