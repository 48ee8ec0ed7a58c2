"""XML parsed in chunks, so that a giant document needs little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from lxml import etree

Attributes = Mapping[str, str]


class XmlHandler:
    """Receives elements and text; names are without their namespace.

    Elements named in `skipped` are left out with all their content.
    """

    skipped: frozenset[str] = frozenset()
    done = False  # a handler sets it when it does not need the rest
    # Takes what fails at one element, so that the rest is read. By default, parsing ends with it.
    take: Callable[[Exception], None] | None = None
    _skipping = 0

    def on_start(self, name: str, attributes: Attributes) -> None:
        pass

    def on_end(self, name: str) -> None:
        pass

    def on_text(self, text: str) -> None:
        """Receive text, possibly in several pieces."""

    # The interface that lxml calls:

    def start(self, tag: str, attributes: Attributes) -> None:
        name = local_name(tag)
        if self._skipping or name in self.skipped:
            self._skipping += 1
            return
        try:
            self.on_start(name, attributes)
        except Exception as error:
            self._fail(error)

    def end(self, tag: str) -> None:
        if self._skipping:
            self._skipping -= 1
            return
        try:
            self.on_end(local_name(tag))
        except Exception as error:
            self._fail(error)

    def data(self, text: str) -> None:
        if self._skipping:
            return
        try:
            self.on_text(text)
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        pass

    def _fail(self, error: Exception) -> None:
        if self.take is None:
            raise error
        self.take(error)


@lru_cache(maxsize=2_048)
def local_name(tag: str) -> str:
    return tag.rpartition("}")[2]


def attribute(attributes: Attributes, name: str, default: str = "") -> str:
    """Return an attribute by its name without a namespace."""
    for key, value in attributes.items():
        if local_name(key) == name:
            return value
    return default


def int_attribute(attributes: Attributes, name: str, default: int = 0) -> int:
    value = attribute(attributes, name)
    return int(value) if value.isdecimal() else default


def relation_id(attributes: Attributes) -> str:
    """Return the id of the relation that an element of an Office document names."""
    return next((value for key, value in attributes.items() if key.endswith("}id")), "")


def xml_parser(target: object = None) -> etree.XMLParser:
    """Return a parser that loads and expands nothing and bounds depth and size of nodes."""
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
    """Call the handler for each element, until it is done or `enough` returns True."""
    with detect_memory_shortage():
        parser = xml_parser(target)
        for chunk in chunks:
            parser.feed(chunk)
            if target.done or (enough and enough()):
                return
        parser.close()


@contextmanager
def detect_memory_shortage() -> Iterator[None]:
    """Turn a syntax error that lxml raises for lack of memory into a MemoryError.

    The document may be sound, so it must not be reported as damaged.
    """
    try:
        yield
    except etree.XMLSyntaxError as error:
        # The error has the code of the first entry; the lack of memory is a later entry.
        entries = list(error.error_log)  # type: ignore[call-overload] # the stubs lack __iter__
        if any(entry.type == etree.ErrorTypes.ERR_NO_MEMORY for entry in entries):
            raise MemoryError from error
        raise
