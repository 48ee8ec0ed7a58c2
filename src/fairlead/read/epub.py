"""E-books (epub): the pages of the spine, one after another."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Task, library
from fairlead.read.decode import decode
from fairlead.read.draft import Draft
from fairlead.read.html import declared_in, write_markup
from fairlead.read.ooxml import Properties
from fairlead.read.package import Package, member, opened
from fairlead.read.source import Source
from fairlead.read.text_writer import TextWriter
from fairlead.read.xml import Attributes, Walk, attribute, walk
from fairlead.read.zip import names

_CONTAINER = "META-INF/container.xml"
_PAGES = ("xhtml", "html", "xml")
# Fonts may be obscured; the text of a book that anybody can open may not.
_FONTS = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")


def recognises(source: Source) -> bool:
    """Whether it says to be a book, or has a book's container."""
    if _CONTAINER not in names(source):
        return False
    mime = member(source, "mimetype", 200)
    return b"epub" in mime or b"oebps-package" in member(source, _CONTAINER)


def read(source: Source, task: Task) -> Extracted:
    """The text of the pages in the order of the spine."""
    draft = Draft("epub", library("lxml"), task.limits)
    pen = TextWriter(draft)
    with opened(source, task) as package:
        _check_lock(package)
        root = _Root()
        walk([package.read(_CONTAINER)], root)
        if root.path not in package.names:
            raise CannotRead("damaged", "The e-book is damaged: its list of pages is missing.")
        listed = package.read(root.path)
        walk([listed], Properties(draft))
        book = _Book(posixpath.dirname(root.path))
        walk([listed], book)
        _add_pages(package, book.pages(), pen, task)
    pen.close()
    return draft.finish()


def _add_pages(package: Package, pages: list[str], pen: TextWriter, task: Task) -> None:
    draft = pen.draft
    draft.fact("pages", len(pages))
    if len(pages) > task.limits.pages:
        draft.warn(f"only the first {task.limits.pages} of {len(pages)} pages were read")
    missing = 0
    for page in pages[: task.limits.pages]:
        if page not in package.names:
            missing += 1
            continue
        data = package.read(page, task.limits.unpacked_bytes)
        pen.part()
        write_markup(decode(data, declared=declared_in(data)).text, pen, titled=None)
        if draft.full:
            break
    if missing:
        draft.warn(f"{missing} of {len(pages)} pages are missing")


def _check_lock(package: Package) -> None:
    lock = package.read("META-INF/encryption.xml")
    algorithms = [part for part in lock.split(b"<") if b"EncryptionMethod" in part]
    if any(not any(font in part for font in _FONTS) for part in algorithms if b"=" in part):
        raise CannotRead("encrypted", "The e-book is protected; send it without protection.")


class _Root(Walk):
    path = ""

    def opened(self, name: str, attributes: Attributes) -> None:
        if name == "rootfile" and not self.path:
            self.path = attribute(attributes, "full-path").lstrip("/")


class _Book(Walk):
    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self._items: dict[str, tuple[str, str]] = {}
        self._spine: list[str] = []

    def opened(self, name: str, attributes: Attributes) -> None:
        if name == "item":
            path = unquote(attribute(attributes, "href")).partition("#")[0]
            place = posixpath.normpath(posixpath.join(self._folder, path))
            media = attribute(attributes, "media-type")
            self._items[attribute(attributes, "id")] = place, media
        elif name == "itemref":
            self._spine.append(attribute(attributes, "idref"))

    def pages(self) -> list[str]:
        """The paths of the pages, in order."""
        found = [self._items[key] for key in self._spine if key in self._items]
        return [path for path, media in found if any(kind in media for kind in _PAGES)]


READER = Reader("epub", Rank.SIGNATURE, recognises, read)
