"""Who runs the work."""

from fairlead.engines.local import LocalEngine

__all__ = ["LocalEngine"]
