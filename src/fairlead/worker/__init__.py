"""Who runs the work."""

from fairlead.worker.engine import LocalEngine

__all__ = ["LocalEngine"]
