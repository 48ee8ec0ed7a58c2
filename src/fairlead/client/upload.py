"""Documents as one multipart body that is read while it is sent, and may be sent again."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

from fairlead.errors import EmptyDocument, UnreadableSource
from fairlead.model.names import check_not_nameless
from fairlead.model.sources import Source, checked_file, read_piece

PIECE = 1 << 16


class Part(NamedTuple):
    """One document: its name, how to read it from its beginning, and its size where it is known.

    What can be read one time only `is_spent` from then on.
    """

    name: str
    open: Callable[[], AbstractContextManager[BinaryIO]]
    size: int | None
    is_spent: Callable[[], bool] = lambda: False


class Body:
    """A body of documents and fields. Iterating over it reads it anew each time."""

    def __init__(
        self, parts: Sequence[Part], fields: dict[str, str], on_sent: Callable[[int], None]
    ) -> None:
        self._parts = parts
        self._on_sent = on_sent
        self._fields = fields
        self._boundary = secrets.token_hex(16)

    @property
    def headers(self) -> dict[str, str]:
        """What the request says about its body."""
        found = {"Content-Type": f"multipart/form-data; boundary={self._boundary}"}
        if all(each.size is not None for each in self._parts):
            found["Content-Length"] = str(self._length())
        return found

    def is_spent(self) -> bool:
        """Whether there is no way to read it again."""
        return any(each.is_spent() for each in self._parts)

    def __iter__(self) -> Iterator[bytes]:
        sent = 0
        for piece in self._pieces():
            yield piece
            sent += len(piece)
            self._on_sent(sent)

    def _pieces(self) -> Iterator[bytes]:
        for part in self._parts:
            yield self._file_head(part)
            yield from _pieces(part)
            yield b"\r\n"
        yield self._end()

    def _length(self) -> int:
        known = sum(len(self._file_head(each)) + (each.size or 0) + 2 for each in self._parts)
        return known + len(self._end())

    def _file_head(self, part: Part) -> bytes:
        return self._head(
            f'form-data; name="file"; {_named(part.name)}',
            "Content-Type: application/octet-stream\r\n",
        )

    def _head(self, disposition: str, more: str = "") -> bytes:
        start = f"--{self._boundary}\r\nContent-Disposition: {disposition}\r\n{more}\r\n"
        return start.encode("utf-8", "surrogateescape")

    def _end(self) -> bytes:
        fields = b"".join(
            self._head(f'form-data; name="{name}"') + value.encode() + b"\r\n"
            for name, value in self._fields.items()
        )
        return fields + f"--{self._boundary}--\r\n".encode()


def part_of(source: Source, name: str | None) -> Part:
    """A document to send; refuses early what could not be sent."""
    if name is not None:
        check_not_nameless(name)
    if isinstance(source, bytes):
        found = Part(name or "document", lambda: BytesIO(source), len(source))
    elif isinstance(source, str | Path):
        found = _of_path(Path(source), name)
    else:
        found = _of_file(checked_file(source), name)
    if found.size == 0:
        raise EmptyDocument(f"{found.name!r} is empty; submit a file that has content")
    return found


def _of_path(path: Path, name: str | None) -> Part:
    try:
        if not path.is_file():
            if path.exists():
                raise UnreadableSource(f"{path} is not a file; give the path of a file")
            raise UnreadableSource(f"{path} does not exist; check the path")
        path.open("rb").close()
        return Part(name or path.name, lambda: path.open("rb"), path.stat().st_size)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableSource(
            f"{path} cannot be read ({reason}); check its path and permissions"
        ) from None


def _of_file(file: BinaryIO, name: str | None) -> Part:
    own = getattr(file, "name", None)
    shown = name or (Path(own).name if isinstance(own, str) else "document")
    if not _is_seekable(file):
        once = _Once(file)
        return Part(shown, once.open, None, lambda: once.is_spent)
    start = file.tell()
    size = file.seek(0, 2) - start
    file.seek(start)

    def again() -> AbstractContextManager[BinaryIO]:
        file.seek(start)
        return nullcontext(file)

    return Part(shown, again, size)


def _is_seekable(file: BinaryIO) -> bool:
    return bool(getattr(file, "seekable", lambda: False)())


class _Once:
    """A file that can be read one time only, such as a pipe."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.is_spent = False

    def open(self) -> AbstractContextManager[BinaryIO]:
        """The file; from now on it is spent."""
        self.is_spent = True
        return nullcontext(self._file)


def _pieces(part: Part) -> Iterator[bytes]:
    sent = 0
    for piece in _read(part):
        sent += len(piece)
        if part.size is not None and sent > part.size:
            break
        yield piece
    if part.size is not None and sent != part.size:
        raise UnreadableSource(f"{part.name!r} changed while it was sent; submit it again")


def _read(part: Part) -> Iterator[bytes]:
    try:
        with part.open() as file:
            while piece := read_piece(file, PIECE):
                yield piece
    except OSError as error:
        raise UnreadableSource(f"{part.name!r} cannot be read: {error}") from error


def _named(name: str) -> str:
    """A name in a header: as browsers write it, or encoded where they would lose what it was."""
    if any(letter in name for letter in '"%\\\r\n'):
        return f"filename*=UTF-8''{quote(name, safe='', errors='surrogateescape')}"
    return f'filename="{name}"'
