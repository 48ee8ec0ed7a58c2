"""Sources: a document to submit as a path, bytes, an open file, or JSON."""

from __future__ import annotations

from io import TextIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

from fairlead.errors import UnreadableSource, UsageError
from fairlead.model.json import to_json

JSONSource = dict[str, Any] | list[Any]
Source = str | Path | bytes | BinaryIO | JSONSource
"""A document to submit: a path, its bytes, a file open for reading bytes, or data for JSON."""
JSON_NAME = "document.json"
"""The default name of a document made from a dict or list."""


def json_bytes(source: JSONSource) -> bytes:
    """A dict or list as a JSON document."""
    try:
        return to_json(source)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
        raise UsageError(f"the document cannot be written as JSON: {error}") from None


def checked_file(source: object) -> BinaryIO:
    """The file; UsageError if it is not one, as the caller may not check types."""
    if isinstance(source, TextIOBase) or not hasattr(source, "read"):
        raise UsageError(
            "a document is a path, bytes, a dict or list, or a file open for reading bytes, as "
            f"open(path, 'rb') gives; got {type(source).__name__}"
        )
    return cast("BinaryIO", source)


def read_piece(file: BinaryIO, most: int) -> bytes:
    """The next bytes; empty at the end. A non-blocking file is refused, as it hides its end."""
    piece: object = file.read(most)
    if isinstance(piece, bytes | bytearray | memoryview):
        return bytes(piece)
    if isinstance(piece, str):
        raise UnreadableSource('the document is open as text; open it with mode "rb"')
    raise UnreadableSource(
        "the document has no bytes at the moment, and its file does not wait for them; "
        "open it so that it blocks"
    )
