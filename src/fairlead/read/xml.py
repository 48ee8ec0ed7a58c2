"""XML read piece by piece, so that a giant one needs little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from lxml import etree

Attributes = Mapping[str, str]


class XmlHandler:
    """What happens at each element; names come without their namespace."""

    skipped: frozenset[str] = frozenset()
    done = False  # set it where the rest is not wanted

    def __init__(self) -> None:
        self._skipping = 0

    def on_start(self, name: str, attributes: Attributes) -> None:
        """An element begins."""

    def on_end(self, name: str) -> None:
        """An element ends."""

    def on_text(self, text: str) -> None:
        """Text stands here; one text may come in several pieces."""

    # What lxml calls:

    def start(self, tag: str, attributes: Attributes) -> None:
        """Begin an element."""
        name = local(tag)
        if self._skipping or name in self.skipped:
            self._skipping += 1
        else:
            self.on_start(name, attributes)

    def end(self, tag: str) -> None:
        """End an element."""
        if self._skipping:
            self._skipping -= 1
        else:
            self.on_end(local(tag))

    def data(self, text: str) -> None:
        """Pass text on."""
        if not self._skipping:
            self.on_text(text)

    def close(self) -> None:
        """End the document."""


@lru_cache(maxsize=2_048)
def local(tag: str) -> str:
    """The name without its namespace."""
    return tag.rpartition("}")[2]


def attribute(attributes: Attributes, name: str, default: str = "") -> str:
    """An attribute by its name without a namespace."""
    for key, value in attributes.items():
        if local(key) == name:
            return value
    return default


def parser(target: object = None) -> etree.XMLParser:
    """A parser that opens nothing, expands nothing and bounds depth and size of its nodes."""
    return etree.XMLParser(
        target=target,  # type: ignore[arg-type] # the stubs know fewer kinds of targets
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )


def parse_xml(
    chunks: Iterable[bytes], target: XmlHandler, enough: Callable[[], bool] | None = None
) -> None:
    """Lead the target through a document, until it is done or `enough` says so."""
    with memory_shortage():
        reading = parser(target)
        for chunk in chunks:
            reading.feed(chunk)
            if target.done or (enough and enough()):
                return
        reading.close()


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


def is_whole(used: etree.HTMLParser) -> bool:
    """Whether the last document was parsed to its end; a fatal error stops the parser early."""
    return not any(entry.level == etree.ErrorLevels.FATAL for entry in used.error_log)
