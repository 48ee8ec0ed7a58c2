"""Reads catalogues in gettext's `.po` format."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from fairlead.i18n.languages import DEFAULT

_LINE = re.compile(r'(msgid_plural|msgid|msgstr)(?:\[(\d)\])? (".*")')


@dataclass
class CatalogueEntry:
    """One text with its translations: one, or one for each form of the plural."""

    flags: set[str] = field(default_factory=set)
    text: str = ""
    plural: str | None = None
    forms: dict[int, str] = field(default_factory=dict)


@cache
def catalogue(language: str) -> dict[str, tuple[str, ...]]:
    """The translations by English text, without fuzzy and missing ones; empty for English."""
    if language == DEFAULT:
        return {}
    return {
        entry.text: tuple(entry.forms[number] for number in sorted(entry.forms))
        for entry in entries(language)
        if entry.text and "fuzzy" not in entry.flags and all(entry.forms.values())
    }


def entries(language: str) -> list[CatalogueEntry]:
    """All entries of a language's file; the entry of the empty text is the header."""
    text = files(__package__).joinpath(f"{language}.po").read_text("utf-8")
    return [_entry(block) for block in re.split(r"\n\s*\n", text.strip())]


def _entry(block: str) -> CatalogueEntry:
    entry = CatalogueEntry()
    keyword, number = "msgid", 0
    for line in block.splitlines():
        if line.startswith("#,"):
            entry.flags |= {flag.strip() for flag in line[2:].split(",")}
            continue
        quoted = line
        if (match := _LINE.fullmatch(line)) is not None:
            keyword, number, quoted = match[1], int(match[2] or 0), match[3]
        if not quoted.startswith('"'):
            continue
        text = str(ast.literal_eval(quoted))
        if keyword == "msgid":
            entry.text += text
        elif keyword == "msgid_plural":
            entry.plural = (entry.plural or "") + text
        else:
            entry.forms[number] = entry.forms.get(number, "") + text
    return entry
