"""Accepting a document: its bytes to disk, then the check and its row in one transaction."""

from fairlead.intake.intake import Intake, Offer, Source

__all__ = ["Intake", "Offer", "Source"]
