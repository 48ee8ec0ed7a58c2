"""What is given to be submitted, here or to a server: a path, bytes, or an open file."""

from __future__ import annotations

from io import TextIOBase
from pathlib import Path
from typing import BinaryIO, cast

from fairlead.errors import UnreadableSource, UsageError

Source = str | Path | bytes | BinaryIO
"""A document to submit: a path, its bytes, or a file open for reading bytes."""


def checked_file(source: object) -> BinaryIO:
    """The file; types are no help to those who do not check them."""
    if isinstance(source, TextIOBase) or not hasattr(source, "read"):
        raise UsageError(
            "a document is a path, bytes, or a file open for reading bytes, as open(path, 'rb') "
            f"gives; got {type(source).__name__}"
        )
    return cast("BinaryIO", source)


def read_piece(file: BinaryIO, most: int) -> bytes:
    """The next bytes; none at the end. A file that does not wait for them has no end to tell."""
    found: object = file.read(most)
    if isinstance(found, bytes | bytearray | memoryview):
        return bytes(found)
    if isinstance(found, str):
        raise UnreadableSource('the document is open as text; open it with mode "rb"')
    raise UnreadableSource(
        "the document has no bytes at the moment, and its file does not wait for them; "
        "open it so that it blocks"
    )
