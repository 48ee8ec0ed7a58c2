"""Old PowerPoint presentations (ppt)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.error_guard import CONTENT
from fairlead.read.ole import decrypt_old_office, has_stream, open_ole
from fairlead.read.text_writer import PLAIN, TextWriter, heading, item

_RECORD = struct.Struct("<HHI")
_DOCUMENT, _SLIDE, _NOTES, _USER_EDIT, _PERSIST = 1000, 1006, 1008, 4085, 6002
_LIST, _SLIDE_PLACE, _NOTES_ATOM = 4080, 1011, 1009
_SLIDE_LIST, _NOTES_LIST = 0, 2
_TEXT_ROLE, _TEXT, _NARROW_TEXT, _REFERENCE = 3999, 4000, 4008, 3998
_TITLES, _BODIES = (0, 6), (1, 5, 7, 8)
_MAX_DEPTH = 30
_MAX_EDITS = 1_000
_ENCRYPTED = 0xF3D1C4DF
_FIELD = "*"  # stands for a date or a number


class _Record(NamedTuple):
    """A record of the stream: its header, and the place of its content."""

    data: bytes
    kind: int
    instance: int
    start: int
    end: int
    is_container: bool

    def children(self) -> Iterator[_Record]:
        return _records(self.data, self.start, self.end)

    def integer(self, default: int) -> int:
        """Return the number at the start of the content."""
        if self.end - self.start < 4:
            return default
        return int(struct.unpack_from("<I", self.data, self.start)[0])

    def text(self) -> str:
        encoding = "latin-1" if self.kind == _NARROW_TEXT else "utf-16-le"
        return self.data[self.start : self.end].decode(encoding, "replace")


class _SlideText(NamedTuple):
    """A text of a slide and its role."""

    role: int
    text: str


_Slide = Callable[[], Iterable[_SlideText]]


class _Entry(NamedTuple):
    """A slide in a list: its object, the texts stored in the list, and its identifier."""

    place: int
    outline: list[_SlideText]
    key: int


def _read(source: Source, task: Task) -> Extracted:
    """Slides in their order with their notes; a form feed between two slides."""
    draft = Draft("ppt", library("olefile"), task.limits)
    with open_ole(source, task) as ole:
        user = ole.stream("Current User")
        if len(user) >= 16 and struct.unpack_from("<I", user, 12)[0] == _ENCRYPTED:
            return _read(decrypt_old_office(source, task), task)
        ole.add_properties(draft)
        data = ole.stream("PowerPoint Document")
    latest_edit = int(struct.unpack_from("<I", user, 16)[0]) if len(user) >= 20 else -1
    slides: list[_Slide] = []
    with draft.guard(CONTENT):
        slides = _slides(data, latest_edit)
    if not slides:
        whole = _Record(data, 0, 0, 0, len(data), is_container=True)
        slides = [partial(_texts, whole, [])]
    writer = TextWriter(draft, gap=1)
    wanted = draft.limit_pages(len(slides), "slides")
    for number, slide in enumerate(slides[:wanted], start=1):
        with draft.guard.page(number, "slide"):
            writer.page()
            for text in slide():
                _write(text, writer)
        if draft.full:
            break
    return writer.finish()


def _records(data: bytes, start: int, end: int) -> Iterator[_Record]:
    while start + _RECORD.size <= end:
        header, kind, size = _RECORD.unpack_from(data, start)
        start += _RECORD.size
        stop = min(start + size, end)
        yield _Record(data, kind, header >> 4, start, stop, header & 15 == 15)
        start = stop


def _record_at(data: bytes, offset: int, kind: int) -> _Record | None:
    """Return the record at the offset, if it is of this kind."""
    record = next(_records(data, offset, len(data)), None) if 0 <= offset < len(data) else None
    return record if record is not None and record.kind == kind else None


def _slides(data: bytes, latest_edit: int) -> list[_Slide]:
    """Return the readers of each slide after the last edit; none if that is damaged."""
    places, document_id = _places(data, latest_edit)
    document = _record_at(data, places.get(document_id, -1), _DOCUMENT)
    if document is None:
        return []
    lists = {record.instance: record for record in document.children() if record.kind == _LIST}
    notes: dict[int, _Slide] = {}
    for entry in _entries(lists.get(_NOTES_LIST)):
        record = _record_at(data, places.get(entry.place, -1), _NOTES)
        if record is not None:
            atoms = [r.integer(-1) for r in record.children() if r.kind == _NOTES_ATOM]
            notes[atoms[-1] if atoms else -1] = partial(_texts, record, entry.outline)
    return [
        partial(
            _slide,
            _record_at(data, places.get(entry.place, -1), _SLIDE),
            entry.outline,
            notes.get(entry.key, tuple),
        )
        for entry in _entries(lists.get(_SLIDE_LIST))
    ]


def _slide(
    record: _Record | None, outline: list[_SlideText], notes: _Slide
) -> Iterator[_SlideText]:
    """Yield the texts of a slide and of its notes."""
    texts = list(_texts(record, outline)) if record is not None else []
    yield from texts
    # Texts without a place on the slide, such as those of a deleted frame, are last.
    yield from (text for text in outline if text not in texts)
    yield from notes()


def _places(data: bytes, edit_offset: int) -> tuple[dict[int, int], int]:
    """Return the offset of each object, and which is the document; later edits come first."""
    places: dict[int, int] = {}
    document_id = -1
    for _ in range(_MAX_EDITS):
        edit = _record_at(data, edit_offset, _USER_EDIT)
        if edit is None or edit.end - edit.start < 20:
            break
        edit_offset, persist, reference = struct.unpack_from("<III", data, edit.start + 8)
        document_id = reference if document_id < 0 else document_id
        for key, offset in _persisted(data, persist):
            places.setdefault(key, offset)
        if not edit_offset:
            break
    return places, document_id


def _persisted(data: bytes, offset: int) -> Iterator[tuple[int, int]]:
    record = _record_at(data, offset, _PERSIST)
    if record is None:
        return
    at = record.start
    while at + 4 <= record.end:
        (header,) = struct.unpack_from("<I", data, at)
        first, count = header & 0xFFFFF, header >> 20
        at += 4
        count = min(count, (record.end - at) // 4)
        yield from enumerate(struct.unpack_from(f"<{count}I", data, at), first)
        at += 4 * count


def _entries(listing: _Record | None) -> list[_Entry]:
    entries: list[_Entry] = []
    role = -1
    for record in listing.children() if listing is not None else ():
        if record.kind == _SLIDE_PLACE and record.end - record.start >= 16:
            place, _, _, key = struct.unpack_from("<IIII", record.data, record.start)
            entries.append(_Entry(place, [], key))
        elif record.kind == _TEXT_ROLE:
            role = record.integer(role)
        elif record.kind in (_TEXT, _NARROW_TEXT) and entries:
            entries[-1].outline.append(_SlideText(role, record.text()))
    return entries


def _texts(parent: _Record, outline: list[_SlideText], depth: int = 0) -> Iterator[_SlideText]:
    """Yield the texts within a record; references are to texts of the outline."""
    role = -1
    for record in parent.children():
        if record.is_container and depth < _MAX_DEPTH:
            yield from _texts(record, outline, depth + 1)
        elif record.kind == _TEXT_ROLE:
            role = record.integer(role)
        elif record.kind in (_TEXT, _NARROW_TEXT):
            yield _SlideText(role, record.text())
        elif record.kind == _REFERENCE:
            index = record.integer(len(outline))
            yield from outline[index : index + 1]


def _write(text: _SlideText, writer: TextWriter) -> None:
    if text.text == _FIELD:
        return
    style = heading(2) if text.role in _TITLES else item() if text.role in _BODIES else PLAIN
    for paragraph in text.text.split("\r"):
        writer.begin(style)
        writer.write(paragraph.replace("\x0b", "\n"))


READER = Reader(
    "ppt", Rank.SIGNATURE, lambda source: has_stream(source, "PowerPoint Document"), _read
)
