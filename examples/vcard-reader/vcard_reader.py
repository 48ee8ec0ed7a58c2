"""A reader of address cards (vCard): one more kind of document.

It runs in the sandboxed child process, like the readers that Fairlead has.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.read import CannotRead, Draft, Extracted, Rank, Reader, Source, Task

_BEGIN = b"BEGIN:VCARD"
_LABELS = {"FN": "Name", "ORG": "Organisation", "EMAIL": "E-mail", "TEL": "Telephone"}


def _recognises(source: Source) -> bool:
    """Look at the content, never at the name."""
    return source.head.lstrip(b"\xef\xbb\xbf\r\n ").upper().startswith(_BEGIN)


def _read(source: Source, task: Task) -> Extracted:
    draft = Draft("vcard", "vcard-reader 1.0", task.limits)
    content = source.read(task.limits.characters).decode("utf-8", "replace")
    cards = 0
    for name, value in _properties(content):
        if name == "BEGIN":
            cards += 1
        elif name in _LABELS and not draft.add(f"{_LABELS[name]}: {value}\n"):
            break
    if not draft.text.length:
        raise CannotRead("damaged", "The address card has no name and no address.")
    draft.fact("cards", cards)
    return draft.finish()


def _properties(content: str) -> Iterator[tuple[str, str]]:
    """Names and values; a line that begins with a space continues the one before it."""
    unfolded = content.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "")
    for line in unfolded.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name.partition(";")[0].upper(), value.replace("\\,", ",").replace(";", " ")


READER = Reader("vcard", Rank.SIGNATURE, _recognises, _read)
