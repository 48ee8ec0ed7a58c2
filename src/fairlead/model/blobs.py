"""Blobs: the bytes of documents and results outside the database, and their storage."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

ABSENT = frozenset(
    [
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EACCES,
        errno.EPERM,
        errno.EIO,
        errno.ESTALE,
        errno.ENODEV,
        errno.ENXIO,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.ETIMEDOUT,
    ]
)
"""Errors of a file system if a file, or the whole mount, is absent."""
HEAD_BYTES = 4096
"""The length of the `head` of a stored blob."""
SHORT_BYTES = 65_536
"""The database stores documents up to this length; longer ones are blobs."""
SHORT_TOGETHER = 1 << 24
"""The most bytes of short documents in one commit; beyond them, they are blobs too."""


class StoredBlob(NamedTuple):
    """A durable blob, or the `content` of a short document for the database to store.

    `head` is its first bytes.
    """

    key: str
    size: int
    sha256: str
    head: bytes = b""
    content: bytes | None = None


class IncomingBlob(Protocol):
    """Bytes that arrive in chunks. They are durable after `keep_each` or a commit.

    `is_short`: the bytes so far are few enough for the database.
    """

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def is_short(self) -> bool: ...

    def add(self, chunk: bytes) -> bool:
        """Add bytes without blocking; True: call `flush` before adding more."""

    def flush(self) -> None:
        """Write the bytes so far, which may block. This makes it a blob, even if it is short."""

    def short(self) -> StoredBlob | None:
        """All bytes, for the database, once; None if it is long or already written."""

    def discard(self) -> None:
        """Remove the bytes; may be called at any time, and repeatedly."""


class BlobStore(Protocol):
    """Bytes by key. `is_far`: another machine stores them, so that calls may be slow.

    All methods may be called from any thread.
    """

    is_far: bool

    def check(self) -> None:
        """Raise FilesUnreachable if the place is absent or belongs to another installation."""

    def begin(self, key: str) -> IncomingBlob:
        """A new, empty blob."""

    def keep_each(
        self, groups: Sequence[Sequence[IncomingBlob]]
    ) -> list[list[StoredBlob] | Exception]:
        """Make blobs durable with few fsyncs; each group succeeds or fails as a whole."""

    def put_all(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Store bytes by their keys: all or none."""

    def path(self, key: str) -> Path:
        """The local file of this blob; it does not exist if the blob was deleted."""

    def read(self, key: str, sha256: str) -> bytes:
        """The bytes, after a check of their SHA-256."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove blobs; missing ones are ignored."""

    def older_than(self, before: float) -> Iterator[list[str]]:
        """Keys of blobs whose last write was before this time, in portions."""

    def sweep_incoming(self, before: float) -> int:
        """Remove partial files that a crash left before this time; return their number."""
