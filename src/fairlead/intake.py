"""Intake: accepts documents. Their check, row and bytes are one commit; long ones are blobs."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from fairlead.errors import (
    DataError,
    EmptyDocument,
    InvalidName,
    Message,
    TooLarge,
    UnreadableSource,
)
from fairlead.model.blobs import SHORT_BYTES, SHORT_TOGETHER, BlobStore, IncomingBlob, StoredBlob
from fairlead.model.documents import Document, NewDocument, Submission
from fairlead.model.names import check_customer, check_idempotency_key, check_name, new_id, time_of
from fairlead.model.sniff import look
from fairlead.model.sources import JSON_NAME, Source, checked_file, json_bytes, read_piece
from fairlead.model.submissions import DEFAULT_OPTIONS, SubmissionOptions

if TYPE_CHECKING:
    from fairlead.storage import Store

CHUNK_BYTES = 1 << 20
_SHORT_OFFER_BYTES = SHORT_TOGETHER // 64
"""64 offers of this size fit into one commit."""

Opener = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens a source; called when its turn comes, so that few files are open at once."""


class Offer(NamedTuple):
    """Documents of one customer that have arrived in chunks, each with its name."""

    customer: str
    files: Sequence[tuple[IncomingBlob, str]]
    options: SubmissionOptions = DEFAULT_OPTIONS
    key: str | None = None
    strict: bool = False
    sender: str | None = None
    batch: str | None = None
    access_key: str | None = None

    @property
    def is_short(self) -> bool:
        """Whether the database stores all of it, even if 64 such offers arrive together."""
        blobs = [blob for blob, _ in self.files]
        is_short = all(blob.is_short for blob in blobs)
        return is_short and sum(blob.size for blob in blobs) <= _SHORT_OFFER_BYTES


class Intake:
    """Accepts documents: when `submit` returns, their bytes and rows are durable."""

    def __init__(
        self,
        store: Store,
        blobs: BlobStore,
        *,
        limit: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._limit = limit
        self._clock = clock

    def submit(
        self,
        customer: str,
        sources: Sequence[tuple[Source, str | None]],
        options: SubmissionOptions = DEFAULT_OPTIONS,
        *,
        strict: bool = False,
        key: str | None = None,
        batch: str | None = None,
    ) -> list[Document]:
        """Accept all sources, each with the name it is to have (None: its own), or none.

        Several form a batch, or are added to the one that is named.
        """
        check_customer(customer)
        if key is not None:
            check_idempotency_key(key)
        if not sources:
            return []
        limit = self._limit()
        opened = [open_source(source, limit, name) for source, name in sources]
        names = [check_name(name) for _, name in opened]
        stored = self._read([opener for opener, _ in opened], limit)
        try:
            for blob, name in zip(stored, names, strict=True):
                check_not_empty(blob.size, name)
            submission = _submission(customer, stored, names, options, key, batch, strict=strict)
            documents = self._store.submit(submission)
        except Exception:
            self._delete_refused(stored)
            raise
        self._delete_repeated(stored, documents)
        return documents

    def goes_far(self, offer: Offer) -> bool:
        """Whether accepting it waits for another machine, which keeps what is not short."""
        return self._blobs.is_far and not offer.is_short

    def begin(self) -> IncomingBlob:
        """A new document, of which nothing has arrived yet."""
        return self._blobs.begin(new_id(self._clock()))

    def accept_each(self, offers: Sequence[Offer]) -> list[list[Document] | Exception]:
        """Accept documents that have arrived in chunks, with few waits for the disk.

        Each offer is accepted or refused as a whole, whatever becomes of the others.
        """
        stored = self._keep_each([[blob for blob, _ in offer.files] for offer in offers])
        submissions = [
            _submission(
                offer.customer,
                blobs,
                [name for _, name in offer.files],
                offer.options,
                offer.key,
                offer.batch,
                strict=offer.strict,
                sender=offer.sender,
                access_key=offer.access_key,
            )
            for offer, blobs in zip(offers, stored, strict=True)
            if not isinstance(blobs, Exception)
        ]
        outcomes = iter(self._store.submit_each(submissions))
        return [
            blobs if isinstance(blobs, Exception) else self._tidied(blobs, next(outcomes))
            for blobs in stored
        ]

    def _tidied(
        self, stored: Sequence[StoredBlob], outcome: list[Document] | Exception
    ) -> list[Document] | Exception:
        """The outcome, once the blobs are deleted that it does not need."""
        if isinstance(outcome, Exception):
            self._delete_refused(stored)
        else:
            self._delete_repeated(stored, outcome)
        return outcome

    def _read(self, openers: Sequence[Opener], limit: int) -> list[StoredBlob]:
        """Read all sources, and make long ones durable: all of them, or none."""
        blobs = [self.begin() for _ in openers]
        in_memory = 0
        try:
            for blob, opener in zip(blobs, openers, strict=True):
                for chunk in chunks(opener, limit):
                    if blob.add(chunk):
                        blob.flush()
                in_memory += blob.size if blob.size <= SHORT_BYTES else 0
                if in_memory > SHORT_TOGETHER:
                    blob.flush()
            (stored,) = self._keep_each([blobs])
        except BaseException:
            for blob in blobs:
                blob.discard()
            raise
        if isinstance(stored, Exception):
            raise stored
        return stored

    def _keep_each(
        self, groups: Sequence[Sequence[IncomingBlob]]
    ) -> list[list[StoredBlob] | Exception]:
        """Make long ones durable; each group is kept or refused as a whole."""
        short = _short(chain.from_iterable(groups))
        long = [[blob for blob in group if blob.key not in short] for group in groups]
        outcomes = iter(
            self._blobs.keep_each([group for group in long if group]) if any(long) else []
        )
        kept = [next(outcomes) if group else [] for group in long]
        return [
            blobs if isinstance(blobs, Exception) else _in_order(group, blobs, short)
            for group, blobs in zip(groups, kept, strict=True)
        ]

    def _delete_repeated(self, stored: Sequence[StoredBlob], documents: Sequence[Document]) -> None:
        """Delete the blobs if an idempotency key stands for earlier documents.

        If that fails, the sweep of orphans does it later.
        """
        if documents[0].id != stored[0].key:
            with suppress(DataError):
                self._blobs.delete(_blob_keys(stored))

    def _delete_refused(self, stored: Sequence[StoredBlob]) -> None:
        """Delete the blobs of refused documents.

        The store is asked which are refused: an error may hide that the rows were committed. The
        sweep of orphans removes later what stays by mistake.
        """
        keys = _blob_keys(stored)
        if keys:
            with suppress(DataError):
                self._blobs.delete(keys - self._store.known_documents(keys))


def _submission(
    customer: str,
    stored: Sequence[StoredBlob],
    names: Sequence[str],
    options: SubmissionOptions,
    key: str | None,
    batch: str | None,
    *,
    strict: bool = False,
    sender: str | None = None,
    access_key: str | None = None,
) -> Submission:
    is_new_batch = batch is None and len(stored) > 1
    new_batch = new_id(time_of(stored[0].key)) if is_new_batch else None
    documents = tuple(
        [
            NewDocument(
                id=blob.key,
                name=name,
                size=blob.size,
                sha256=blob.sha256,
                urgent=options.urgent,
                look=look(blob.head),
                password=options.password,
                content=blob.content,
                pipeline=options.pipeline,
                metadata=options.metadata,
                reference=options.reference,
                not_before=options.not_before,
                batch=batch or new_batch,
            )
            for blob, name in zip(stored, names, strict=True)
        ]
    )
    fingerprint = "" if key is None else _fingerprint(customer, documents, options, batch)
    return Submission(
        customer,
        documents,
        strict=strict,
        key=key,
        fingerprint=fingerprint,
        sender=sender,
        batch=batch,
        new_batch=new_batch,
        access_key=access_key,
    )


def _fingerprint(
    customer: str,
    documents: Sequence[NewDocument],
    options: SubmissionOptions,
    batch: str | None,
) -> str:
    """Tells one request from another: the customer, names, contents, options and batch."""
    files = [(document.name, document.sha256) for document in documents]
    content = json.dumps([customer, files, options, batch], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _short(blobs: Iterable[IncomingBlob]) -> dict[str, StoredBlob]:
    """What the database is to store, by key: short documents, as far as a commit has room."""
    stored: dict[str, StoredBlob] = {}
    total = 0
    for blob in blobs:
        short = blob.short() if total + blob.size <= SHORT_TOGETHER else None
        if short is not None:
            stored[blob.key] = short
            total += blob.size
    return stored


def _in_order(
    group: Sequence[IncomingBlob], long: Sequence[StoredBlob], short: dict[str, StoredBlob]
) -> list[StoredBlob]:
    by_key = short | {blob.key: blob for blob in long} if long else short
    return [by_key[blob.key] for blob in group]


def _blob_keys(stored: Sequence[StoredBlob]) -> set[str]:
    return {blob.key for blob in stored if blob.content is None}


# --- sources ---


def open_source(source: Source, limit: int, name: str | None = None) -> tuple[Opener, str]:
    """What opens a source, and the name of the document, which is the source's own by default."""
    if isinstance(source, dict | list):
        source, name = json_bytes(source), JSON_NAME if name is None else name
    if isinstance(source, bytes):
        return lambda: BytesIO(source), "document" if name is None else name
    if isinstance(source, str | Path):
        path = Path(source)
        check_file(path, limit, name)
        return lambda: path.open("rb"), path.name if name is None else name
    file = checked_file(source)
    own = getattr(file, "name", None)
    own_name = Path(own).name if isinstance(own, str) else "document"
    return lambda: nullcontext(file), own_name if name is None else name


def chunks(opener: Opener, limit: int) -> Iterator[bytes]:
    """The bytes of a source; refuses more of them than the limit."""
    size = 0
    try:
        with opener() as stream:
            while chunk := read_piece(stream, CHUNK_BYTES):
                size += len(chunk)
                if size > limit:
                    raise TooLarge(
                        f"the document has more than {limit:,} bytes; "
                        "send a smaller one or raise the setting max_document_bytes"
                    )
                yield chunk
    except OSError as error:
        raise UnreadableSource(f"the document cannot be read: {error}") from error


def check_file(path: Path, limit: int, name: str | None = None) -> None:
    """Refuse early a file that could not be accepted.

    Its own name is checked only if it is to be the document's: if no other is given.
    """
    size = _size_of_readable(path)
    check_not_empty(size, str(path))
    if size > limit:
        raise TooLarge(
            f"{str(path)!r} has {size:,} bytes and {limit:,} are allowed; submit a smaller file, "
            "or raise the setting max_document_bytes"
        )
    if name is None:
        try:
            check_name(path.name)
        except InvalidName as error:  # the path tells which of many files it is
            raise InvalidName(f"{str(path)!a}: {error}") from None


def _size_of_readable(path: Path) -> int:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableSource(f"{path} is not a file; give the path of a file")
        path.open("rb").close()
        return status.st_size
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
