"""The facts of a document as its page shows them. They come from a process that is not trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fairlead.i18n import Translator
from fairlead.server.dashboard.texts import FACTS, INVOICE_FACTS

LONGEST = 300
"""Characters of a fact that are shown."""


class ShownFact(NamedTuple):
    """A fact with its translated label."""

    label: str
    value: str


def shown_facts(facts: Mapping[str, Any], translator: Translator) -> list[ShownFact]:
    """What the reader found, in the order of the tables of labels; unknown facts are left out."""
    invoice = facts.get("invoice")
    own = _shown(facts, FACTS, translator)
    return own + _shown(invoice if isinstance(invoice, dict) else {}, INVOICE_FACTS, translator)


def _shown(
    facts: Mapping[str, Any], labels: Mapping[str, str], translator: Translator
) -> list[ShownFact]:
    texts = {name: _text(facts.get(name), translator) for name in labels}
    return [
        ShownFact(translator.text(label), texts[name])
        for name, label in labels.items()
        if texts[name]
    ]


def _text(value: object, translator: Translator) -> str:
    """A text or number; nothing for anything else."""
    if isinstance(value, str):
        return value[:LONGEST]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return translator.amount(value) if is_number else ""  # type: ignore[arg-type]


def warnings(facts: Mapping[str, Any]) -> list[str]:
    """The warnings of the reader, in English."""
    found = facts.get("warnings")
    return [str(text)[:LONGEST] for text in found] if isinstance(found, list) else []
