"""Every English text that the catalogues must have."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.errors import FairleadError
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
"""Lengths of time, by their seconds."""


def errors(base: type[FairleadError] = FairleadError) -> Iterator[type[FairleadError]]:
    """Every class of the tree of errors."""
    yield base
    for subclass in base.__subclasses__():
        yield from errors(subclass)


def sentences() -> set[str]:
    """Texts of one form."""
    refusals = {REFUSALS[Action.CANCEL], REFUSALS[Action.RETRY]}  # what customers may ask for
    return refusals | {
        *WORDS.values(),
        *SENTENCES.values(),
        *(each.title for each in errors()),
        FORECAST,
        FORECAST_NOW,
        MOST_AHEAD,
    }


def plurals() -> set[Plural]:
    """Texts that depend on a number."""
    return {*PHRASES.values(), *LENGTHS.values()}
