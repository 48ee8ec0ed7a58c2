"""Fair priorities for work that others queue: the counts of customers, and what they give.

A counter store keeps the count of each customer in Redis, PostgreSQL or SQLite. `PriorityAssigner`
reads it and gives a priority by the classic rule, also while the store is unavailable.
"""

from fairlead.integrations.counters.base import CounterStore, open_counters
from fairlead.integrations.priorities import LOGGER, Placement, PriorityAssigner
from fairlead.integrations.rules import CustomerRules

__all__ = [
    "LOGGER",
    "CounterStore",
    "CustomerRules",
    "Placement",
    "PriorityAssigner",
    "open_counters",
]
