"""Word documents (docx), by python-docx."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator

from docx.opc.package import OpcPackage
from docx.opc.part import Part, XmlPart
from docx.package import Package
from lxml import etree

from fairlead.work.extract.base import CannotRead, Draft, Extracted, Rank, Reader, Source, library
from fairlead.work.extract.lines import Lines
from fairlead.work.extract.trees import memory_shortage

MAX_UNPACKED = 200_000_000
MAX_RATIO = 200
_RATIO_FROM = 1_000_000  # a small member of blanks packs well and harms nobody
_CHUNK = 65_536
_TYPES = "[Content_Types].xml"
_MAIN_TYPES = (b"wordprocessingml.document.main+xml", b"vnd.ms-word.document.macroEnabled.main+xml")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STRICT = "{http://purl.oclc.org/ooxml/wordprocessingml/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_MARKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SEPARATORS = ("separator", "continuationSeparator", "continuationNotice")


def recognises(source: Source) -> bool:
    """Whether it is a zip archive whose list of types names a Word document."""
    if _TYPES not in source.members:
        return False
    try:
        with source.archive() as archive, archive.open(_TYPES) as file:
            types = file.read(MAX_RATIO * _CHUNK)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError):
        return "word/document.xml" in source.members
    return any(name in types for name in _MAIN_TYPES)


def read(source: Source, max_characters: int) -> Extracted:
    """Headers, paragraphs and tables in order, then footers, footnotes and endnotes."""
    _check_sizes(source)
    draft = Draft("docx", library("python-docx"), max_characters)
    with memory_shortage():
        package = Package.open(str(source.path))
        _add_properties(package, draft)
        _add_text(package, draft)
    return draft.finish()


def _add_text(package: OpcPackage, draft: Draft) -> None:
    lines = Lines(draft.add)
    for root in _roots(package.main_document_part):
        lines.block(2)
        if not _add(root, lines):
            break


def _check_sizes(source: Source) -> None:
    """Refuse what unpacks to too much, by what it declares and by what really comes out."""
    with source.archive() as archive:
        members = archive.infolist()
        for member in members:
            _check_member(member)
        _check_total(sum(member.file_size for member in members))
        unpacked = 0
        for member in members:
            for size in _unpacked(archive, member):
                unpacked += size
                _check_total(unpacked)


def _check_member(member: zipfile.ZipInfo) -> None:
    if member.flag_bits & 1:
        raise CannotRead("encrypted", "The document is protected by a password; send it without.")
    if member.compress_type not in _METHODS:
        raise CannotRead("damaged", "The document is packed in a way that Word does not use.")
    large = member.file_size > _RATIO_FROM
    if large and member.file_size > MAX_RATIO * max(1, member.compress_size):
        raise CannotRead("too-large", "The document unpacks to a suspicious size.")


def _check_total(unpacked: int) -> None:
    if unpacked > MAX_UNPACKED:
        limit = MAX_UNPACKED // 1_000_000
        raise CannotRead("too-large", f"The document unpacks to more than {limit} MB.")


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[int]:
    with archive.open(member) as file:
        while chunk := file.read(_CHUNK):
            yield len(chunk)


def _add_properties(package: OpcPackage, draft: Draft) -> None:
    properties = package.core_properties
    draft.fact("title", properties.title)
    draft.fact("author", properties.author)


def _roots(main: Part) -> Iterator[etree._Element]:
    """The trees that hold text, in reading order; the same header in two sections only once."""
    yield from _related(main, "header")
    yield _root(main)
    for role in ("footer", "footnotes", "endnotes"):
        yield from _related(main, role)


def _related(main: Part, role: str) -> Iterator[etree._Element]:
    seen = set()
    for relation in main.rels.values():
        if relation.is_external or not relation.reltype.endswith(f"/{role}"):
            continue
        content = relation.target_part.blob
        if content not in seen:
            seen.add(content)
            yield _root(relation.target_part)


def _root(part: Part) -> etree._Element:
    if isinstance(part, XmlPart):
        element: etree._Element = part.element
        return element
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    return etree.fromstring(part.blob, parser)


def _add(root: etree._Element, lines: Lines) -> bool:
    """Write one tree; False: enough."""
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = _local(element)
        if event == "end":
            _end(tag, lines)
        elif _is_left_out(element, tag):
            walk.skip_subtree()
        elif not _start(element, tag, lines):
            return False
    return True


def _local(element: etree._Element) -> str:
    """The name of a Word element; empty for any other."""
    tag = str(element.tag)
    space = next((space for space in (_W, _STRICT) if tag.startswith(space)), None)
    return tag[len(space) :] if space else ""


def _is_left_out(element: etree._Element, tag: str) -> bool:
    # A fallback repeats what stands beside it for older programs.
    if element.tag == _FALLBACK:
        return True
    return tag in ("footnote", "endnote") and element.get(f"{_W}type") in _SEPARATORS


def _start(element: etree._Element, tag: str, lines: Lines) -> bool:
    if tag == "t":
        return lines.exact(element.text or "")
    if tag in _MARKS and element.getparent() is not None:
        return _mark(element, tag, lines)
    if tag == "tr":
        lines.row()
    elif tag == "tc" and _follows_a_cell(element):
        lines.cell()
    elif tag == "p":
        lines.block()
    return True


def _mark(element: etree._Element, tag: str, lines: Lines) -> bool:
    # The same name in a paragraph's properties defines a tab stop.
    parent = element.getparent()
    in_run = parent is not None and _local(parent) == "r"
    return lines.exact(_MARKS[tag]) if in_run else True


def _follows_a_cell(element: etree._Element) -> bool:
    previous = element.getprevious()
    return previous is not None and _local(previous) in ("tc", "sdt")


def _end(tag: str, lines: Lines) -> None:
    if tag == "tr":
        lines.end_row()
    elif tag == "p":
        lines.block()


READER = Reader("docx", Rank.SIGNATURE, recognises, read)
