"""The Celery engine: the store decides the order, and a message only wakes a worker."""

from typing import Any

from fairlead.extras import needs_extra

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    """Load the Celery app when it is first used; a process that only publishes does not need it."""
    if name != "app":
        raise AttributeError(name)
    with needs_extra("celery"):
        from fairlead.worker.celery import celery_app  # noqa: PLC0415 (an extra, needed here alone)
    globals()["app"] = app = celery_app.load()
    return app
