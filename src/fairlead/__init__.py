"""Fairlead: fair priorities for the documents of many customers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.errors import FairleadError
from fairlead.model.customers import Check, Counter
from fairlead.policy.classic import ClassicPolicy

if TYPE_CHECKING:
    from fairlead.app import Fairlead
    from fairlead.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Check",
    "ClassicPolicy",
    "Client",
    "Counter",
    "Fairlead",
    "FairleadError",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What brings in much of the house is loaded when asked for, as worker processes never do."""
    if name == "Fairlead":
        from fairlead.app import Fairlead  # noqa: PLC0415

        return Fairlead
    if name in ("AsyncClient", "Client"):
        from fairlead import client  # noqa: PLC0415

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
