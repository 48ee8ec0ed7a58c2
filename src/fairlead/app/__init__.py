"""`Fairlead`: an embedded installation, put together from its parts."""

from __future__ import annotations

from fairlead.app.fairlead import Fairlead
from fairlead.app.open_storage import postgres_store

__all__ = ["Fairlead", "postgres_store"]
