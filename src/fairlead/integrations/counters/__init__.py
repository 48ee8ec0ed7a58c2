"""Counter stores: the count of each customer in Redis, PostgreSQL or SQLite."""

from fairlead.integrations.counters.counter_store import CounterStore, open_counters

__all__ = ["CounterStore", "open_counters"]
