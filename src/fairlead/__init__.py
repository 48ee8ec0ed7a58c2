"""Fairlead: fair priorities for the documents of many customers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.core.classic import Check, ClassicPolicy, Counter
from fairlead.errors import FairleadError

if TYPE_CHECKING:
    from fairlead.app import Fairlead

__all__ = ["Check", "ClassicPolicy", "Counter", "Fairlead", "FairleadError"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`Fairlead` brings in the whole house: loaded when asked for, as worker processes never do."""
    if name == "Fairlead":
        from fairlead.app import Fairlead  # noqa: PLC0415

        return Fairlead
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
