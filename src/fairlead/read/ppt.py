"""Old PowerPoint presentations (ppt)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.ole import Ole, decrypt_old_office, open_ole
from fairlead.read.text_writer import PLAIN, TextWriter, heading, item

_RECORD = struct.Struct("<HHI")
_DOCUMENT, _SLIDE, _NOTES, _USER_EDIT, _PERSIST = 1000, 1006, 1008, 4085, 6002
_LIST, _SLIDE_PLACE, _NOTES_ATOM = 4080, 1011, 1009
_KIND_OF_TEXT, _TEXT, _NARROW_TEXT, _REFERENCE = 3999, 4000, 4008, 3998
_TITLES, _BODIES = (0, 6), (1, 5, 7, 8)
_MAX_DEPTH = 30
_MAX_EDITS = 1_000
_ENCRYPTED = 0xF3D1C4DF
_NO_TEXT = re.compile(r"^\*$")  # where a date or a number is put in


class _Record(NamedTuple):
    """One record of the stream: its kind, number, and where its content lies."""

    kind: int
    instance: int
    start: int
    end: int
    is_container: bool


class _Words(NamedTuple):
    """A text of a slide and its role."""

    role: int
    text: str


def recognises(source: Source) -> bool:
    """Whether it is a compound file with PowerPoint's main stream."""
    return source.has_ole_stream("PowerPoint Document")


def read(source: Source, task: Task) -> Extracted:
    """Slides in their order with their notes; a form feed between two slides."""
    draft = Draft("ppt", library("olefile"), task.limits)
    with open_ole(source, task) as ole:
        if _is_locked(ole):
            return read(decrypt_old_office(source, task), task)
        ole.add_properties(draft)
        data = ole.stream("PowerPoint Document")
        latest = _latest_edit(ole)
    writer = TextWriter(draft, gap=1)
    slides = _slides(data, latest) or [
        list(_texts(data, _Record(0, 0, 0, len(data), is_container=True)))
    ]
    draft.fact("pages", len(slides))
    if len(slides) > task.limits.pages:
        draft.warn(f"only the first {task.limits.pages} of {len(slides)} slides were read")
    for slide in slides[: task.limits.pages]:
        writer.page()
        for words in slide:
            _write(words, writer)
        if draft.full:
            break
    writer.close()
    return draft.finish()


def _is_locked(ole: Ole) -> bool:
    user = ole.stream("Current User")
    return len(user) >= 16 and struct.unpack_from("<I", user, 12)[0] == _ENCRYPTED


def _latest_edit(ole: Ole) -> int:
    user = ole.stream("Current User")
    return int(struct.unpack_from("<I", user, 16)[0]) if len(user) >= 20 else -1


def _records(data: bytes, start: int, end: int) -> Iterator[_Record]:
    while start + _RECORD.size <= end:
        head, kind, size = _RECORD.unpack_from(data, start)
        start += _RECORD.size
        stop = min(start + size, end)
        yield _Record(kind, head >> 4, start, stop, head & 15 == 15)
        start = stop


def _at(data: bytes, offset: int) -> _Record | None:
    return next(_records(data, offset, len(data)), None) if 0 <= offset < len(data) else None


def _slides(data: bytes, latest: int) -> list[list[_Words]]:
    """The texts of each slide as the last edit left them; none where that cannot be told."""
    places, document = _places(data, latest)
    whole = _at(data, places.get(document, -1))
    if whole is None or whole.kind != _DOCUMENT:
        return []
    found: list[list[_Words]] = []
    notes: dict[int, list[_Words]] = {}
    for record in _records(data, whole.start, whole.end):
        if record.kind == _LIST and record.instance == 0:
            found = [_slide(data, places, *entry) for entry in _listed(data, record)]
        elif record.kind == _LIST and record.instance == 2:
            for place, outline, _ in _listed(data, record):
                of, words = _notes(data, places, place, outline)
                notes[of] = words
    for record in _records(data, whole.start, whole.end):
        if record.kind == _LIST and record.instance == 0:
            keys = [key for _, _, key in _listed(data, record)]
            return [[*s, *notes.get(key, [])] for s, key in zip(found, keys, strict=True)]
    return found


def _places(data: bytes, latest: int) -> tuple[dict[int, int], int]:
    """Where each object lies now, and which is the document; later edits go before."""
    places: dict[int, int] = {}
    document = -1
    for _ in range(_MAX_EDITS):
        edit = _at(data, latest)
        if edit is None or edit.kind != _USER_EDIT or edit.end - edit.start < 20:
            break
        latest, persist, reference = struct.unpack_from("<III", data, edit.start + 8)
        document = reference if document < 0 else document
        for key, offset in _persisted(data, persist):
            places.setdefault(key, offset)
        if not latest:
            break
    return places, document


def _persisted(data: bytes, offset: int) -> Iterator[tuple[int, int]]:
    record = _at(data, offset)
    if record is None or record.kind != _PERSIST:
        return
    at = record.start
    while at + 4 <= record.end:
        (head,) = struct.unpack_from("<I", data, at)
        first, count = head & 0xFFFFF, head >> 20
        at += 4
        count = min(count, (record.end - at) // 4)
        for index, place in enumerate(struct.unpack_from(f"<{count}I", data, at)):
            yield first + index, place
        at += 4 * count


def _listed(data: bytes, listing: _Record) -> list[tuple[int, list[_Words], int]]:
    """Of each slide in a list: its object, the texts kept here, and its identifier."""
    found: list[tuple[int, list[_Words], int]] = []
    role = -1
    for record in _records(data, listing.start, listing.end):
        if record.kind == _SLIDE_PLACE and record.end - record.start >= 16:
            place, _, _, key = struct.unpack_from("<IIII", data, record.start)
            found.append((place, [], key))
        elif record.kind == _KIND_OF_TEXT and record.end - record.start >= 4:
            (role,) = struct.unpack_from("<I", data, record.start)
        elif record.kind in (_TEXT, _NARROW_TEXT) and found:
            found[-1][1].append(_Words(role, _decoded(data, record)))
    return found


def _slide(
    data: bytes, places: dict[int, int], place: int, outline: list[_Words], _: int
) -> list[_Words]:
    record = _at(data, places.get(place, -1))
    if record is None or record.kind != _SLIDE:
        return outline
    own = list(_texts(data, record, outline))
    # What the slide does not place itself, such as a deleted frame's text, comes last.
    return own + [words for words in outline if words not in own]


def _notes(
    data: bytes, places: dict[int, int], place: int, outline: list[_Words]
) -> tuple[int, list[_Words]]:
    record = _at(data, places.get(place, -1))
    if record is None or record.kind != _NOTES:
        return -1, []
    of = -1
    for inner in _records(data, record.start, record.end):
        if inner.kind == _NOTES_ATOM and inner.end - inner.start >= 4:
            (of,) = struct.unpack_from("<I", data, inner.start)
    return of, list(_texts(data, record, outline))


def _texts(
    data: bytes, around: _Record, outline: list[_Words] | None = None, depth: int = 0
) -> Iterator[_Words]:
    """The texts within a record, in order; references lead to the texts of the outline."""
    role = -1
    for record in _records(data, around.start, around.end):
        if record.is_container and depth < _MAX_DEPTH:
            yield from _texts(data, record, outline, depth + 1)
        elif record.kind == _KIND_OF_TEXT and record.end - record.start >= 4:
            (role,) = struct.unpack_from("<I", data, record.start)
        elif record.kind in (_TEXT, _NARROW_TEXT):
            yield _Words(role, _decoded(data, record))
        elif record.kind == _REFERENCE and outline and record.end - record.start >= 4:
            (index,) = struct.unpack_from("<I", data, record.start)
            yield from outline[index : index + 1]


def _decoded(data: bytes, record: _Record) -> str:
    raw = data[record.start : record.end]
    return raw.decode("latin-1" if record.kind == _NARROW_TEXT else "utf-16-le", "replace")


def _write(words: _Words, writer: TextWriter) -> None:
    if _NO_TEXT.match(words.text):
        return
    style = heading(2) if words.role in _TITLES else item() if words.role in _BODIES else PLAIN
    for paragraph in words.text.split("\r"):
        writer.begin(style)
        writer.write(paragraph.replace("\x0b", "\n"))


READER = Reader("ppt", Rank.SIGNATURE, recognises, read)
