"""`Fairlead`: the whole embedded installation as one object. Here the parts are put together."""

from __future__ import annotations

from fairlead.app.fairlead import Fairlead
from fairlead.app.open_storage import postgres_store

__all__ = ["Fairlead", "postgres_store"]
