"""Extracts text, Markdown and facts from the bytes of a document, independent of its name.

Each kind is a module of this package that defines `READER`; a module for a family of kinds defines
`READERS`. Nothing else refers to them. Installed packages may add kinds: `plugins` has the group of
their entry points, and this module exports the names that such a reader needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from fairlead.errors import MissingExtra
from fairlead.read.base import (
    JSON,
    CannotRead,
    Extracted,
    Part,
    Rank,
    Reader,
    ReadLimits,
    Source,
    Task,
    ignore,
    ignore_file,
)
from fairlead.read.draft import Draft
from fairlead.read.kinds import readers, recognise

__all__ = [
    "JSON",
    "CannotRead",
    "Draft",
    "Extracted",
    "Part",
    "Rank",
    "ReadLimits",
    "Reader",
    "Source",
    "Task",
    "extract",
    "readers",
]

_DEFAULTS = ReadLimits()


def extract(
    path: Path,
    *,
    limits: ReadLimits = _DEFAULTS,
    password: str | None = None,
    on_progress: Callable[[int, int], None] = ignore,
    outputs: tuple[str, ...] = (),
    on_file: Callable[[str, bytes], None] = ignore_file,
) -> Extracted:
    """The document's text, Markdown, facts and parts.

    `on_progress` gets the number of pages read and of all pages. `outputs` are optional files,
    "searchable-pdf" and "pages"; `on_file` gets the name and the content of each when it is made.

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
        deadline = time.monotonic() + limits.output_seconds
        task = Task(limits, password, on_progress, outputs, on_file, deadline)
        return reader.read(source, task)
    except CannotRead as error:
        error.kind = error.kind or kind
        raise
    except (MemoryError, MissingExtra, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # Libraries fail on broken documents in more ways than their manuals list, and a panic of a
        # library in Rust is not an Exception.
        seems = f" looks like {kind} but" if kind else ""
        detail = f"The document{seems} is damaged and could not be read."
        raise CannotRead("damaged", detail, kind=kind) from error
