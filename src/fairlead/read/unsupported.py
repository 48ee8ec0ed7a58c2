"""What a document seems to be when nobody can read it, in the customer's words."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from fairlead.read.base import CannotRead
from fairlead.read.source import OLE, Source
from fairlead.read.zip import ZIP, names

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
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
    """Why the document cannot be read, where its first bytes show that; else None."""
    if b"%PDF-".startswith(source.head):
        return CannotRead("damaged", "The document breaks off right after its beginning.")
    if source.head.startswith(ZIP[0]) and not names(source):
        return CannotRead("damaged", "The document is damaged: its end is missing or unreadable.")
    if source.head.startswith(ZIP[1]):
        return CannotRead("empty", "The archive has no members.")
    name = next((name for guess in _GUESSES for name in guess(source)), None)
    if name is None:
        return None
    return CannotRead("unsupported", f"The document seems to be {name}, which cannot be read.")


def _by_signature(source: Source) -> Iterator[str]:
    return (name for start, name in _SIGNATURES if source.head.startswith(start))


def _by_container(source: Source) -> Iterator[str]:
    if source.head.startswith(ZIP):
        yield from (name for member, name in _MEMBERS if member in names(source))
    if source.head.startswith(OLE):
        yield "an old Office document of an unknown kind"


def _by_structure(source: Source) -> Iterator[str]:
    head = source.head
    if head[:4] == b"RIFF" and head[8:12] in (b"WAVE", b"AVI "):
        yield "a sound or film file"
    if head[4:8] == b"ftyp":
        yield "a film or image (MP4, HEIC)"
    if _is_windows_program(head):
        yield "a program"


def _is_windows_program(head: bytes) -> bool:
    # A text may begin with "MZ": the program's second signature settles it.
    if head[:2] != b"MZ" or len(head) < 64:
        return False
    (at,) = struct.unpack_from("<I", head, 60)
    return head[at : at + 2] in (b"PE", b"NE", b"LE")


_GUESSES: tuple[Callable[[Source], Iterator[str]], ...] = (
    _by_signature,
    _by_container,
    _by_structure,
)
