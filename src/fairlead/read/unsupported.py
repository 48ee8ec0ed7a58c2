"""Names the kinds of documents that cannot be read, for the error message."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from fairlead.read.base import OLE, CannotRead, Source
from fairlead.read.zip import ZIP, member_names

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (OLE, "an old Office document of an unknown kind"),
    (b"\x7fELF", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\x00asm", "a program"),
    (b"%!PS", "a PostScript file"),
    (b"\x28\xb5\x2f\xfd", "a compressed file (zstd)"),
    (b"7z\xbc\xaf\x27\x1c", "an archive (7z)"),
    (b"Rar!\x1a\x07", "an archive (rar)"),
    (b"SQLite format 3\x00", "a database (SQLite)"),
    (b"ID3", "a sound file"),
    (b"OggS", "a sound or film file"),
    (b"fLaC", "a sound file"),
    (b"\x1aE\xdf\xa3", "a film"),
)

_MEMBERS: tuple[tuple[str, str], ...] = (
    ("xl/workbook.bin", "a spreadsheet (xlsb)"),
    ("META-INF/MANIFEST.MF", "a program (jar)"),
    ("AndroidManifest.xml", "a program (apk)"),
)


def refusal(source: Source) -> CannotRead | None:
    """Return the error for a document whose first bytes show that it cannot be read."""
    if b"%PDF-".startswith(source.head):
        return CannotRead("damaged", "The document breaks off right after its beginning.")
    if source.head.startswith(ZIP[0]) and not member_names(source):
        return CannotRead("damaged", "The document is damaged: its end is missing or unreadable.")
    if source.head.startswith(ZIP[1]):
        return CannotRead("empty", "The archive has no members.")
    name = next(_guesses(source), None)
    if name is None:
        return None
    return CannotRead("unsupported", f"The document seems to be {name}, which cannot be read.")


def _guesses(source: Source) -> Iterator[str]:
    head = source.head
    yield from (name for start, name in _SIGNATURES if head.startswith(start))
    yield from (name for member, name in _MEMBERS if member in member_names(source))
    if head[:4] == b"RIFF" and head[8:12] in (b"WAVE", b"AVI "):
        yield "a sound or film file"
    if head[4:8] == b"ftyp":
        yield "a film or image (MP4, HEIC)"
    if _is_windows_program(head):
        yield "a program"


def _is_windows_program(head: bytes) -> bool:
    # A text may begin with "MZ": the second signature decides.
    if head[:2] != b"MZ" or len(head) < 64:
        return False
    (at,) = struct.unpack_from("<I", head, 60)
    return head[at : at + 2] in (b"PE", b"NE", b"LE")
