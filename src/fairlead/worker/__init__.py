"""Engines: claim documents, run workers, save results."""

from fairlead.worker.engine import LocalEngine

__all__ = ["LocalEngine"]
