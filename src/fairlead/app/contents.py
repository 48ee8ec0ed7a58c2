"""The contents of documents, in the store or in blob storage: originals and results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from fairlead.app.document_result import DocumentResult
from fairlead.errors import DamagedData, Message, NotReady, UnknownDocument
from fairlead.model.blobs import ABSENT, BlobStore
from fairlead.model.documents import Document
from fairlead.model.results import Content
from fairlead.model.states import State
from fairlead.storage import Store


class Contents:
    """Reads originals and results, and checks their SHA-256."""

    def __init__(self, store: Store, files: BlobStore, texts: BlobStore) -> None:
        self._store = store
        self._files = files
        self._texts = texts

    def text(self, id_: str) -> str:
        stored = self._store.stored_document(id_)
        if stored.text_sha256 is None:
            raise NotReady(_why_no_text(self._store.document(id_)))
        return self._text(id_, "text", stored.text_sha256, stored.text_key)

    def markdown(self, id_: str) -> str:
        """The Markdown; the text where the document has no layout."""
        stored = self._store.stored_document(id_)
        if stored.markdown_sha256 is None:
            return self.text(id_)
        return self._text(id_, "markdown", stored.markdown_sha256, stored.markdown_key)

    def _text(self, id_: str, field: str, sha256: str, key: str | None) -> str:
        if key is not None:
            return self._texts.read(key, sha256).decode()
        content = self._store.result_content(id_, field)
        return check_content(content, sha256, f"the {field} of document {id_}").decode()

    def open_text(self, key: str, sha256: str) -> BinaryIO:
        """The file of a long text, by its key, after a check of its SHA-256."""
        try:
            file = self._texts.path(key).open("rb")
        except OSError as error:
            if error.errno not in ABSENT:
                raise
            self._texts.check()
            raise DamagedData(f"the text {key} is missing; restore it from a backup") from None
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            file.close()
            raise DamagedData(f"the text {key} is damaged; restore it from a backup")
        file.seek(0)
        return file

    def result(self, id_: str) -> DocumentResult:
        """The result of the document when it was last done; it may have been retried since."""
        document, results = self._store.document(id_), self._store.results(id_)
        if document.state is not State.DONE and not results:
            raise NotReady(_why_no_result(document))
        return DocumentResult(id_, self, results)

    def read(self, id_: str, role: str, content: Content) -> bytes:
        """The bytes of one content of a result."""
        if content.key is not None:
            return self._texts.read(content.key, content.sha256)
        stored = self._store.result_content(id_, role, content.name)
        return check_content(stored, content.sha256, f"the {role} of document {id_}")

    def path_of(self, content: Content) -> Path | None:
        """The local file of a content; None if the store has it."""
        return None if content.key is None else self._texts.path(content.key)

    def original(self, id_: str) -> bytes:
        document = self._store.document(id_)
        content = self.short_original(document)
        return self._files.read(id_, document.sha256) if content is None else content

    def short_original(self, document: Document) -> bytes | None:
        """The original, if the store has it; None: it is a file."""
        content = self._store.original(document.id)
        if content is None:
            return None
        return check_content(content, document.sha256, f"document {document.id}")

    def path(self, document: Document) -> Path:
        """The file of an original that the store does not have."""
        return self._files.path(document.id)

    def damage(self, document: Document) -> Iterator[str]:
        """Read all contents of a document; yield what is missing or damaged."""
        checks = [partial(self.original, document.id)]
        checks += [
            partial(self.read, document.id, role, content)
            for role, content in self._store.results(document.id)
        ]
        for check in checks:
            try:
                check()
            except (NotReady, UnknownDocument):  # it was deleted meanwhile
                return
            except DamagedData as error:
                yield str(error)

    def delete(self, id_: str, texts: Sequence[str]) -> None:
        """Remove the files of a document whose row is deleted, and those of its texts, by key."""
        self._files.delete([id_])
        self._texts.delete(texts)


def check_content(content: bytes | None, sha256: str, name: str) -> bytes:
    """The content, after a check of its SHA-256; `name` is for the error."""
    if content is None or hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedData(f"{name} differs from what was stored; restore it from a backup")
    return content


def _why_no_result(document: Document) -> str:
    return Message(
        "document {id} is {state}; its result is available when it is done",
        id=document.id,
        state=document.state.value,
    )


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
