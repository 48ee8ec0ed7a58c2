"""Documents to upload, as httpx's multipart encoder reads them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from fairlead.errors import InvalidName, UnreadableSource
from fairlead.model.installation import NamedSource
from fairlead.model.names import check_not_nameless, is_printable, quoted
from fairlead.model.sources import JSON_NAME, Source, checked_file, json_bytes, read_piece


class OutgoingFile:
    """One document. Each attempt to send it starts at the position that its file had at first."""

    def __init__(self, name: str, file: BinaryIO, on_read: Callable[[], None]) -> None:
        self.name = name
        self.sent = 0
        self.was_read = False
        self._file = file
        self._on_read = on_read
        self._start, self._size = _extent(file)

    @property
    def can_be_sent(self) -> bool:
        """Whether it can be sent (again): the file can be rewound, or was not read yet."""
        return self._size is not None or not self.was_read

    def tell(self) -> int:
        """The position; UnsupportedOperation makes httpx send a file of unknown size in chunks."""
        if self._size is None:
            raise io.UnsupportedOperation
        return self.sent

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self._size is None:
            raise io.UnsupportedOperation
        self.sent = self._size if whence == io.SEEK_END else offset
        self._file.seek(self._start + self.sent)
        return self.sent

    def read(self, size: int) -> bytes:
        self.was_read = True
        try:
            piece = read_piece(self._file, size)
        except OSError as error:
            raise UnreadableSource(f"{self.name!r} cannot be read: {error}") from error
        self.sent += len(piece)
        self._check_size(at_end=not piece)
        self._on_read()
        return piece

    def _check_size(self, *, at_end: bool) -> None:
        """Raise if the file has changed its size, which the request has announced."""
        if self._size is None:
            return
        if self.sent > self._size or (at_end and self.sent < self._size):
            raise UnreadableSource(f"{self.name!r} changed while it was sent; submit it again")


@contextmanager
def open_uploads(
    sources: Iterable[NamedSource], on_sent: Callable[[int], None]
) -> Iterator[list[OutgoingFile]]:
    """The documents, open for reading; closes the files that it opened."""
    uploads: list[OutgoingFile] = []

    def report() -> None:
        on_sent(sum(upload.sent for upload in uploads))

    with ExitStack() as stack:
        for source in sources:
            content, name = source if isinstance(source, tuple) else (source, None)
            own_name, file = _open(content, stack)
            name = own_name if name is None else check_not_nameless(name)
            if not is_printable(name):
                raise InvalidName(f"a document's name must be printable, got {quoted(name)}")
            uploads.append(OutgoingFile(name, file, report))
        yield uploads


def _open(source: Source, stack: ExitStack) -> tuple[str, BinaryIO]:
    """The default name of a source, and its file."""
    if isinstance(source, dict | list):
        return JSON_NAME, io.BytesIO(json_bytes(source))
    if isinstance(source, bytes):
        return "document", io.BytesIO(source)
    if isinstance(source, str | Path):
        path = Path(source)
        try:
            return path.name, stack.enter_context(path.open("rb"))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UnreadableSource(
                f"{path} cannot be read ({reason}); check its path and permissions"
            ) from None
    file = checked_file(source)
    name = getattr(file, "name", None)
    return Path(name).name if isinstance(name, str) else "document", file


def _extent(file: BinaryIO) -> tuple[int, int | None]:
    """The position and size of the document in its file; None: the file cannot be rewound."""
    if not getattr(file, "seekable", lambda: False)():
        return 0, None
    start = file.tell()
    size = file.seek(0, io.SEEK_END) - start
    file.seek(start)
    return start, size
