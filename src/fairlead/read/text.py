"""Plain text in any encoding."""

from __future__ import annotations

from fairlead.read.base import Extracted, Rank, Reader, Task, library
from fairlead.read.decode import decode, opening
from fairlead.read.draft import Draft
from fairlead.read.source import Source

_LONGEST_CHARACTER = 4


def recognises(source: Source) -> bool:
    """Whether the first bytes are text: few control characters, and some encoding fits."""
    return opening(source.head) is not None


def read(source: Source, task: Task) -> Extracted:
    """The text itself."""
    draft = Draft("text", library("charset-normalizer"), task.limits)
    draft.add(decoded_text(source, draft))
    return draft.finish()


def decoded_text(source: Source, draft: Draft) -> str:
    """As much of the text as the limit may need; the encoding becomes a fact."""
    limit = (draft.limits.characters + 2) * _LONGEST_CHARACTER
    decoded = decode(source.read(limit), cut=source.size > limit)
    draft.fact("encoding", decoded.encoding)
    if decoded.guessed:
        draft.warn(f"the encoding was guessed: {decoded.encoding}")
    return decoded.text


READER = Reader("text", Rank.ANY_TEXT, recognises, read)
