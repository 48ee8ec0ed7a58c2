"""Zip archives and the Office packages in them, unpacked within limits."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from fairlead.read.base import CannotRead, ReadLimits, Source, Task
from fairlead.read.draft import Draft
from fairlead.read.error_guard import PROPERTIES
from fairlead.read.xml import Attributes, XmlHandler, attribute, parse_xml
from fairlead.read.zip import BAD_ZIP, member_names, open_zip

_MIN_RATIO_BYTES = 1_000_000  # smaller members may have any ratio: blanks pack well
_CHUNK = 65_536
_MAX_WHOLE_BYTES = 8_000_000  # of a member that is read as a whole: lists, properties
_TYPES = "[Content_Types].xml"


class Relation(NamedTuple):
    """A reference from one part of an Office package to another."""

    id: str
    role: str
    target: str


class UnpackMeter:
    """Counts the unpacked bytes of a document."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._total = 0

    def count(self, size: int, *, member: int, packed: int) -> None:
        """Add `size` bytes of a member with `member` unpacked and `packed` packed bytes.

        Raises:
            CannotRead: the total size or the member's compression ratio exceeds its limit.
        """
        self._total += size
        if self._total > self._limits.unpacked_bytes:
            bound = self._limits.unpacked_bytes // 1_000_000
            raise CannotRead("too-large", f"The document unpacks to more than {bound} MB.")
        if member > _MIN_RATIO_BYTES and member > self._limits.ratio * max(1, packed):
            raise CannotRead("too-large", "The document unpacks to a suspicious size.")


class Package:
    """A zip archive whose unpacked bytes are counted, whatever its directory claims."""

    def __init__(self, archive: zipfile.ZipFile, task: Task) -> None:
        self._archive = archive
        self._meter = UnpackMeter(task.limits)
        self._password = task.password
        self._relations: dict[str, list[Relation]] = {}
        self.names = frozenset(archive.namelist())

    def members(self) -> list[zipfile.ZipInfo]:
        return self._archive.infolist()

    def chunks(self, member: str | zipfile.ZipInfo) -> Iterator[bytes]:
        """Unpack a member in chunks.

        Raises:
            CannotRead: the member is too large or encrypted.
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

    def read(self, name: str, limit: int = _MAX_WHOLE_BYTES) -> bytes:
        """Return a member, cut at the limit; empty if there is none."""
        if name not in self.names:
            return b""
        content = bytearray()
        for chunk in self.chunks(name):
            content += chunk
            if len(content) >= limit:
                break
        return bytes(content[:limit])

    def relations(self, part: str = "") -> list[Relation]:
        """Return the internal references of a part, or of the package itself."""
        if part not in self._relations:
            folder, name = posixpath.split(part)
            listing = posixpath.join(folder, "_rels", f"{name}.rels")
            handler = _RelationsHandler(folder)
            if listing in self.names:
                parse_xml(self.chunks(listing), handler)
            self._relations[part] = handler.relations
        return self._relations[part]

    def targets(self, part: str, role: str) -> list[str]:
        """Return the members to which a part refers in this role."""
        targets = [relation.target for relation in self.relations(part) if relation.role == role]
        return [target for target in targets if target in self.names]

    def main(self, usual: str) -> str:
        """Return the name of the main part of an Office package.

        Raises:
            CannotRead: there is none.
        """
        names = [*self.targets("", "officeDocument"), *({usual} & self.names)]
        if not names:
            raise CannotRead("damaged", "The document is damaged: its main part is missing.")
        return names[0]

    def _open(self, info: zipfile.ZipInfo) -> BinaryIO:
        if not info.flag_bits & 1:
            return cast("BinaryIO", self._archive.open(info))
        password = self._password.encode() if self._password else None
        try:
            return cast("BinaryIO", self._archive.open(info, pwd=password))
        except (RuntimeError, NotImplementedError) as error:
            raise CannotRead.encrypted("document", self._password) from error


class _RelationsHandler(XmlHandler):
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.relations: list[Relation] = []

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name != "Relationship" or attribute(attributes, "TargetMode") == "External":
            return
        role = attribute(attributes, "Type").rpartition("/")[2]
        target = unquote(attribute(attributes, "Target"))
        # join() ignores the folder if the target begins with a slash.
        path = posixpath.normpath(posixpath.join("/", self._folder, target)).lstrip("/")
        self.relations.append(Relation(attribute(attributes, "Id"), role, path))


@contextmanager
def open_package(source: Source, task: Task | None = None) -> Iterator[Package]:
    """Open the document as a package.

    Raises:
        zipfile.BadZipFile: the document is not a zip archive.
        CannotRead: its directory is too large to be loaded.
    """
    with open_zip(source) as archive:
        yield Package(archive, task or Task())


def read_member(source: Source, name: str, limit: int = _MAX_WHOLE_BYTES) -> bytes:
    """Return one member of a zip archive; empty if it is missing or damaged."""
    if name in member_names(source):
        with suppress(*BAD_ZIP, CannotRead), open_package(source) as package:
            return package.read(name, limit)
    return b""


def has_main_type(types: tuple[bytes, ...], usual: str) -> Callable[[Source], bool]:
    """Recognise an Office package by the content type of its main part, or by its usual name."""

    def recognises(source: Source) -> bool:
        if _TYPES not in member_names(source):
            return False
        content_types = read_member(source, _TYPES)
        if not content_types:
            return usual in member_names(source)
        return any(name in content_types for name in types)

    return recognises


class Properties(XmlHandler):
    """Title, author and time of creation, as Office, OpenDocument and epub write them."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._values: dict[str, str] = {}
        self._name = ""

    def on_start(self, name: str, _: Attributes) -> None:
        self._name = name

    def on_end(self, _: str) -> None:
        self._name = ""

    def on_text(self, text: str) -> None:
        if self._name:
            self._values[self._name] = (self._values.get(self._name, "") + text)[:2_000]

    def close(self) -> None:
        get = self._values.get
        self._draft.fact("title", get("title"))
        self._draft.fact("author", get("creator") or get("initial-creator"))
        self._draft.created(get("created") or get("creation-date") or get("date"))


def add_properties(package: Package, draft: Draft) -> None:
    """Record the properties of an Office package; damaged ones only cause a warning."""
    with draft.guard(PROPERTIES):
        usual = {"docProps/core.xml"} & package.names
        for name in [*package.targets("", "core-properties"), *usual][:1]:
            parse_xml([package.read(name)], Properties(draft))
