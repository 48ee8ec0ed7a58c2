"""Fairlead: fair priorities for the documents of many customers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.app import Fairlead
    from fairlead.client import AsyncClient, Client
    from fairlead.errors import FairleadError
    from fairlead.model.customers import Check, Counter, Customer
    from fairlead.model.documents import Document, Event
    from fairlead.model.explanations import Explanation
    from fairlead.model.states import State
    from fairlead.policy.classic import ClassicPolicy
    from fairlead.steps.declare import Refuse, Result, RetryLater, step
    from fairlead.steps.job import Job

__all__ = [
    "AsyncClient",
    "Check",
    "ClassicPolicy",
    "Client",
    "Counter",
    "Customer",
    "Document",
    "Event",
    "Explanation",
    "Fairlead",
    "FairleadError",
    "Job",
    "Refuse",
    "Result",
    "RetryLater",
    "State",
    "step",
]
__version__ = "0.1.0"

if not TYPE_CHECKING:
    from importlib import import_module

    def __getattr__(name: str) -> object:
        """Load a public name when it is asked for: most processes need few of them."""
        modules = {
            "AsyncClient": "client",
            "Check": "model.customers",
            "ClassicPolicy": "policy.classic",
            "Client": "client",
            "Counter": "model.customers",
            "Customer": "model.customers",
            "Document": "model.documents",
            "Event": "model.documents",
            "Explanation": "model.explanations",
            "Fairlead": "app",
            "FairleadError": "errors",
            "Job": "steps.job",
            "Refuse": "steps.declare",
            "Result": "steps.declare",
            "RetryLater": "steps.declare",
            "State": "model.states",
            "step": "steps.declare",
        }
        if name not in modules:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{modules[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
