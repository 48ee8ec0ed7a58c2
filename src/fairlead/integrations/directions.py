"""Priority 1 goes first; brokers that count the other way round are translated here alone."""

from __future__ import annotations

from fairlead.integrations.rules import LAST


def for_redis(priority: int) -> int:
    """Redis lists, as Celery reads them: low numbers first, as we count."""
    return priority


def for_rabbitmq(priority: int) -> int:
    """RabbitMQ: high numbers first; 0, which stands for no priority, stays last."""
    return LAST + 1 - priority
