"""What the house expects of a store and of files, whichever they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from fairlead.model.documents import (
    Document,
)

HEAD_BYTES = 4096
"""How many of a file's first bytes are kept at hand when it is stored."""
SHORT_BYTES = 65_536
"""Up to which length a document is kept in the store; a longer one is a file."""
SHORT_TOGETHER = 1 << 24
"""How many bytes of short documents go into one commit; beyond that, they are files too."""


Check = Callable[[Document], None]
"""Looks at a document in the step that is about to change it; raises where it must stay so."""
OnPlaced = Callable[[list[list[Document] | Exception]], None]
"""Hears what documents will be, before anything is safe: for what can be prepared meanwhile."""


class Stored(NamedTuple):
    """A file that is safely on disk, or the `content` of a short one for the store to keep.

    `head` are its first bytes.
    """

    key: str
    size: int
    sha256: str
    head: bytes = b""
    content: bytes | None = None


class Incoming(Protocol):
    """A file that comes in pieces. It is nothing until `keep_each` or the store has kept it."""

    @property
    def key(self) -> str:
        """Its key."""
        ...

    @property
    def size(self) -> int:
        """How many bytes have come."""
        ...

    @property
    def is_short(self) -> bool:
        """Whether the store may keep it, as far as it has come."""
        ...

    def add(self, chunk: bytes) -> bool:
        """Take some more bytes, without waiting; True: call `flush` before there are more."""
        ...

    def flush(self) -> None:
        """Write what has come; may wait for the disk. From then on it is a file, short or not."""
        ...

    def short(self) -> Stored | None:
        """All that has come, for the store to keep, handed over once.

        None: it is long, or was written already.
        """
        ...

    def discard(self) -> None:
        """Leave nothing behind; may be called at any time and again."""
        ...


class Files(Protocol):
    """Bytes by key. `is_far`: they are kept by another machine, which may take its time."""

    is_far: bool

    def begin(self, key: str) -> Incoming:
        """A new file, of which nothing has come yet."""
        ...

    def keep_each(self, groups: Sequence[Sequence[Incoming]]) -> list[list[Stored] | Exception]:
        """Make files safe with few waits for the disk; each group is kept or refused as a whole."""
        ...

    def put_all(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Store bytes by their keys: all or, when one cannot be stored, none of them."""
        ...

    def path(self, key: str) -> Path:
        """Where the file of this key lies."""
        ...

    def read(self, key: str, sha256: str) -> bytes:
        """The file's bytes, after a check of its SHA-256."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; those that are not there stay so."""
        ...

    def older_than(self, moment: float) -> Iterator[list[str]]:
        """Keys of files last written before `moment`, in portions."""
        ...

    def sweep_incoming(self, moment: float) -> int:
        """Remove half-written files that a crash left before `moment`; return how many."""
        ...
