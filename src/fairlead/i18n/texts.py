"""The English texts that all catalogues must have."""

from __future__ import annotations

from fairlead.errors import error_classes
from fairlead.model.states import REFUSALS, Action
from fairlead.policy.explain import PHRASES, WORDS, Plural
from fairlead.policy.failures import SENTENCES

FORECAST = "expected to start in about {expected} ({low} to {high})"
FORECAST_NOW = "expected to start immediately"
MOST_AHEAD = "customers with documents before it: {most}"
LENGTHS = {
    86_400: Plural("number", "{number} day", "{number} days"),
    3600: Plural("number", "{number} hour", "{number} hours"),
    60: Plural("number", "{number} minute", "{number} minutes"),
    1: Plural("number", "{number} second", "{number} seconds"),
}
"""Units of time, by their seconds."""


def sentences() -> set[str]:
    """Texts without plural forms."""
    return {
        *(REFUSALS[Action.CANCEL], REFUSALS[Action.RETRY]),  # the actions of customers
        *WORDS.values(),
        *SENTENCES.values(),
        *(error.title for error in error_classes()),
        FORECAST,
        FORECAST_NOW,
        MOST_AHEAD,
    }


def plurals() -> set[Plural]:
    """Texts that depend on a number."""
    return {*PHRASES.values(), *LENGTHS.values()}
