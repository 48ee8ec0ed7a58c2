"""Fair priorities for the tasks of a Celery application: `FairPriorities`."""

from __future__ import annotations

from fairlead.integrations.celery import FairPriorities

__all__ = ["FairPriorities"]
