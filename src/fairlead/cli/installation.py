"""What commands ask of an installation, wherever it is: a data folder here, or a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fairlead.model.customers import Customer, Fairness
from fairlead.model.documents import Document
from fairlead.model.explanations import Explanation
from fairlead.model.keys import Key


class SubmitOptions(NamedTuple):
    """How documents are submitted. No customer: the one that the key belongs to."""

    customer: str | None
    urgent: bool = False
    strict: bool | None = None
    key: str | None = None
    password: str | None = None


class DocumentQuery(NamedTuple):
    """Which documents are asked for; `cursor` is the last one of the page before."""

    customer: str | None
    state: str | None
    priority: int | None
    parent: str | None
    cursor: str | None
    limit: int


class Batches(NamedTuple):
    """What may be submitted: bytes of a document, documents and bytes of one batch."""

    document_bytes: int
    documents: int
    bytes: int


class Installation(Protocol):
    """Both kinds give back the same things, so that commands show them in one way."""

    def close(self) -> None:
        """Let go of it."""
        ...

    def batches(self, options: SubmitOptions) -> Batches:
        """Check that this customer may submit here, and say how much at once."""
        ...

    def submit(
        self,
        files: Sequence[tuple[Path, str]],
        options: SubmitOptions,
        on_sent: Callable[[int], None],
    ) -> list[Document]:
        """Accept files, each with its name, or none of them.

        Where that takes long, `on_sent` is told how many bytes are on their way.
        """
        ...

    def hints(self, documents: Sequence[Document]) -> list[str]:
        """Sentences on what keeps new documents waiting."""
        ...

    def wait(self, names: Mapping[str, str], tell: Callable[[int, str], None]) -> None:
        """Return when none of the documents is pending or there any more, by their ids and names.

        `tell` hears how many are left, and words on one that is long.
        """
        ...

    def document(self, id_: str) -> Document:
        """The document of this id."""
        ...

    def page(self, asked: DocumentQuery) -> tuple[list[Document], str | None]:
        """Documents, newest first, and the cursor of the next page."""
        ...

    def text(self, id_: str, *, markdown: bool) -> str:
        """The text of a document that is done."""
        ...

    def why(self, id_: str) -> Explanation:
        """Why the document has its place."""
        ...

    def cancel(self, id_: str) -> Document:
        """Cancel a pending document."""
        ...

    def retry(self, id_: str) -> Document:
        """Queue a failed or cancelled document once more."""
        ...

    def now(self) -> float:
        """The time."""
        ...

    def language(self) -> str | None:
        """The language that the settings name, if any."""
        ...

    def customers(self) -> tuple[list[Customer], Fairness]:
        """All customers by name, and how fair the queue is."""
        ...

    def customer(self, name: str) -> Customer:
        """The customer of this name."""
        ...

    def add_customer(self, name: str) -> Customer:
        """Make a customer known."""
        ...

    def set_customer(self, name: str, changes: Mapping[str, Any]) -> Customer:
        """Change settings of a customer."""
        ...

    def pause(self, name: str) -> Customer:
        """Let its documents wait."""
        ...

    def resume(self, name: str) -> Customer:
        """Let its documents run again."""
        ...

    def reset(self, name: str) -> Customer:
        """Forget its count."""
        ...

    def add_key(self, customer: str | None) -> tuple[str, Key]:
        """A new key of a customer or, without one, of an operator."""
        ...

    def keys(self, customer: str | None, *, operators: bool) -> list[Key]:
        """Keys of a customer, of operators, or all."""
        ...

    def revoke_key(self, id_: str) -> Key:
        """Let a key open nothing any more."""
        ...
