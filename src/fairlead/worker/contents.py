"""Contents that are not in blob storage yet: bytes in memory, or in a file of a job."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairlead.model.blobs import HEAD_BYTES, SHORT_BYTES
from fairlead.worker.sandbox.spool import SpooledBytes

Source = bytes | Path | SpooledBytes
CHUNK_BYTES = 1 << 20


class Measured(NamedTuple):
    """The size and SHA-256 of a content; `short`: its bytes where they are few."""

    size: int
    sha256: str
    short: bytes | None


def chunks(source: Source) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
    elif isinstance(source, Path):
        with source.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    else:
        yield from source.chunks()


def measured(source: Source) -> Measured:
    if isinstance(source, SpooledBytes):
        return Measured(len(source), source.sha256, None)
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    short = b"".join(chunks(source)) if size <= SHORT_BYTES else None
    digest = hashlib.sha256()
    for chunk in chunks(source) if short is None else (short,):
        digest.update(chunk)
    return Measured(size, digest.hexdigest(), short)


def head(source: Source) -> bytes:
    """The first bytes, by which `look` tells the kind of document."""
    if isinstance(source, bytes):
        return source[:HEAD_BYTES]
    if isinstance(source, Path):
        with source.open("rb") as file:
            return file.read(HEAD_BYTES)
    return source.head
