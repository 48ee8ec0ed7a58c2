"""Fair priorities for work that others queue: the counts of customers, and what they give.

A ledger keeps the count of each customer in Redis, PostgreSQL or SQLite. `Placer` asks it and gives
a priority by the classic rule, whatever happens to the ledger.
"""

from fairlead.ledgers.ledger import Ledger, open_ledger
from fairlead.ledgers.placer import LOGGER, Placement, Placer
from fairlead.ledgers.rules import Rules

__all__ = ["LOGGER", "Ledger", "Placement", "Placer", "Rules", "open_ledger"]
