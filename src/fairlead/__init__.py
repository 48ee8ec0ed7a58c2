"""Fairlead: fair priorities for the documents of many customers."""

from fairlead.app import Fairlead
from fairlead.core.classic import Check, ClassicPolicy, Counter
from fairlead.core.documents import Customer, Document
from fairlead.errors import FairleadError

__all__ = [
    "Check",
    "ClassicPolicy",
    "Counter",
    "Customer",
    "Document",
    "Fairlead",
    "FairleadError",
]
__version__ = "0.1.0"
