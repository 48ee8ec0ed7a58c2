"""`Fairlead`: the whole embedded installation as one object. Here the parts are wired together."""

from __future__ import annotations

from fairlead.app.fairlead import Fairlead
from fairlead.app.wiring import postgres_store

__all__ = ["Fairlead", "postgres_store"]
