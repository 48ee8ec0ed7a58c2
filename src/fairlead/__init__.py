"""Fairlead: fair priorities for the documents of many customers."""

from fairlead.core.classic import Check, ClassicPolicy, Counter

__all__ = ["Check", "ClassicPolicy", "Counter"]
__version__ = "0.1.0"
