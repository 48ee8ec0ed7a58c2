"""The store for several machines: one PostgreSQL database, any number of processes."""

from fairlead.storage.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
