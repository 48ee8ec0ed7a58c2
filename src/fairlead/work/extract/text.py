"""Plain text in any encoding."""

from __future__ import annotations

from fairlead.work.extract.base import Draft, Extracted, Rank, Reader, Source, library
from fairlead.work.extract.decode import decode, opening

_LONGEST_CHARACTER = 4


def recognises(source: Source) -> bool:
    """Whether the first bytes are text: few control characters, and some encoding fits."""
    return opening(source.head) is not None


def read(source: Source, max_characters: int) -> Extracted:
    """The text itself."""
    limit = (max_characters + 2) * _LONGEST_CHARACTER
    decoded = decode(source.read(limit), cut=source.size > limit)
    draft = Draft("text", library("charset-normalizer"), max_characters)
    draft.add(decoded.text)
    draft.fact("encoding", decoded.encoding)
    if decoded.guessed:
        draft.warn(f"the encoding was guessed: {decoded.encoding}")
    return draft.finish()


READER = Reader("text", Rank.ANY_TEXT, recognises, read)
