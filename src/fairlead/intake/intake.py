"""Intake: the one way by which documents come in."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fairlead.core.documents import Document, NewDocument, Submission
from fairlead.core.looks import look
from fairlead.errors import DataError, EmptyDocument, TooLarge, UnreadableSource, Words
from fairlead.ids import new_id
from fairlead.intake.names import check_customer, check_name
from fairlead.ports import Files, Incoming, Opener, Store, Stored

Source = str | Path | bytes | BinaryIO
"""A document to submit: a path, its bytes, or a file open for reading bytes."""


class _Offered(NamedTuple):
    """A document that was looked at, but of which nothing is stored yet."""

    id: str
    name: str
    open: Opener


class Offer(NamedTuple):
    """Documents of one customer that have come in pieces, each with its name."""

    customer: str
    files: Sequence[tuple[Incoming, str]]
    urgent: bool = False
    key: str | None = None
    password: str | None = None


class Intake:
    """Accepts documents: when `submit` returns, their bytes and rows are safe."""

    def __init__(
        self, store: Store, files: Files, *, limit: Callable[[], int], clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._files = files
        self._limit = limit
        self._clock = clock

    def submit(
        self,
        customer: str,
        sources: Sequence[tuple[Source, str | None]],
        *,
        urgent: bool = False,
        strict: bool = False,
        key: str | None = None,
        password: str | None = None,
    ) -> list[Document]:
        """Accept all sources, each with the name it is to have (None: its own), or none."""
        check_customer(customer)
        if not sources:
            return []
        limit = self._limit()
        offered = [self._look_at(source, name, limit) for source, name in sources]
        stored = self._files.put_all([(each.id, each.open) for each in offered], limit=limit)
        try:
            documents = tuple(
                NewDocument(
                    *(each.id, each.name, file.size, file.sha256),
                    *(urgent, look(file.head), password),
                )
                for each, file in zip(offered, stored, strict=True)
            )
            return self._accept(customer, documents, strict=strict, key=key)
        except Exception:
            self._remove_refused(stored)
            raise

    def begin(self) -> Incoming:
        """A new document, of which nothing has come yet."""
        return self._files.begin(new_id(self._clock()))

    def accept_each(self, offers: Sequence[Offer]) -> list[list[Document] | Exception]:
        """Accept documents that have come in pieces, with few waits for the disk.

        Each offer is accepted or refused as a whole, whatever becomes of the others.
        """
        kept = self._files.keep_each([[file for file, _ in offer.files] for offer in offers])
        good = [
            (number, offer, stored)
            for number, (offer, stored) in enumerate(zip(offers, kept, strict=True))
            if not isinstance(stored, Exception)
        ]
        outcomes: list[list[Document] | Exception] = [
            each if isinstance(each, Exception) else [] for each in kept
        ]
        answers = self._store.submit_each([_submission(each, files) for _, each, files in good])
        for (number, _, stored), answer in zip(good, answers, strict=True):
            outcomes[number] = answer
            self._tidy(stored, answer)
        return outcomes

    def _tidy(self, stored: Sequence[Stored], answer: list[Document] | Exception) -> None:
        """Remove the files of what was refused, or accepted already before."""
        if isinstance(answer, Exception):
            self._remove_refused(stored)
        elif answer[0].id != stored[0].key:
            self._files.delete(each.key for each in stored)

    def _look_at(self, source: Source, name: str | None, limit: int) -> _Offered:
        opener, own_name = _opened(source, limit)
        wanted = own_name if name is None else name
        return _Offered(new_id(self._clock()), check_name(wanted), opener)

    def _accept(
        self,
        customer: str,
        documents: tuple[NewDocument, ...],
        *,
        strict: bool,
        key: str | None,
    ) -> list[Document]:
        for document in documents:
            check_not_empty(document.size, document.name)
        accepted = self._store.submit(
            Submission(customer, documents, strict, key, _fingerprint(documents))
        )
        if accepted[0].id != documents[0].id:  # the key was known: these came before
            self._files.delete(each.id for each in documents)
        return accepted

    def _remove_refused(self, stored: Sequence[Stored]) -> None:
        """Remove the files of what was not accepted.

        Only where the store says so: an error may hide that the rows are there after all. What
        stays by mistake, the sweep of orphans removes later.
        """
        with suppress(DataError):
            keys = {each.key for each in stored}
            self._files.delete(keys - self._store.known_documents(keys))


def _submission(offer: Offer, stored: Sequence[Stored]) -> Submission:
    documents = tuple(
        NewDocument(
            *(file.key, name, file.size, file.sha256),
            *(offer.urgent, look(file.head), offer.password),
        )
        for (_, name), file in zip(offer.files, stored, strict=True)
    )
    return Submission(
        offer.customer, documents, strict=False, key=offer.key, fingerprint=_fingerprint(documents)
    )


def _opened(source: Source, limit: int) -> tuple[Opener, str]:
    if isinstance(source, bytes):
        return lambda: BytesIO(source), "document"
    if isinstance(source, str | Path):
        path = Path(source)
        check_file(path, limit)
        return lambda: path.open("rb"), path.name
    name = getattr(source, "name", None)
    own_name = Path(name).name if isinstance(name, str) else "document"
    return lambda: nullcontext(source), own_name


def check_file(path: Path, limit: int) -> None:
    """Refuse early, before anything is written, a file that could not be accepted anyway."""
    size = _size_of_readable(path)
    check_not_empty(size, str(path))
    if size > limit:
        raise TooLarge(
            f"{str(path)!r} has {size:,} bytes and {limit:,} are allowed; submit a smaller file, "
            "or raise the setting max_document_bytes"
        )
    check_name(path.name)


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
            Words("{name} is empty; submit a file that has content", name=repr(name))
        )


def _fingerprint(documents: Sequence[NewDocument]) -> str:
    """One body from another: names, contents, and whether they are urgent."""
    lines = (f"{each.name}\0{each.sha256}\0{each.urgent}" for each in documents)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
