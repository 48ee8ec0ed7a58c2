"""Fair priorities for any Celery tasks, without the rest of Fairlead."""

from fairlead.errors import MissingExtra

try:
    from fairlead.integrations.celery.fair_priorities import FairPriorities
except ModuleNotFoundError as error:
    raise MissingExtra(
        f"the library {error.name} is missing; install it: pip install 'fairlead[celery]'"
    ) from None

__all__ = ["FairPriorities"]
