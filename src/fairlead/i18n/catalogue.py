"""Reads catalogues in gettext's `.po` format, as translators' tools write them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from fairlead.i18n.negotiate import DEFAULT

_LINE = re.compile(r'(msgid_plural|msgid|msgstr)(?:\[(\d)\])? (".*")')


@dataclass
class Entry:
    """One text with its translations: one, or one for each form of the plural."""

    flags: set[str] = field(default_factory=set)
    text: str = ""
    plural: str | None = None
    forms: dict[int, str] = field(default_factory=dict)


@cache
def catalogue(language: str) -> dict[str, tuple[str, ...]]:
    """The translations of a language by their English text; fuzzy and missing ones are left out.

    English, the source, has none.
    """
    if language == DEFAULT:
        return {}
    return {
        each.text: tuple(each.forms[number] for number in sorted(each.forms))
        for each in entries(language)
        if each.text and "fuzzy" not in each.flags and all(each.forms.values())
    }


def entries(language: str) -> list[Entry]:
    """Everything in a language's file; the header is the entry of the empty text."""
    text = files(__package__).joinpath(f"{language}.po").read_text("utf-8")
    return [_entry(block) for block in re.split(r"\n\s*\n", text.strip())]


def _entry(block: str) -> Entry:
    entry = Entry()
    where: tuple[str, int] = ("msgid", 0)
    for line in block.splitlines():
        if line.startswith("#,"):
            entry.flags |= {each.strip() for each in line[2:].split(",")}
        elif (found := _LINE.fullmatch(line)) is not None:
            where = (found[1], int(found[2] or 0))
            _add(entry, where, found[3])
        elif line.startswith('"'):
            _add(entry, where, line)
    return entry


def _add(entry: Entry, where: tuple[str, int], quoted: str) -> None:
    name, number = where
    text = str(ast.literal_eval(quoted))
    if name == "msgid":
        entry.text += text
    elif name == "msgid_plural":
        entry.plural = (entry.plural or "") + text
    else:
        entry.forms[number] = entry.forms.get(number, "") + text
