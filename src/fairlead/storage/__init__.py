"""The store: documents, customers, events and webhooks in a database.

`Store` defines what every store does; SQLite and PostgreSQL implement it.
"""

from __future__ import annotations

from fairlead.storage.sql.outbox import Outbox
from fairlead.storage.sql.store import Store

__all__ = ["Outbox", "Store"]
