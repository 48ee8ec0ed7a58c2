"""Accepting a document: its bytes to disk, then the check and its row in one transaction."""

from fairlead.intake.intake import Intake, Offer, Source, check_not_empty
from fairlead.intake.names import check_customer, check_name

__all__ = ["Intake", "Offer", "Source", "check_customer", "check_name", "check_not_empty"]
