"""What libxml2 leaves unsaid: that memory ran out, or that a tree is not whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lxml import etree


@contextmanager
def memory_shortage() -> Iterator[None]:
    """Within, a syntax error that really means a lack of memory becomes a MemoryError.

    The document may be sound: it must not be called damaged.
    """
    try:
        yield
    except etree.XMLSyntaxError as error:
        # Its own code is that of the first trifle; the lack of memory stands further down.
        entries = list(error.error_log)  # type: ignore[call-overload] # the stubs lack __iter__
        if any(entry.type == etree.ErrorTypes.ERR_NO_MEMORY for entry in entries):
            raise MemoryError from error
        raise


def is_whole(parser: etree.HTMLParser) -> bool:
    """Whether the last document was parsed to its end; a fatal error stops the parser early."""
    return not any(entry.level == etree.ErrorLevels.FATAL for entry in parser.error_log)
