"""E-books (epub): the pages in the order of the spine."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.decode import decode
from fairlead.read.draft import Draft
from fairlead.read.error_guard import PROPERTIES
from fairlead.read.html import declared_encoding, write_markup
from fairlead.read.package import Package, Properties, open_package, read_member
from fairlead.read.text_writer import TextWriter
from fairlead.read.xml import Attributes, XmlHandler, attribute, parse_xml
from fairlead.read.zip import member_names

_CONTAINER = "META-INF/container.xml"
_PAGE_TYPES = ("xhtml", "html", "xml")
# Encrypted fonts are fine: the text is still readable.
_FONTS = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")


def _recognises(source: Source) -> bool:
    if _CONTAINER not in member_names(source):
        return False
    mime = read_member(source, "mimetype", 200)
    return b"epub" in mime or b"oebps-package" in read_member(source, _CONTAINER)


def _read(source: Source, task: Task) -> Extracted:
    draft = Draft("epub", library("lxml"), task.limits)
    writer = TextWriter(draft)
    with open_package(source, task) as package:
        _refuse_encrypted(package)
        root = _Root()
        parse_xml([package.read(_CONTAINER)], root)
        if root.path not in package.names:
            raise CannotRead("damaged", "The e-book is damaged: its list of pages is missing.")
        listing = package.read(root.path)
        with draft.guard(PROPERTIES):
            parse_xml([listing], Properties(draft))
        book = _EpubPackage(posixpath.dirname(root.path))
        parse_xml([listing], book)
        _add_pages(package, book.pages(), writer, task)
    return writer.finish()


def _add_pages(package: Package, pages: list[str], writer: TextWriter, task: Task) -> None:
    draft = writer.draft
    missing = 0
    for number, page in enumerate(pages[: draft.limit_pages(len(pages))], start=1):
        if page not in package.names:
            missing += 1
            continue
        with draft.guard.page(number):
            data = package.read(page, task.limits.unpacked_bytes)
            writer.part()
            write_markup(decode(data, declared=declared_encoding(data)).text, writer)
        if draft.full:
            break
    if missing:
        draft.warn(f"{missing} of {len(pages)} pages are missing")


def _refuse_encrypted(package: Package) -> None:
    elements = package.read("META-INF/encryption.xml").split(b"<")
    methods = [
        element for element in elements if b"EncryptionMethod" in element and b"=" in element
    ]
    if any(not any(font in method for font in _FONTS) for method in methods):
        raise CannotRead("encrypted", "The e-book is protected; send it without protection.")


class _Root(XmlHandler):
    path = ""

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "rootfile" and not self.path:
            self.path = attribute(attributes, "full-path").lstrip("/")


class _EpubPackage(XmlHandler):
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._items: dict[str, tuple[str, str]] = {}
        self._spine: list[str] = []

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "item":
            href = unquote(attribute(attributes, "href")).partition("#")[0]
            path = posixpath.normpath(posixpath.join(self._folder, href))
            self._items[attribute(attributes, "id")] = path, attribute(attributes, "media-type")
        elif name == "itemref":
            self._spine.append(attribute(attributes, "idref"))

    def pages(self) -> list[str]:
        items = [self._items[key] for key in self._spine if key in self._items]
        return [path for path, media in items if any(kind in media for kind in _PAGE_TYPES)]


READER = Reader("epub", Rank.SIGNATURE, _recognises, _read)
