"""OpenDocument texts, sheets and presentations (odt, ods, odp)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Task, library
from fairlead.read.draft import Draft
from fairlead.read.odftext import OdfText
from fairlead.read.ooxml import Properties
from fairlead.read.package import Package, member, opened
from fairlead.read.source import Source
from fairlead.read.text_writer import TextWriter
from fairlead.read.xml import walk
from fairlead.read.zip import names

# What the first member says, for the present format and the one before it.
_MIMES = {
    "odt": (b"opendocument.text", b"sun.xml.writer"),
    "ods": (b"opendocument.spreadsheet", b"sun.xml.calc"),
    "odp": (b"opendocument.presentation", b"opendocument.graphics", b"sun.xml.impress"),
}
_MANIFEST = "META-INF/manifest.xml"
_CONTENT = "content.xml"
_FLAT_START = 8_192
_CHUNK = 65_536


def _has_mime(kind: str) -> Callable[[Source], bool]:
    def recognises(source: Source) -> bool:
        if _CONTENT not in names(source):
            return False
        mime = member(source, "mimetype", 200) or _listed_mime(source)
        return any(wanted in mime for wanted in _MIMES[kind])

    return recognises


def _listed_mime(source: Source) -> bytes:
    """What the manifest says of the package itself, where the first member is missing."""
    manifest = member(source, _MANIFEST)
    return next((line for line in manifest.split(b"<") if b'full-path="/"' in line), b"")


def _reads(kind: str) -> Callable[[Source, Task], Extracted]:
    def read(source: Source, task: Task) -> Extracted:
        draft = Draft(kind, library("lxml"), task.limits)
        with opened(source, task) as package:
            _check_lock(package)
            if "meta.xml" in package.names:
                walk([package.read("meta.xml")], Properties(draft))
            pen = TextWriter(draft, gap=1)
            if kind == "odt" and "styles.xml" in package.names:
                _add_frame(package, pen, task)
            _add_text(package.chunks(_CONTENT), kind, pen, task)
        return draft.finish()

    return read


def _add_text(chunks: Iterable[bytes], kind: str, pen: TextWriter, task: Task) -> None:
    text = OdfText(pen, task.limits.pages, sheets=kind == "ods")
    walk(chunks, text, lambda: pen.draft.full)
    pen.close()
    if text.pages:
        pen.draft.fact("pages", text.pages)
    if text.cut:
        pen.draft.warn(f"only the first {task.limits.pages} pages were read")


def _add_frame(package: Package, pen: TextWriter, task: Task) -> None:
    """Write the headers and footers, which belong to the styles of pages."""
    walk(package.chunks("styles.xml"), OdfText(pen, task.limits.pages, within="master-styles"))
    pen.part()


def _check_lock(package: Package) -> None:
    if b"encryption-data" in package.read(_MANIFEST):
        detail = "The document is protected by a password; send it again with its password."
        raise CannotRead("encrypted", detail)


def _is_flat(kind: str) -> Callable[[Source], bool]:
    """Recognises the form that is one XML file instead of a package."""

    def recognises(source: Source) -> bool:
        start = source.head[:_FLAT_START]
        return b"<office:document" in start and any(mime in start for mime in _MIMES[kind])

    return recognises


def _reads_flat(kind: str) -> Callable[[Source, Task], Extracted]:
    def read(source: Source, task: Task) -> Extracted:
        draft = Draft(kind, library("lxml"), task.limits)
        with source.open() as file:
            chunks = iter(lambda: file.read(_CHUNK), b"")
            _add_text(chunks, kind, TextWriter(draft, gap=1), task)
        return draft.finish()

    return read


READERS = (
    *(Reader(kind, Rank.SIGNATURE, _has_mime(kind), _reads(kind)) for kind in _MIMES),
    *(Reader(kind, Rank.STRUCTURE, _is_flat(kind), _reads_flat(kind)) for kind in _MIMES),
)
