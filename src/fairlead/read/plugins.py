"""Readers of installed packages: the entry points of the group `fairlead.readers`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

from fairlead.read.base import Reader

GROUP = "fairlead.readers"
_log = logging.getLogger(__name__)


def plugged_in() -> Iterator[Reader]:
    """Readers of installed packages; one that cannot be imported is left out and logged."""
    for entry in entry_points(group=GROUP):
        try:
            yield load(entry)
        except Exception as error:
            _log.warning("fairlead: the reader %s cannot be used: %s", entry.name, error)


def load(entry: EntryPoint) -> Reader:
    """The reader that an entry point names."""
    reader = entry.load()
    if not isinstance(reader, Reader):
        raise TypeError(f"{entry.value} must be a Reader of fairlead.read; got {reader!r}")
    return reader
