"""The Celery engine: the store is the truth, and a message to the broker only rings a bell."""

from typing import Any

from fairlead.errors import MissingExtra

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    """Celery looks for `app` here; whoever only rings needs no program."""
    if name != "app":
        raise AttributeError(name)
    try:
        from fairlead.worker.celery import celery_app as program  # noqa: PLC0415 (an extra, needed here alone)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the library {error.name} is missing; install it: pip install 'fairlead[celery]'"
        ) from None
    globals()["app"] = app = program.load()
    return app
