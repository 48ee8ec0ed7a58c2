"""Archives (zip, tar, gzip, bzip2, xz): their members become documents of their own."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, BinaryIO, cast

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Task, locked
from fairlead.read.draft import Draft
from fairlead.read.package import Meter, Package, opened
from fairlead.read.parts import Parts, safe_name
from fairlead.read.source import Source
from fairlead.read.text_writer import TextWriter, item
from fairlead.read.zip import BAD_ZIP, ZIP, names

_EXTRACTOR = "Fairlead archives"
_CHUNK = 65_536
_JUNK = ("__MACOSX/", ".DS_Store", "Thumbs.db")
_PACKED: dict[str, tuple[bytes, Callable[[BinaryIO], IO[bytes]]]] = {
    "gzip": (b"\x1f\x8b", lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file))),
    "bzip2": (b"BZh", lambda file: cast("IO[bytes]", bz2.BZ2File(file))),
    "xz": (b"\xfd7zXZ\x00", lambda file: cast("IO[bytes]", lzma.LZMAFile(file))),  # noqa: SIM115 - the caller closes the file within
}
_TAR = b"ustar"


def _is_zip(source: Source) -> bool:
    return source.head.startswith(ZIP) and bool(names(source))


def _is_tar(source: Source) -> bool:
    return source.head[257:262] == _TAR


def _is_packed(kind: str) -> Callable[[Source], bool]:
    return lambda source: source.head.startswith(_PACKED[kind][0])


def _read_zip(source: Source, task: Task) -> Extracted:
    draft = Draft("zip", _EXTRACTOR, task.limits)
    with opened(source, task) as package:
        parts = Parts(draft)
        _add_zip_members(package, parts, draft, task)
    return _finish(draft, parts)


def _add_zip_members(package: Package, parts: Parts, draft: Draft, task: Task) -> None:
    files = [m for m in package.members() if not m.is_dir() and not _is_junk(m.filename)]
    shut = 0
    for member in files:
        if parts.full:
            draft.warn(f"only the first {task.limits.members} of {len(files)} members were taken")
            break
        content = _unzipped(package, member, draft)
        shut += content is None
        if content is not None:
            parts.add(member.filename, content)
    if shut and shut == len(files):
        raise locked("archive", task.password)
    if shut:
        draft.warn(f"{shut} of {len(files)} members are protected by a password")


def _unzipped(package: Package, member: zipfile.ZipInfo, draft: Draft) -> bytes | None:
    """The content of a member, empty where it is broken; None: a password protects it."""
    try:
        return b"".join(package.chunks(member))
    except CannotRead as error:
        if error.code == "encrypted":
            return None
        raise
    except (*BAD_ZIP, RuntimeError):
        if member.flag_bits & 1:
            return None  # a wrong password that passed the first check
        draft.warn(f"a member is damaged: {safe_name(member.filename)[:100]}")
        return b""


def _read_tar(source: Source, task: Task) -> Extracted:
    with source.open() as file:
        return _from_tar(cast("IO[bytes]", file), task)


def _read_packed(kind: str, source: Source, task: Task) -> Extracted:
    with source.open() as raw:
        metered = _Metered(_PACKED[kind][1](raw), source.size, task)
        file = io.BufferedReader(metered, _CHUNK)
        if file.peek(512)[257:262] == _TAR:
            return _from_tar(cast("IO[bytes]", file), task)
        return _one_member(kind, source, cast("IO[bytes]", file), task)


def _one_member(kind: str, source: Source, file: IO[bytes], task: Task) -> Extracted:
    draft = Draft(kind, _EXTRACTOR, task.limits)
    parts = Parts(draft)
    try:
        parts.add(_name_in(source), file.read())
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise CannotRead("damaged", "The compressed file is damaged.") from error
    if not draft.parts:
        raise CannotRead("empty", "The compressed file has no content.")
    return _finish(draft, parts)


def _name_in(source: Source) -> str:
    """The name that gzip keeps of the file it packed."""
    head = source.head
    if not head.startswith(b"\x1f\x8b") or len(head) < 10 or not head[3] & 8:
        return "document"
    start = 10
    if head[3] & 4:
        start += 2 + int.from_bytes(head[10:12], "little")
    return head[start : start + 1_024].partition(b"\0")[0].decode("utf-8", "replace")


def _from_tar(file: IO[bytes], task: Task) -> Extracted:
    draft = Draft("tar", _EXTRACTOR, task.limits)
    parts = Parts(draft)
    meter = Meter(task.limits)
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for name, content in _tar_members(archive, meter):
                if parts.full:
                    draft.warn(f"only the first {task.limits.members} members were taken")
                    break
                parts.add(name, content)
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if not draft.parts:
            raise CannotRead("damaged", "The archive is damaged and could not be read.") from error
        draft.warn("some members are missing: the archive is damaged")
    return _finish(draft, parts)


def _tar_members(archive: tarfile.TarFile, meter: Meter) -> Iterator[tuple[str, bytes]]:
    for member in archive:
        if not member.isreg() or _is_junk(member.name):
            continue
        # Its size is only what it says: nothing is read before that is within the limits.
        meter.count(member.size, member=member.size, packed=member.size)
        content = archive.extractfile(member)
        yield member.name, content.read() if content else b""


class _Metered(io.RawIOBase):
    """A file that is unpacked while it is read, and refuses to become too large."""

    def __init__(self, file: IO[bytes], packed: int, task: Task) -> None:
        self._file = file
        self._packed = packed
        self._meter = Meter(task.limits)
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override] # as narrow as it is used
        chunk = self._file.read(len(buffer))
        self._size += len(chunk)
        self._meter.count(len(chunk), member=self._size, packed=self._packed)
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _is_junk(name: str) -> bool:
    return name.startswith(_JUNK[0]) or name.rpartition("/")[2] in _JUNK[1:]


def _finish(draft: Draft, parts: Parts) -> Extracted:
    """The archive as a document: its text is the list of its members."""
    if not parts.names:
        raise CannotRead("empty", "The archive has no members.")
    parts.finish()
    pen = TextWriter(draft)
    for name in parts.names:
        pen.begin(item())
        pen.flow(name)
    pen.close()
    return draft.finish()


READERS = (
    Reader("zip", Rank.CONTAINER, _is_zip, _read_zip),
    Reader("tar", Rank.CONTAINER, _is_tar, _read_tar),
    *(
        Reader(kind, Rank.CONTAINER, _is_packed(kind), partial(_read_packed, kind))
        for kind in _PACKED
    ),
)
