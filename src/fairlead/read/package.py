"""Zip archives and the office packages that are zip archives, unpacked within limits."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from fairlead.read.base import CannotRead, ReadLimits, Task, locked
from fairlead.read.source import Source
from fairlead.read.xml import Attributes, Walk, attribute, walk
from fairlead.read.zip import BAD_ZIP, names, open_zip

RATIO_FROM = 1_000_000  # a small member of blanks packs well and harms nobody
_CHUNK = 65_536
_SMALL = 8_000_000  # of a member that is read as a whole: lists, properties


class Relation(NamedTuple):
    """How one part of an office package refers to another."""

    id: str
    role: str
    target: str


class Meter:
    """Counts what comes out of a document, and refuses too much of it."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._total = 0

    def count(self, size: int, *, member: int, packed: int) -> None:
        """Add `size` bytes, of a member that has `member` so far and was `packed` before.

        Raises:
            CannotRead: too much of it, or by far too much for its size.
        """
        self._total += size
        if self._total > self._limits.unpacked_bytes:
            bound = self._limits.unpacked_bytes // 1_000_000
            raise CannotRead("too-large", f"The document unpacks to more than {bound} MB.")
        if member > RATIO_FROM and member > self._limits.ratio * max(1, packed):
            raise CannotRead("too-large", "The document unpacks to a suspicious size.")


class Package:
    """A zip archive; what is unpacked from it is metered by what really comes out."""

    def __init__(self, archive: zipfile.ZipFile, task: Task) -> None:
        self._archive = archive
        self._meter = Meter(task.limits)
        self._password = task.password
        self._relations: dict[str, list[Relation]] = {}
        self.names = frozenset(archive.namelist())

    def members(self) -> list[zipfile.ZipInfo]:
        """All members, as the archive lists them."""
        return self._archive.infolist()

    def chunks(self, member: str | zipfile.ZipInfo) -> Iterator[bytes]:
        """The content of a member, piece by piece.

        Raises:
            CannotRead: it is too large, or locked.
            KeyError: there is no such member.
        """
        info = self._archive.getinfo(member) if isinstance(member, str) else member
        self._meter.count(0, member=info.file_size, packed=info.compress_size)
        size = 0
        with self._open(info) as file:
            while chunk := file.read(_CHUNK):
                size += len(chunk)
                self._meter.count(len(chunk), member=size, packed=info.compress_size)
                yield chunk

    def read(self, name: str, limit: int = _SMALL) -> bytes:
        """A member as a whole, cut at the limit; empty where there is none."""
        if name not in self.names:
            return b""
        found = bytearray()
        for chunk in self.chunks(name):
            found += chunk
            if len(found) >= limit:
                break
        return bytes(found[:limit])

    def relations(self, part: str = "") -> list[Relation]:
        """What a part refers to within the package; the package itself where it is empty."""
        if part not in self._relations:
            self._relations[part] = self._listed_relations(part)
        return self._relations[part]

    def _listed_relations(self, part: str) -> list[Relation]:
        folder, name = posixpath.split(part)
        listed = posixpath.join(folder, "_rels", f"{name}.rels")
        if listed not in self.names:
            return []
        found = _Relations(folder)
        walk(self.chunks(listed), found)
        return found.relations

    def main(self, *usual: str) -> str:
        """The main part of an office package.

        Raises:
            CannotRead: there is none.
        """
        listed = [r.target for r in self.relations() if r.role == "officeDocument"]
        for name in (*listed, *usual):
            if name in self.names:
                return name
        raise CannotRead("damaged", "The document is damaged: its main part is missing.")

    def _open(self, info: zipfile.ZipInfo) -> BinaryIO:
        if not info.flag_bits & 1:
            return cast("BinaryIO", self._archive.open(info))
        password = self._password.encode() if self._password else None
        try:
            return cast("BinaryIO", self._archive.open(info, pwd=password))
        except (RuntimeError, NotImplementedError) as error:
            raise locked("document", self._password) from error


class _Relations(Walk):
    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self.relations: list[Relation] = []

    def opened(self, name: str, attributes: Attributes) -> None:
        if name != "Relationship" or attribute(attributes, "TargetMode") == "External":
            return
        role = attribute(attributes, "Type").rpartition("/")[2]
        target = unquote(attribute(attributes, "Target"))
        # What begins with a slash is joined to nothing.
        path = posixpath.normpath(posixpath.join("/", self._folder, target)).lstrip("/")
        self.relations.append(Relation(attribute(attributes, "Id"), role, path))


@contextmanager
def opened(source: Source, task: Task | None = None) -> Iterator[Package]:
    """The document as a package.

    Raises:
        zipfile.BadZipFile: it is none.
        CannotRead: its directory is too large to be loaded.
    """
    with open_zip(source) as archive:
        yield Package(archive, task or Task())


def member(source: Source, name: str, limit: int = _SMALL) -> bytes:
    """One member of a zip archive; empty where it cannot be had."""
    if name not in names(source):
        return b""
    try:
        with opened(source) as package:
            return package.read(name, limit)
    except (*BAD_ZIP, CannotRead):
        return b""
