"""Fair priorities for any Celery tasks, without the rest of Fairlead."""

from fairlead.extras import needs_extra

with needs_extra("celery"):
    from fairlead.integrations.celery.fair_priorities import FairPriorities

__all__ = ["FairPriorities"]
