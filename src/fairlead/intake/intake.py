"""Intake: the one way by which documents come in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from fairlead.errors import DataError
from fairlead.intake.names import check_customer, check_name
from fairlead.intake.sources import Opener, check_not_empty, chunks, opened
from fairlead.model.documents import Document, NewDocument, Submission
from fairlead.model.ids import new_id
from fairlead.model.names import check_idempotency_key
from fairlead.model.ports import SHORT_BYTES, SHORT_TOGETHER, Files, Incoming, OnPlaced, Stored
from fairlead.model.sniff import look
from fairlead.model.sources import Source

if TYPE_CHECKING:
    from fairlead.storage import Store

_SHARE = SHORT_TOGETHER // 64
"""Bytes of an offer, of which 64 fit into a commit."""


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

    @property
    def is_short(self) -> bool:
        """Whether the store keeps all of it, also when 64 such offers come together."""
        files = [file for file, _ in self.files]
        return all(each.is_short for each in files) and sum(each.size for each in files) <= _SHARE


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
        if key is not None:
            check_idempotency_key(key)
        if not sources:
            return []
        limit = self._limit()
        offered = [self._look_at(source, name, limit) for source, name in sources]
        stored = self._read(offered, limit)
        try:
            documents = tuple(
                _new_document(each.name, file, urgent=urgent, password=password)
                for each, file in zip(offered, stored, strict=True)
            )
            return self._accept(customer, documents, strict=strict, key=key)
        except Exception:
            self._remove_refused(stored)
            raise

    def begin(self) -> Incoming:
        """A new document, of which nothing has come yet."""
        return self._files.begin(new_id(self._clock()))

    def goes_far(self, offer: Offer) -> bool:
        """Whether accepting it waits for another machine, which keeps what is not short."""
        return self._files.is_far and not offer.is_short

    def accept_each(
        self, offers: Sequence[Offer], on_placed: OnPlaced | None = None
    ) -> list[list[Document] | Exception]:
        """Accept documents that have come in pieces, with few waits for the disk.

        Each offer is accepted or refused as a whole, whatever becomes of the others. `on_placed` is
        called with the answers before anything is safe, if the store is asked for all offers.
        """
        kept = self._keep_each([[file for file, _ in offer.files] for offer in offers])
        offered = zip(offers, kept, strict=True)
        good = [(each, stored) for each, stored in offered if not isinstance(stored, Exception)]
        placed = on_placed if len(good) == len(offers) else None
        answers = iter(self._store.submit_each([_submission(*each) for each in good], placed))
        return [
            stored if isinstance(stored, Exception) else self._tidied(stored, next(answers))
            for stored in kept
        ]

    def _tidied(
        self, stored: Sequence[Stored], answer: list[Document] | Exception
    ) -> list[Document] | Exception:
        """The answer, without the files of what was refused, or accepted already before."""
        if isinstance(answer, Exception):
            self._remove_refused(stored)
        elif answer[0].id != stored[0].key:
            self._remove_spare(_keys_of_files(stored))
        return answer

    def _read(self, offered: Sequence[_Offered], limit: int) -> list[Stored]:
        """Read all sources, and make safe what is not short: all of it, or nothing stays."""
        files = [self._files.begin(each.id) for each in offered]
        held = 0
        try:
            for file, each in zip(files, offered, strict=True):
                _pour(each.open, file, limit)
                held += file.size if file.size <= SHORT_BYTES else 0
                if held > SHORT_TOGETHER:
                    file.flush()  # else all of it would be in memory
            (kept,) = self._keep_each([files])
        except BaseException:
            for file in files:
                file.discard()
            raise
        if isinstance(kept, Exception):
            raise kept
        return kept

    def _keep_each(self, groups: Sequence[Sequence[Incoming]]) -> list[list[Stored] | Exception]:
        """Make safe what is not short; each group is kept or refused as a whole."""
        short = _short(chain.from_iterable(groups))
        if len(short) == sum(map(len, groups)):
            return [[short[each.key] for each in group] for group in groups]
        files = [[each for each in group if each.key not in short] for group in groups]
        kept = iter(
            self._files.keep_each([group for group in files if group]) if any(files) else []
        )
        outcomes = [next(kept) if group else [] for group in files]
        return [
            outcome if isinstance(outcome, Exception) else _in_order(group, outcome, short)
            for group, outcome in zip(groups, outcomes, strict=True)
        ]

    def _look_at(self, source: Source, name: str | None, limit: int) -> _Offered:
        opener, own_name = opened(source, limit, name)
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
        accepted = self._store.submit(_keyed(Submission(customer, documents, strict, key)))
        if accepted[0].id != documents[0].id:  # the key was known: these came before
            self._remove_spare({each.id for each in documents if each.content is None})
        return accepted

    def _remove_spare(self, keys: set[str]) -> None:
        """Remove what was there already; if that fails, the sweep does it later."""
        with suppress(DataError):
            self._files.delete(keys)

    def _remove_refused(self, stored: Sequence[Stored]) -> None:
        """Remove the files of what was not accepted.

        Only where the store says so: an error may hide that the rows are there after all. What
        stays by mistake, the sweep of orphans removes later.
        """
        keys = _keys_of_files(stored)
        if keys:
            with suppress(DataError):
                self._files.delete(keys - self._store.known_documents(keys))


def _submission(offer: Offer, stored: Sequence[Stored]) -> Submission:
    documents = tuple(
        [
            _new_document(name, file, urgent=offer.urgent, password=offer.password)
            for (_, name), file in zip(offer.files, stored, strict=True)
        ]
    )
    return _keyed(Submission(offer.customer, documents, strict=False, key=offer.key))


def _new_document(name: str, file: Stored, *, urgent: bool, password: str | None) -> NewDocument:
    return NewDocument(
        *(file.key, name, file.size, file.sha256),
        *(urgent, look(file.head), password, file.content),
    )


def _pour(opener: Opener, file: Incoming, limit: int) -> None:
    """Read a source into a file that comes in pieces."""
    for chunk in chunks(opener, limit):
        if file.add(chunk):
            file.flush()


def _short(files: Iterable[Incoming]) -> dict[str, Stored]:
    """What the store is to keep, by key: short documents, as far as there is room in a commit."""
    found: dict[str, Stored] = {}
    held = 0
    for file in files:
        short = file.short() if held + file.size <= SHORT_TOGETHER else None
        if short is not None:
            found[file.key] = short
            held += file.size
    return found


def _in_order(
    group: Sequence[Incoming], kept: Sequence[Stored], short: dict[str, Stored]
) -> list[Stored]:
    files = {each.key: each for each in kept}
    return [short.get(each.key) or files[each.key] for each in group]


def _keys_of_files(stored: Sequence[Stored]) -> set[str]:
    return {each.key for each in stored if each.content is None}


def _keyed(submission: Submission) -> Submission:
    """With what tells its body from another under the same key, where it has one."""
    if submission.key is None:
        return submission
    return submission._replace(fingerprint=_fingerprint(submission.documents))


def _fingerprint(documents: Sequence[NewDocument]) -> str:
    """One body from another: names, contents, whether they are urgent, and what opens them."""
    lines = (
        f"{each.name}\0{each.sha256}\0{each.urgent}"
        + ("" if each.password is None else f"\0{each.password}")
        for each in documents
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
