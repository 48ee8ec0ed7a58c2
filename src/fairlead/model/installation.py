"""`Installation`: what `Fairlead` and `Client` have in common, and what the command line uses.

Arguments are passed by keyword, ids and names by position. Both return the same records.
"""

from __future__ import annotations

import builtins
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from fairlead.model.access_keys import Key
from fairlead.model.customers import Customer, Fairness
from fairlead.model.documents import Document, Event
from fairlead.model.explanations import Explanation
from fairlead.model.sources import Source
from fairlead.model.states import State
from fairlead.model.webhooks import Delivery, Webhook

T = TypeVar("T")
NamedSource = Source | tuple[Source, str | None]
"""A source, or a pair of a source and the name of its document."""


class Page(Generic[T]):
    """One page of a listing, newest first. Iteration goes on with all following pages.

    `next` is the cursor of the following page; None: this is the last one.
    """

    def __init__(self, items: list[T], next_: str | None, fetch: Callable[[str], Page[T]]) -> None:
        self.items = items
        self.next = next_
        self.fetch = fetch

    def __iter__(self) -> Iterator[T]:
        page = self
        yield from page.items
        while page.next is not None:
            page = page.fetch(page.next)
            yield from page.items


Row = TypeVar("Row", Document, Delivery)


def page_of(rows: list[Row], limit: int, fetch: Callable[[str], Page[Row]]) -> Page[Row]:
    """A page of at most `limit` rows, where one more was asked for to see whether it exists."""
    items = rows[:limit]
    return Page(items, items[-1].id if len(rows) > limit else None, fetch)


class AsyncPage(Generic[T]):
    """As `Page`, for `async for`."""

    def __init__(
        self, items: list[T], next_: str | None, fetch: Callable[[str], Awaitable[AsyncPage[T]]]
    ) -> None:
        self.items = items
        self.next = next_
        self.fetch = fetch

    async def __aiter__(self) -> AsyncIterator[T]:
        page = self
        while True:
            for item in page.items:
                yield item
            if page.next is None:
                return
            page = await page.fetch(page.next)


class CustomerGroup(Protocol):
    """`fairlead customers …`."""

    def add(self, name: str, /, **settings: Any) -> Customer:
        """Make a customer known; one that exists keeps its other settings."""
        ...

    def list(self) -> builtins.list[Customer]:
        """All customers, by name."""
        ...

    def show(self, name: str, /) -> Customer:
        """The customer of this name."""
        ...

    def set(self, name: str, /, **changes: Any) -> Customer:
        """Change settings of a customer; None: the installation's own setting."""
        ...

    def pause(self, name: str, /) -> Customer:
        """Stop starting the customer's documents; new ones are still accepted."""
        ...

    def resume(self, name: str, /) -> Customer:
        """Start the customer's documents again."""
        ...

    def reset(self, name: str, /) -> Customer:
        """Forget the customer's count."""
        ...


class KeyGroup(Protocol):
    """`fairlead keys …`."""

    def add(self, customer: str | None = None) -> tuple[str, Key]:
        """A new key of a customer or, without one, of an operator."""
        ...

    def list(self, customer: str | None = None, *, operators: bool = False) -> builtins.list[Key]:
        """Keys of a customer, of operators, or all; oldest first."""
        ...

    def revoke(self, id_: str, /) -> Key:
        """Revoke a key immediately."""
        ...


class WebhookGroup(Protocol):
    """`fairlead webhooks …`."""

    def add(
        self, url: str, kinds: Sequence[str] | None = None, *, customer: str | None = None
    ) -> tuple[Webhook, str]:
        """A new webhook and its secret, which is shown once."""
        ...

    def list(self) -> builtins.list[Webhook]:
        """All webhooks, oldest first."""
        ...

    def show(self, id_: str, /) -> Webhook:
        """The webhook of this id."""
        ...

    def set(
        self,
        id_: str,
        /,
        *,
        url: str | None = None,
        kinds: Sequence[str] | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """Change a webhook; None: unchanged."""
        ...

    def delete(self, id_: str, /) -> None:
        """Delete a webhook and its deliveries."""
        ...

    def test(self, id_: str, /) -> Delivery:
        """Queue a test delivery."""
        ...

    def deliveries(
        self, id_: str, /, *, cursor: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        """Deliveries of a webhook, newest first."""
        ...

    def retry(self, delivery: str, /) -> Delivery:
        """Send a delivery again."""
        ...


class QueueGroup(Protocol):
    """The queue as a whole."""

    def fairness(self) -> Fairness:
        """How fair the queue is now."""
        ...

    def overview(self) -> tuple[list[Customer], Fairness]:
        """All customers by name, and how fair the queue is, at one moment."""
        ...


class Installation(Protocol):
    """A data folder or a server."""

    @property
    def customers(self) -> CustomerGroup:
        """Customers and their settings."""
        ...

    @property
    def keys(self) -> KeyGroup:
        """API keys."""
        ...

    @property
    def webhooks(self) -> WebhookGroup:
        """Webhooks and their deliveries."""
        ...

    @property
    def queue(self) -> QueueGroup:
        """The queue as a whole."""
        ...

    def submit(
        self,
        *,
        source: Source,
        customer: str,
        name: str | None = None,
        urgent: bool = False,
        idempotency_key: str | None = None,
        password: str | None = None,
    ) -> Document:
        """Submit one document; when this returns, it is durable."""
        ...

    def submit_many(
        self,
        *,
        sources: Iterable[NamedSource],
        customer: str,
        urgent: bool = False,
        idempotency_key: str | None = None,
        password: str | None = None,
    ) -> list[Document]:
        """Submit documents together: all are accepted, or none."""
        ...

    def document(self, id_: str, /) -> Document:
        """The document of this id."""
        ...

    def documents(
        self,
        *,
        customer: str | None = None,
        state: State | str | None = None,
        priority: int | None = None,
        parent: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Document]:
        """Documents, newest first."""
        ...

    def text(self, id_: str, /) -> str:
        """The text of a document that is done."""
        ...

    def markdown(self, id_: str, /) -> str:
        """The Markdown of a document that is done; its text where it has no layout."""
        ...

    def original(self, id_: str, /) -> bytes:
        """The document as it was submitted."""
        ...

    def download(self, id_: str, path: str | Path, /) -> None:
        """Write the document as it was submitted to a file."""
        ...

    def why(self, id_: str, /) -> Explanation:
        """Why the document has its priority, and what it waits for."""
        ...

    def cancel(self, id_: str, /) -> Document:
        """Cancel a pending document."""
        ...

    def retry(self, id_: str, /) -> Document:
        """Queue a failed or cancelled document once more."""
        ...

    def delete(self, id_: str, /) -> None:
        """Delete a document with its files."""
        ...

    def wait(
        self,
        ids: Iterable[str],
        /,
        *,
        timeout: float | None = None,
        on_progress: Callable[[int], None] = ...,
    ) -> list[Document]:
        """The documents when none of them is pending any more."""
        ...

    def events(self, *, after: int | None = None, customer: str | None = None) -> Iterator[Event]:
        """Events as they happen, from now on or after the event of a number."""
        ...

    def close(self) -> None:
        """Release connections and files."""
        ...
