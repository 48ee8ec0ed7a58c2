"""What documents are made of: paths, bytes and open files, looked at and read."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from fairlead.errors import EmptyDocument, InvalidName, Message, TooLarge, UnreadableSource
from fairlead.model.names import check_name
from fairlead.model.sources import Source, checked_file, read_piece

Opener = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens a source; called when its turn comes, so that few files are open at once."""

_CHUNK = 1 << 20


def opened(source: Source, limit: int, name: str | None = None) -> tuple[Opener, str]:
    """What opens a source, and its own name, which may be any where another `name` is given."""
    if isinstance(source, bytes):
        return lambda: BytesIO(source), "document"
    if isinstance(source, str | Path):
        path = Path(source)
        check_file(path, limit, name)
        return lambda: path.open("rb"), path.name
    file = checked_file(source)
    place = getattr(file, "name", None)
    return lambda: nullcontext(file), Path(place).name if isinstance(place, str) else "document"


def chunks(opener: Opener, limit: int) -> Iterator[bytes]:
    """What a source has, in portions; refuses more bytes than the limit."""
    size = 0
    try:
        with opener() as stream:
            while chunk := read_piece(stream, _CHUNK):
                size += len(chunk)
                _check_size(size, limit)
                yield chunk
    except OSError as error:
        raise UnreadableSource(f"the document cannot be read: {error}") from error


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(
            f"the document has more than {limit:,} bytes; "
            "send a smaller one or raise the setting max_document_bytes"
        )


def check_file(path: Path, limit: int, name: str | None = None) -> None:
    """Refuse early, before anything is written, a file that could not be accepted anyway.

    Its own name is looked at only where it is to be the document's: where no other is given.
    """
    size = _size_of_readable(path)
    check_not_empty(size, str(path))
    if size > limit:
        raise TooLarge(
            f"{str(path)!r} has {size:,} bytes and {limit:,} are allowed; submit a smaller file, "
            "or raise the setting max_document_bytes"
        )
    if name is None:
        _check_own_name(path)


def _check_own_name(path: Path) -> None:
    try:
        check_name(path.name)
    except InvalidName as error:  # the path, so that it can be found among many
        raise InvalidName(f"{str(path)!a}: {error}") from None


def _size_of_readable(path: Path) -> int:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableSource(f"{path} is not a file; give the path of a file")
        path.open("rb").close()
        return found.st_size
    except FileNotFoundError:
        raise UnreadableSource(f"{path} does not exist; check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableSource(
            f"{path} cannot be read ({reason}); check its path and permissions"
        ) from None


def check_not_empty(size: int, name: str) -> None:
    """Refuse a document without content."""
    if size == 0:
        raise EmptyDocument(
            Message("{name} is empty; submit a file that has content", name=repr(name))
        )
