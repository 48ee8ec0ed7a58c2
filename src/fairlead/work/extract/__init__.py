"""Text and facts from a document's bytes, whatever its name says.

A kind is one module of this package that defines `READER`; nothing else needs to know it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fairlead.errors import MissingExtra
from fairlead.work.extract.base import JSON, CannotRead, Extracted, Part, ReadLimits, Source
from fairlead.work.extract.kinds import readers, recognise

__all__ = ["JSON", "CannotRead", "Extracted", "Part", "ReadLimits", "extract", "readers"]


def _nobody(_done: int, _pages: int) -> None:
    """Nobody wants to know."""


def extract(
    path: Path,
    *,
    limits: ReadLimits,
    password: str | None = None,  # noqa: ARG001
    on_progress: Callable[[int, int], None] = _nobody,
) -> Extracted:
    """The document's text and facts, or the reason why there are none.

    Raises:
        CannotRead: for any document that cannot be read; `kind` is set where it was recognised.
        MissingExtra: the document libraries are not installed.
        MemoryError: reading needs more memory than the process may have.
    """
    source = Source(path)
    if not source.size:
        raise CannotRead("empty", "The document has no content.")
    kind = None
    try:
        reader = recognise(source)
        kind = reader.kind
        on_progress(0, 1)
        return reader.read(source, limits.characters)
    except CannotRead as error:
        error.kind = error.kind or kind
        raise
    except (MemoryError, MissingExtra):
        raise
    except Exception as error:
        # Libraries fail on broken documents in more ways than their manuals list.
        seems = f" looks like {kind} but" if kind else ""
        detail = f"The document{seems} is damaged and could not be read."
        raise CannotRead("damaged", detail, kind=kind) from error
