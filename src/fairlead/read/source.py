"""The document at hand: on disk, or unlocked in memory."""

from __future__ import annotations

import io
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

HEAD_BYTES = 65_536
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@dataclass(frozen=True)
class Source:
    """A document's bytes, with what recognising it needs."""

    path: Path
    content: bytes | None = None  # instead of the file: what a password unlocked
    # What one reader found out and another may want to know.
    known: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)

    @cached_property
    def size(self) -> int:
        """Bytes in the document."""
        return self.path.stat().st_size if self.content is None else len(self.content)

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the document."""
        return self.read(HEAD_BYTES)

    def open(self) -> BinaryIO:
        """The bytes as a file; the caller closes it."""
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def read(self, limit: int) -> bytes:
        """At most `limit` bytes from the start."""
        with self.open() as file:
            return file.read(limit)

    @cached_property
    def is_ole(self) -> bool:
        """Whether it is the container of old Office, Outlook and encrypted Office files."""
        return self.head.startswith(OLE)

    def has_ole_stream(self, name: str) -> bool:
        """Whether an OLE file has a stream of this name."""
        return self.is_ole and self._has_entry(name)

    def _has_entry(self, name: str) -> bool:
        wanted = (name + "\0").encode("utf-16-le")
        with self.mapped() as content:
            at = content.find(wanted)
            # A directory entry lies on a 128-byte boundary: the same word in a text does not count.
            while at != -1 and at % 128:
                at = content.find(wanted, at + 1)
            return at != -1

    @contextmanager
    def mapped(self) -> Iterator[mmap.mmap | bytes]:
        """All bytes, without reading them at once."""
        if self.content is not None:
            yield self.content
            return
        with (
            self.path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            yield content
