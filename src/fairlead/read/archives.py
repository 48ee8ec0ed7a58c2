"""Archives (zip, tar, gzip, bzip2, xz), whose members become documents."""

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

from fairlead.read.base import FINAL_ERRORS, CannotRead, Extracted, Rank, Reader, Source, Task
from fairlead.read.draft import Draft, Parts, safe_name
from fairlead.read.error_guard import MEMBERS, UNREAD, PartName
from fairlead.read.package import Package, UnpackMeter, open_package
from fairlead.read.text_writer import TextWriter, item
from fairlead.read.zip import member_names

_EXTRACTOR = "Fairlead archives"
_CHUNK = 65_536
_JUNK = ("__MACOSX/", ".DS_Store", "Thumbs.db")
_PACKED: dict[str, tuple[bytes, Callable[[BinaryIO], IO[bytes]]]] = {
    "gzip": (b"\x1f\x8b", lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file))),
    "bzip2": (b"BZh", lambda file: cast("IO[bytes]", bz2.BZ2File(file))),
    "xz": (b"\xfd7zXZ\x00", lambda file: cast("IO[bytes]", lzma.LZMAFile(file))),  # noqa: SIM115 - the caller closes the file within
}
_TAR = b"ustar"
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)


def _is_packed(kind: str, source: Source) -> bool:
    return source.head.startswith(_PACKED[kind][0])


def _read_zip(source: Source, task: Task) -> Extracted:
    draft = Draft("zip", _EXTRACTOR, task.limits)
    parts = Parts(draft)
    encrypted = 0
    with open_package(source, task) as package:
        files = [m for m in package.members() if not m.is_dir() and not _is_junk(m.filename)]
        for member in files:
            if parts.full:
                most = task.limits.members
                draft.warn(f"only the first {most} of {len(files)} members were taken")
                break
            content = _unzip(package, member, draft)
            encrypted += content is None
            if content is not None:
                parts.add(member.filename, content)
    if encrypted and encrypted == len(files):
        raise CannotRead.encrypted("archive", task.password)
    if encrypted:
        draft.warn(f"{encrypted} of {len(files)} members are protected by a password")
    return _finish(draft, parts)


def _unzip(package: Package, member: zipfile.ZipInfo, draft: Draft) -> bytes | None:
    """Return the content of a member: empty if it is damaged, None if it is encrypted."""
    try:
        return b"".join(package.chunks(member))
    except CannotRead as error:
        if error.code == "encrypted":
            return None
        raise
    except MemoryError:
        raise
    except Exception as error:
        if member.flag_bits & 1:
            return None  # a wrong password that passed the first check
        draft.guard.take(error, UNREAD, PartName("member", safe_name(member.filename)))
        return b""


def _read_tar(source: Source, task: Task) -> Extracted:
    with source.open() as file:
        return _read_tar_file(file, task)


def _read_packed(kind: str, source: Source, task: Task) -> Extracted:
    with source.open() as raw:
        metered = _Metered(_PACKED[kind][1](raw), source.size, task)
        file = io.BufferedReader(metered, _CHUNK)
        if file.peek(512)[257:262] == _TAR:
            return _read_tar_file(file, task)
        draft = Draft(kind, _EXTRACTOR, task.limits)
        parts = Parts(draft)
        try:
            parts.add(_packed_name(source), file.read())
        except _DAMAGED as error:
            raise CannotRead("damaged", "The compressed file is damaged.") from error
    if not draft.parts:
        raise CannotRead("empty", "The compressed file has no content.")
    return _finish(draft, parts)


def _packed_name(source: Source) -> str:
    """Return the file name that gzip stores."""
    head = source.head
    if not head.startswith(b"\x1f\x8b") or len(head) < 10 or not head[3] & 8:
        return "document"
    start = 10
    if head[3] & 4:
        start += 2 + int.from_bytes(head[10:12], "little")
    return head[start : start + 1_024].partition(b"\0")[0].decode("utf-8", "replace")


def _read_tar_file(file: IO[bytes], task: Task) -> Extracted:
    draft = Draft("tar", _EXTRACTOR, task.limits)
    parts = Parts(draft)
    meter = UnpackMeter(task.limits)
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for name, content in _tar_members(archive, meter):
                if parts.full:
                    draft.warn(f"only the first {task.limits.members} members were taken")
                    break
                parts.add(name, content)
    except FINAL_ERRORS:
        raise
    except Exception as error:
        if not draft.parts:
            raise CannotRead("damaged", "The archive is damaged and could not be read.") from error
        draft.guard.take(error, MEMBERS)
    return _finish(draft, parts)


def _tar_members(archive: tarfile.TarFile, meter: UnpackMeter) -> Iterator[tuple[str, bytes]]:
    for member in archive:
        if not member.isreg() or _is_junk(member.name):
            continue
        # The size in the header must be within the limits before any content is read.
        meter.count(member.size, member=member.size, packed=member.size)
        content = archive.extractfile(member)
        yield member.name, content.read() if content else b""


class _Metered(io.RawIOBase):
    """Unpacks a file while it is read, within the limits."""

    def __init__(self, file: IO[bytes], packed: int, task: Task) -> None:
        self._file = file
        self._packed = packed
        self._meter = UnpackMeter(task.limits)
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override] # narrower, as it is used
        chunk = self._file.read(len(buffer))
        self._size += len(chunk)
        self._meter.count(len(chunk), member=self._size, packed=self._packed)
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _is_junk(name: str) -> bool:
    return name.startswith(_JUNK[0]) or name.rpartition("/")[2] in _JUNK[1:]


def _finish(draft: Draft, parts: Parts) -> Extracted:
    """Write the list of the members as the text of the archive."""
    if not parts.names:
        raise CannotRead("empty", "The archive has no members.")
    parts.finish()
    writer = TextWriter(draft)
    for name in parts.names:
        writer.begin(item())
        writer.flow(name)
    return writer.finish()


READERS = (
    Reader("zip", Rank.CONTAINER, lambda source: bool(member_names(source)), _read_zip),
    Reader("tar", Rank.CONTAINER, lambda source: source.head[257:262] == _TAR, _read_tar),
    *(
        Reader(kind, Rank.CONTAINER, partial(_is_packed, kind), partial(_read_packed, kind))
        for kind in _PACKED
    ),
)
