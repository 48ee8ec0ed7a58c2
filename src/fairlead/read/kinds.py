"""Recognises the kind of a document by its content."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from fairlead.errors import MissingExtra
from fairlead.extras import install_command
from fairlead.read.base import CannotRead, Rank, Reader, Source
from fairlead.read.plugins import plugged_in
from fairlead.read.unsupported import refusal


@cache
def readers() -> tuple[Reader, ...]:
    """The readers of this package and of plug-ins, in the order in which they are tried.

    The first call imports the document libraries.

    Raises:
        MissingExtra: one of them is not installed.
    """
    package = importlib.import_module("fairlead.read")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [_module(f"{package.__name__}.{name}") for name in names]
    own = [reader for module in modules for reader in _defined(module)]
    return tuple(sorted([*own, *plugged_in()], key=lambda reader: (reader.rank, reader.kind)))


def recognise(source: Source) -> Reader:
    """The reader of the document's kind.

    Raises:
        CannotRead: no reader knows it; the detail names what it seems to be.
    """
    for reader in readers():
        # A known kind that cannot be read must not be taken for an archive or a text.
        if reader.rank > Rank.SIGNATURE and (refused := refusal(source)):
            raise refused
        if reader.recognises(source):
            return reader
    raise CannotRead("unsupported", "The document is of a kind that cannot be read.")


def _defined(module: object) -> Iterator[Reader]:
    defined = (getattr(module, "READER", None), *getattr(module, "READERS", ()))
    yield from (reader for reader in defined if isinstance(reader, Reader))


def _module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Reading documents needs the library {error.name!r}, which is not installed; "
            f"install it: {install_command('documents')}"
        ) from error
