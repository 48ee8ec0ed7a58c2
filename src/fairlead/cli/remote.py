"""The installation behind a server, wherever that is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from fairlead.cli.installation import Batches, DocumentQuery, SubmitOptions
from fairlead.client import Client
from fairlead.config.settings import ENVIRONMENT_PREFIX, Settings
from fairlead.errors import NotAllowed, UnknownDocument, UsageError
from fairlead.model.access_keys import Key, Me
from fairlead.model.customers import Customer, Fairness
from fairlead.model.documents import Document
from fairlead.model.explanations import Explanation

MOST_ON_A_PAGE = 1000
_ROOM = 100_000
"""Bytes of a request beyond its documents: names and the like."""


class Remote:
    """Asks a server for everything, through the client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @cached_property
    def _me(self) -> Me:
        return self._client.me()

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    # --- documents ---

    def batches(self, options: SubmitOptions) -> Batches:
        """As much as one request may bring; the key must be that customer's."""
        if self._me.customer is None:
            raise NotAllowed(
                "documents are submitted with a customer's API key, and this is an operator's; "
                "create one: fairlead keys add CUSTOMER, and set FAIRLEAD_KEY to it"
            )
        if options.customer not in (None, self._me.customer):
            raise UsageError(
                f"the API key belongs to customer {self._me.customer!r}, not {options.customer!r}; "
                "leave out --customer, or use another key"
            )
        limits = self._me.limits
        most = limits.max_upload_bytes - _ROOM
        return Batches(limits.max_document_bytes, limits.max_upload_files, most)

    def submit(
        self,
        files: Sequence[tuple[Path, str]],
        options: SubmitOptions,
        on_sent: Callable[[int], None],
    ) -> list[Document]:
        """Send files in one request."""
        return self._client.submit_many(
            files,
            urgent=options.urgent,
            idempotency_key=options.key,
            password=options.password,
            on_sent=on_sent,
        )

    def hints(self, documents: Sequence[Document]) -> list[str]:  # noqa: ARG002 (a server works)
        """A customer's key cannot see what an operator does about it."""
        return []

    def wait(self, names: Mapping[str, str], tell: Callable[[int, str], None]) -> None:
        """Ask for one after the other, each until its end; one that was deleted has come to it."""
        for number, id_ in enumerate(names):
            tell(len(names) - number, "")
            with suppress(UnknownDocument):
                self._client.wait(id_)
        tell(0, "")

    def document(self, id_: str) -> Document:
        """The document of this id."""
        return self._client.document(id_)

    def page(self, asked: DocumentQuery) -> tuple[list[Document], str | None]:
        """Documents, newest first, and the cursor of the next page."""
        found: list[Document] = []
        cursor = asked.cursor
        while True:
            page = self._client.documents(
                customer=asked.customer,
                state=asked.state,
                priority=asked.priority,
                parent=asked.parent,
                cursor=cursor,
                limit=min(MOST_ON_A_PAGE, asked.limit - len(found)),
            )
            found += page.items
            cursor = page.next
            if cursor is None or len(found) >= asked.limit:
                return found, cursor

    def text(self, id_: str, *, markdown: bool) -> str:
        """The text of a document that is done."""
        return self._client.markdown(id_) if markdown else self._client.text(id_)

    def why(self, id_: str) -> Explanation:
        """Why the document has its place."""
        return self._client.why(id_)

    def cancel(self, id_: str) -> Document:
        """Cancel a pending document."""
        return self._client.cancel(id_)

    def retry(self, id_: str) -> Document:
        """Queue a failed or cancelled document once more."""
        return self._client.retry(id_)

    def now(self) -> float:
        """The time by this machine's clock."""
        return time.time()

    def language(self) -> str | None:
        """The setting in the environment here; the server's own is for others."""
        given = os.environ.get(f"{ENVIRONMENT_PREFIX}LANGUAGE")
        return None if given in (None, "none") else Settings(language=given).language

    # --- customers and keys ---

    def customers(self) -> tuple[list[Customer], Fairness]:
        """All customers by name, and how fair the queue is."""
        return self._client.queue.overview()

    def customer(self, name: str) -> Customer:
        """The customer of this name."""
        return self._client.customers.show(name)

    def add_customer(self, name: str) -> Customer:
        """Make a customer known."""
        return self._client.customers.add(name)

    def set_customer(self, name: str, changes: Mapping[str, Any]) -> Customer:
        """Change settings of a customer."""
        return self._client.customers.set(name, **changes)

    def pause(self, name: str) -> Customer:
        """Let its documents wait."""
        return self._client.customers.pause(name)

    def resume(self, name: str) -> Customer:
        """Let its documents run again."""
        return self._client.customers.resume(name)

    def reset(self, name: str) -> Customer:
        """Forget its count."""
        return self._client.customers.reset(name)

    def add_key(self, customer: str | None) -> tuple[str, Key]:
        """A new key of a customer or, without one, of an operator."""
        return self._client.keys.add(customer)

    def keys(self, customer: str | None, *, operators: bool) -> list[Key]:
        """Keys of a customer, of operators, or all."""
        return self._client.keys.list(customer, operators=operators)

    def revoke_key(self, id_: str) -> Key:
        """Let a key open nothing any more."""
        return self._client.keys.revoke(id_)
