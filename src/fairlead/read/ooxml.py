"""What Word, Excel and PowerPoint packages share: their types and their properties."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.read.draft import Draft
from fairlead.read.package import Package, member
from fairlead.read.source import Source
from fairlead.read.xml import Attributes, Walk, walk
from fairlead.read.zip import names

_TYPES = "[Content_Types].xml"


def has_type(main: tuple[bytes, ...], usual: str) -> Callable[[Source], bool]:
    """Recognises a package whose list of types names one of these main parts."""

    def recognises(source: Source) -> bool:
        if _TYPES not in names(source):
            return False
        types = member(source, _TYPES)
        return any(name in types for name in main) if types else usual in names(source)

    return recognises


class Properties(Walk):
    """Title, author and time of creation, as Office and OpenDocument write them."""

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self._draft = draft
        self._found: dict[str, str] = {}
        self._name = ""

    def opened(self, name: str, _: Attributes) -> None:
        """Remember where text may follow."""
        self._name = name

    def closed(self, _: str) -> None:
        """What follows belongs to nothing."""
        self._name = ""

    def said(self, text: str) -> None:
        """Keep the text of each element."""
        if self._name:
            self._found[self._name] = (self._found.get(self._name, "") + text)[:2_000]

    def close(self) -> None:
        """Record the facts."""
        get = self._found.get
        self._draft.fact("title", get("title"))
        self._draft.fact("author", get("creator") or get("initial-creator"))
        self._draft.created(get("created") or get("creation-date") or get("date"))


def add_properties(package: Package, draft: Draft, *usual: str) -> None:
    """Record what the package's properties say; broken ones are no reason to fail."""
    listed = [r.target for r in package.relations() if r.role == "core-properties"]
    for name in (*listed, *usual):
        if name in package.names:
            try:
                walk([package.read(name)], Properties(draft))
            except SyntaxError:  # lxml's errors are of this kind
                draft.warn("the document's properties are damaged")
            return
