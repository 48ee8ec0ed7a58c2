"""The installation in a data folder on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from fairlead.app import Fairlead
from fairlead.cli.installation import Batches, DocumentQuery, SubmitOptions
from fairlead.cli.progress import pages_told
from fairlead.config.settings import Sources
from fairlead.errors import UsageError
from fairlead.intake.names import check_customer
from fairlead.model.access_keys import Key
from fairlead.model.customers import Customer, Fairness
from fairlead.model.documents import Document
from fairlead.model.explanations import Explanation

BY = "command-line"
"""Who decides, in the audit record, what is decided here."""
BATCH = 100
_ANY = 10**18


class Local:
    """Opens the data folder when it is first asked for something; `makes` it where there is none.

    Whoever submits makes it as well, unless strictly.
    """

    def __init__(self, data: Path, *, makes: bool) -> None:
        self._data = data
        self._makes = makes

    @cached_property
    def _fairlead(self) -> Fairlead:
        return Fairlead(self._data, must_exist=not self._makes)

    def close(self) -> None:
        """Let go of the data folder."""
        if "_fairlead" in self.__dict__:
            self._fairlead.close()

    # --- documents ---

    def batches(self, options: SubmitOptions) -> Batches:
        """As much as the settings allow; a customer must be named."""
        if options.customer is None:
            raise UsageError("name the customer of the documents: --customer NAME")
        check_customer(options.customer)
        self._makes = not options.strict
        limit = Sources(self._data).settings().max_document_bytes
        return Batches(limit, _ANY if options.key else BATCH, _ANY)

    def submit(
        self,
        files: Sequence[tuple[Path, str]],
        options: SubmitOptions,
        on_sent: Callable[[int], None],  # noqa: ARG002 (a disk is quick)
    ) -> list[Document]:
        """Accept files, or none of them."""
        return self._fairlead.submit_many(
            options.customer or "",
            files,
            urgent=options.urgent,
            strict=options.strict,
            idempotency_key=options.key,
            password=options.password,
        )

    def hints(self, documents: Sequence[Document]) -> list[str]:
        """A customer that is paused; a folder on which nobody works."""
        found, folder = [], self._fairlead.folder
        customer = documents[0].customer
        if self._fairlead.store.customer(customer).paused:
            found.append(
                f"customer {customer} is paused; resume it: "
                f"fairlead customers resume {shlex.quote(customer)}"
            )
        if folder.server_pid() is None:
            found.append(
                "no worker is running on this data folder; start one in another terminal: "
                f"fairlead worker --data {shlex.quote(str(folder.path))}"
            )
        return found

    def wait(self, names: Mapping[str, str], tell: Callable[[int, str], None]) -> None:
        """Follow the events of the store."""
        seen, words = self._fairlead.store.last_event(), ""

        def show(left: int) -> None:
            nonlocal seen, words
            while events := self._fairlead.store.events(seen):
                seen = events[-1].seq
                ours = (each for each in events if each.document in names)
                for id_, pages in pages_told(ours).items():
                    words = f"{names[id_]}: {pages}" if pages else ""
            tell(left, words)

        self._fairlead.wait(names, on_progress=show)

    def document(self, id_: str) -> Document:
        """The document of this id."""
        return self._fairlead.document(id_)

    def page(self, asked: DocumentQuery) -> tuple[list[Document], str | None]:
        """Documents, newest first, and the cursor of the next page."""
        page = self._fairlead.documents(
            customer=asked.customer,
            state=asked.state,
            priority=asked.priority,
            parent=asked.parent,
            cursor=asked.cursor,
            limit=asked.limit,
        )
        return page.items, page.next

    def text(self, id_: str, *, markdown: bool) -> str:
        """The text of a document that is done."""
        return self._fairlead.markdown(id_) if markdown else self._fairlead.text(id_)

    def why(self, id_: str) -> Explanation:
        """Why the document has its place."""
        return self._fairlead.why(id_)

    def cancel(self, id_: str) -> Document:
        """Cancel a pending document."""
        return self._fairlead.cancel(id_, by=BY)

    def retry(self, id_: str) -> Document:
        """Queue a failed or cancelled document once more."""
        return self._fairlead.retry(id_, by=BY)

    def now(self) -> float:
        """The time by the installation's clock."""
        return self._fairlead.store.now()

    def language(self) -> str | None:
        """The language that the settings name, if any."""
        return self._fairlead.settings.language

    # --- customers and keys ---

    def customers(self) -> tuple[list[Customer], Fairness]:
        """All customers by name, and how fair the queue is."""
        return self._fairlead.queue.overview()

    def customer(self, name: str) -> Customer:
        """The customer of this name."""
        return self._fairlead.customers.show(name)

    def add_customer(self, name: str) -> Customer:
        """Make a customer known."""
        return self._fairlead.customers.add(name, by=BY)

    def set_customer(self, name: str, changes: Mapping[str, Any]) -> Customer:
        """Change settings of a customer."""
        return self._fairlead.customers.set(name, by=BY, **changes)

    def pause(self, name: str) -> Customer:
        """Let its documents wait."""
        return self._fairlead.customers.pause(name, by=BY)

    def resume(self, name: str) -> Customer:
        """Let its documents run again."""
        return self._fairlead.customers.resume(name, by=BY)

    def reset(self, name: str) -> Customer:
        """Forget its count."""
        return self._fairlead.customers.reset(name, by=BY)

    def add_key(self, customer: str | None) -> tuple[str, Key]:
        """A new key of a customer or, without one, of an operator."""
        return self._fairlead.keys.add(customer, by=BY)

    def keys(self, customer: str | None, *, operators: bool) -> list[Key]:
        """Keys of a customer, of operators, or all."""
        return self._fairlead.keys.list(customer, operators=operators)

    def revoke_key(self, id_: str) -> Key:
        """Let a key open nothing any more."""
        return self._fairlead.keys.revoke(id_, by=BY)
