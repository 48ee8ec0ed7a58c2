"""What is given to be submitted, here or to a server: a path, bytes, an open file, or JSON."""

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
"""The name of a document that was given as data."""


def json_bytes(source: JSONSource) -> bytes:
    """The data as a JSON document."""
    try:
        return to_json(source)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
        raise UsageError(f"the document cannot be written as JSON: {error}") from None


def checked_file(source: object) -> BinaryIO:
    """The file; types are no help to those who do not check them."""
    if isinstance(source, TextIOBase) or not hasattr(source, "read"):
        raise UsageError(
            "a document is a path, bytes, a dict or list, or a file open for reading bytes, as "
            f"open(path, 'rb') gives; got {type(source).__name__}"
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
