"""Blobs: the bytes of documents and results outside the database, and what stores them."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

ABSENT = frozenset(
    [
        *(errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE),
        *(errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.EHOSTDOWN, errno.ETIMEDOUT),
    ]
)
"""Errors by which a file system says that a file, or all of a mount, is not there."""
HEAD_BYTES = 4096
"""How many of the first bytes are kept at hand when a blob is stored."""
SHORT_BYTES = 65_536
"""Up to which length the database stores a document; a longer one is a blob."""
SHORT_TOGETHER = 1 << 24
"""How many bytes of short documents go into one commit; beyond that, they are blobs too."""


class StoredBlob(NamedTuple):
    """A blob that is durable, or the `content` of a short document for the database to store.

    `head` are its first bytes.
    """

    key: str
    size: int
    sha256: str
    head: bytes = b""
    content: bytes | None = None


class IncomingBlob(Protocol):
    """Bytes that arrive in chunks. They count for nothing until `keep_each` or a commit.

    `is_short`: the database may store it, as far as it has arrived.
    """

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def is_short(self) -> bool: ...

    def add(self, chunk: bytes) -> bool:
        """Take more bytes, without blocking; True: call `flush` before there are more."""

    def flush(self) -> None:
        """Write what has arrived; may block on the disk. Then it is a blob, even if short."""

    def short(self) -> StoredBlob | None:
        """All bytes for the database, handed over once; None: it is long, or already written."""

    def discard(self) -> None:
        """Leave nothing behind; may be called at any time and again."""


class BlobStore(Protocol):
    """Bytes by key. `is_far`: another machine stores them, which may take its time.

    All methods may be called from any thread.
    """

    is_far: bool

    def check(self) -> None:
        """Raise FilesUnreachable if the place is absent or belongs to another installation."""

    def begin(self, key: str) -> IncomingBlob:
        """A new blob, still empty."""

    def keep_each(
        self, groups: Sequence[Sequence[IncomingBlob]]
    ) -> list[list[StoredBlob] | Exception]:
        """Make blobs durable with few fsyncs; each group is kept or refused as a whole."""

    def put_all(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Store bytes by their keys: all or, when one cannot be stored, none of them."""

    def path(self, key: str) -> Path:
        """The local file of this blob; it does not exist if the blob is gone."""

    def read(self, key: str, sha256: str) -> bytes:
        """The bytes, after a check of their SHA-256."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove blobs; missing ones are ignored."""

    def older_than(self, before: float) -> Iterator[list[str]]:
        """Keys of blobs last written before this time, in portions."""

    def sweep_incoming(self, before: float) -> int:
        """Remove half-written files that a crash left before this time; return how many."""
