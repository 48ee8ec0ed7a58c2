"""Accepting a document: the check, its row and its bytes in one commit, or long ones in a file."""

from fairlead.intake.intake import Intake, Offer
from fairlead.intake.sources import check_not_empty
from fairlead.model.names import check_customer, check_name

__all__ = ["Intake", "Offer", "check_customer", "check_name", "check_not_empty"]
