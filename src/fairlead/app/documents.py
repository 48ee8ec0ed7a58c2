"""Documents: in, out, and why they wait."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from fairlead.app.customers import Customers
from fairlead.errors import DamagedData, Message, NotReady, UnknownDocument
from fairlead.intake import Offer
from fairlead.model.blobs import IncomingBlob
from fairlead.model.documents import Document, DocumentCheck
from fairlead.model.explanations import Explanation
from fairlead.model.sources import Source
from fairlead.model.states import State, state_of
from fairlead.policy.explain import explain


class _Kept(NamedTuple):
    """What is known of a text. Without a key, the store keeps it itself."""

    which: Literal["text", "markdown"]
    sha256: str
    key: str | None


class Documents(Customers):
    """What is submitted, read and decided of documents."""

    def submit(
        self,
        customer: str,
        source: Source,
        *,
        name: str | None = None,
        urgent: bool = False,
        idempotency_key: str | None = None,
        strict: bool | None = None,
        password: str | None = None,
    ) -> Document:
        """Accept one document: a path, bytes, or a file open for reading bytes.

        When this returns, the document is safe. With `strict`, the customer must be known. The
        password opens an encrypted document; it is kept until the document has ended.
        """
        return self.submit_many(
            customer,
            [(source, name)],
            urgent=urgent,
            idempotency_key=idempotency_key,
            strict=strict,
            password=password,
        )[0]

    def submit_many(
        self,
        customer: str,
        sources: Iterable[Source | tuple[Source, str | None]],
        *,
        urgent: bool = False,
        idempotency_key: str | None = None,
        strict: bool | None = None,
        password: str | None = None,
    ) -> list[Document]:
        """Accept documents of one customer together, or none. A pair is a source and its name."""
        pairs = [each if isinstance(each, tuple) else (each, None) for each in sources]
        if not pairs:
            return []
        return self._intake.submit(
            customer,
            pairs,
            urgent=urgent,
            strict=self.settings.strict_customers if strict is None else strict,
            key=idempotency_key,
            password=password,
        )

    def begin(self) -> IncomingBlob:
        """A new document that comes in pieces; it is nothing until `accept_each` takes it."""
        return self._intake.begin()

    def goes_far(self, offer: Offer) -> bool:
        """Whether to accept this waits for another machine, which keeps what is not short."""
        return self._files.is_far and not offer.is_short

    def accept_each(self, offers: Sequence[Offer]) -> list[list[Document] | Exception]:
        """Accept what came in pieces; each offer is accepted or refused as a whole."""
        return self._intake.accept_each(offers)

    def document(self, id_: str) -> Document:
        """The document of this id."""
        return self.store.document(id_)

    def owner(self, id_: str) -> str:
        """Whose document this is, or was until its deletion; an id that none ever had is refused.

        Asked in this order: it may be deleted between the two questions, but never come back.
        """
        try:
            return self.document(id_).customer
        except UnknownDocument:
            owner = self.store.deleted_customer(id_)
            if owner is None:
                raise
            return owner

    def documents(
        self,
        *,
        customer: str | None = None,
        state: State | str | None = None,
        priority: int | None = None,
        parent: str | None = None,
        containing: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Document]:
        """Documents, newest first; `before` is the id of the last one of the page before.

        `parent` asks for the parts of one: its attachments, or the members of an archive;
        `containing` for those with this in their name. Both ids may be those of deleted documents.
        """
        if customer is not None:
            self.customer(customer)  # an unknown one is an error, not an empty list
        for named in (parent, before):
            if named is not None:
                self.owner(named)
        return self.store.documents(
            customer=customer,
            state=None if state is None else state_of(state),
            priority=priority,
            parent=parent,
            name=containing,
            before=before,
            limit=limit,
        )

    def text(self, id_: str) -> str:
        """The text of a document that is done."""
        return self._read(id_, self._text_of(id_))

    def markdown(self, id_: str) -> str:
        """The document as Markdown, once it is done; where it has no layout, its text."""
        return self._read(id_, self._markdown_of(id_))

    def _text_of(self, id_: str) -> _Kept:
        stored = self.store.stored_document(id_)
        if stored.text_sha256 is None:
            raise NotReady(_why_no_text(self.document(id_)))
        return _Kept("text", stored.text_sha256, stored.text_key)

    def _markdown_of(self, id_: str) -> _Kept:
        stored = self.store.stored_document(id_)
        if stored.markdown_sha256 is None:
            return self._text_of(id_)
        return _Kept("markdown", stored.markdown_sha256, stored.markdown_key)

    def _read(self, id_: str, kept: _Kept) -> str:
        """A text, after a check of its SHA-256."""
        if kept.key is not None:
            return self._texts.read(kept.key, kept.sha256).decode()
        found = self.store.short_texts(id_)
        content: bytes | None = None if found is None else getattr(found, kept.which)
        return _checked(content, kept.sha256, f"the {kept.which} of document {id_}").decode()

    def content(self, id_: str) -> bytes:
        """The document as it was submitted."""
        document = self.document(id_)
        kept = self.short_content(document)
        return self._files.read(id_, document.sha256) if kept is None else kept

    def short_content(self, document: Document) -> bytes | None:
        """The document as it was submitted, where it is short; None: it is a file."""
        kept = self.store.original(document.id)
        return None if kept is None else _checked(kept, document.sha256, f"document {document.id}")

    def content_path(self, document: Document) -> Path:
        """Where the file of a document lies that is not short."""
        return self._files.path(document.id)

    def delete(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> None:
        """Remove a document with its files; a pending one is cancelled first.

        Its events stay, without its content. One that was deleted before stays so. A full disk does
        not prevent it, as long as the reserve lasts.
        """
        self.delete_files(id_, self.delete_row(id_, by=by, check=check))

    def delete_row(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> list[str]:
        """As `delete`, without the files, which are left to `delete_files`; the keys of texts."""
        if self.store.deleted_customer(id_) is not None:
            return []  # nothing of the reserve is for that
        return self.folder.reserve.use(lambda: self.store.delete(id_, by=by, check=check))

    def delete_files(self, id_: str, texts: Sequence[str]) -> None:
        """Remove the files of a document whose row is deleted."""
        self._files.delete([id_])
        self._texts.delete(texts)

    def why(self, id_: str) -> Explanation:
        """Why the document has its priority, and what it waits for."""
        document = self.document(id_)
        customer = self.customer(document.customer)
        is_waiting = document.state is State.WAITING
        return explain(
            document,
            customer,
            self.store.place(id_),
            policy=self.policy_of(customer),
            clock=self.store.clock(),
            lane=self._sources.rules().lane,
            now=self.now(),
            retry_at=self.store.stored_document(id_).retry_at if is_waiting else None,
            flow=self.store.flow() if is_waiting else None,
        )

    def cancel(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> Document:
        """Cancel a pending document; its worker, if it has one, is stopped."""
        return self.store.cancel(id_, by=by, check=check)

    def retry(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> Document:
        """Queue a failed or cancelled document once more, at its own place."""
        return self.store.retry(id_, by=by, check=check)


def _checked(content: bytes | None, sha256: str, what: str) -> bytes:
    """What the store keeps itself, if it is what was stored."""
    if content is None or hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedData(f"{what} differs from what was stored; restore it from a backup")
    return content


def _why_no_text(document: Document) -> str:
    if document.state.is_pending:
        return Message(
            "document {id} is {state}; its text is available when it is done",
            id=document.id,
            state=document.state.value,
        )
    if document.error is None:
        return Message(
            "document {id} is {state}; it has no text", id=document.id, state=document.state.value
        )
    return Message(
        "document {id} is {state} ({error}): {detail}; it has no text",
        id=document.id,
        state=document.state.value,
        error=document.error,
        detail=(document.detail or "").rstrip("."),
    )
