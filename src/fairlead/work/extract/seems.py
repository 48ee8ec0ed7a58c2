"""What a document seems to be when nobody can read it, in the customer's words."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from fairlead.work.extract.base import CannotRead, Source

_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\x00asm", "a program"),
    (b"\x89PNG\r\n\x1a\n", "an image (PNG)"),
    (b"\xff\xd8\xff", "an image (JPEG)"),
    (b"GIF87a", "an image (GIF)"),
    (b"GIF89a", "an image (GIF)"),
    (b"II*\x00", "an image (TIFF)"),
    (b"MM\x00*", "an image (TIFF)"),
    (b"{\\rtf", "a Rich Text document (rtf)"),
    (b"%!PS", "a PostScript file"),
    (b"\x1f\x8b", "a compressed file (gzip)"),
    (b"BZh", "a compressed file (bzip2)"),
    (b"\xfd7zXZ\x00", "a compressed file (xz)"),
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
    ("xl/workbook.xml", "a spreadsheet (xlsx)"),
    ("xl/workbook.bin", "a spreadsheet (xlsb)"),
    ("ppt/presentation.xml", "a presentation (pptx)"),
    ("META-INF/container.xml", "an e-book (epub)"),
    ("META-INF/MANIFEST.MF", "a program (jar)"),
)

_OPEN_DOCUMENT: tuple[tuple[str, str], ...] = (
    ("text", "an OpenDocument text (odt)"),
    ("spreadsheet", "a spreadsheet (ods)"),
    ("presentation", "a presentation (odp)"),
)

_STREAMS: tuple[tuple[str, str], ...] = (
    ("WordDocument", "an old Word document (doc)"),
    ("Workbook", "an old spreadsheet (xls)"),
    ("PowerPoint Document", "an old presentation (ppt)"),
    ("__properties_version1.0", "an Outlook message (msg)"),
)


def refusal(source: Source) -> CannotRead | None:
    """Why the document cannot be read, where its first bytes show that; else None."""
    if source.head.startswith(_OLE) and source.has_ole_stream("EncryptedPackage"):
        return CannotRead("encrypted", "The document is protected by a password; send it without.")
    if b"%PDF-".startswith(source.head):
        return CannotRead("damaged", "The document breaks off right after its beginning.")
    if source.head.startswith(_ZIP) and not source.members:
        return CannotRead("damaged", "The document is damaged: its end is missing or unreadable.")
    name = next((name for guess in _GUESSES for name in guess(source)), None)
    if name is None:
        return None
    return CannotRead("unsupported", f"The document seems to be {name}, which cannot be read.")


def _by_signature(source: Source) -> Iterator[str]:
    return (name for start, name in _SIGNATURES if source.head.startswith(start))


def _by_members(source: Source) -> Iterator[str]:
    if source.head.startswith(_ZIP):
        yield from (name for member, name in _MEMBERS if member in source.members)
        mark = b"mimetypeapplication/vnd.oasis.opendocument."
        yield from (name for kind, name in _OPEN_DOCUMENT if mark + kind.encode() in source.head)
    if source.head.startswith((_ZIP, b"PK\x05\x06", b"PK\x07\x08")):
        yield "a zip archive"


def _by_streams(source: Source) -> Iterator[str]:
    if source.head.startswith(_OLE):
        yield from (name for stream, name in _STREAMS if source.has_ole_stream(stream))
        yield "an old Office document"


def _by_structure(source: Source) -> Iterator[str]:
    head = source.head
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        yield "an image (WebP)"
    if head[:4] == b"RIFF" and head[8:12] in (b"WAVE", b"AVI "):
        yield "a sound or film file"
    if head[4:8] == b"ftyp":
        yield "a film or image (MP4, HEIC)"
    if _is_windows_program(head):
        yield "a program"
    if head[257:262] == b"ustar":
        yield "an archive (tar)"


def _is_windows_program(head: bytes) -> bool:
    # A text may begin with "MZ": the program's second signature settles it.
    if head[:2] != b"MZ" or len(head) < 64:
        return False
    (at,) = struct.unpack_from("<I", head, 60)
    return head[at : at + 2] in (b"PE", b"NE", b"LE")


_GUESSES: tuple[Callable[[Source], Iterator[str]], ...] = (
    _by_signature,
    _by_members,
    _by_streams,
    _by_structure,
)
