"""`Installation`: the interface of `Fairlead` and `Client`, which the command line uses.

Pass ids and names by position, other arguments by keyword. Both classes return the same records,
and their docstrings say what the calls promise.
"""

from __future__ import annotations

import builtins
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from fairlead.model.batches import Batch
from fairlead.model.capacity import Capacity
from fairlead.model.customers import Customer, Fairness
from fairlead.model.documents import Document, EndedDocument, Event, ResultFile, Switched
from fairlead.model.explanations import Explanation
from fairlead.model.keys import LINK_DAYS, Key, NewLink
from fairlead.model.notebook import records_html
from fairlead.model.pipeline_figures import PipelineFigures
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.model.sources import Source
from fairlead.model.states import State
from fairlead.model.submissions import Moment
from fairlead.model.usage import CustomerStanding, Usage
from fairlead.model.webhooks import Delivery, Webhook

T = TypeVar("T")
NamedSource = Source | tuple[Source, str | None]
"""A source, or a pair of a source and the name of its document."""


class _ShownPage(Generic[T]):
    """What a shell and a notebook show of a page."""

    items: list[T]
    next: str | None

    def __repr__(self) -> str:
        kinds = {type(item).__name__ for item in self.items}
        what = f" of {', '.join(sorted(kinds))}" if kinds else ""
        more = "" if self.next is None else ", more follow"
        return f"<{type(self).__name__}{what}: {len(self.items):,}{more}>"

    def _repr_html_(self) -> str:
        return records_html(repr(self), self.items)


class ListingPage(_ShownPage[T]):
    """One page of a listing, newest first. Iterating over it fetches all following pages too.

    `next` is the cursor of the following page; None: this is the last one.
    """

    def __init__(
        self, items: list[T], next_: str | None, fetch: Callable[[str], ListingPage[T]]
    ) -> None:
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


def listing_page(
    rows: list[Row], limit: int, fetch: Callable[[str], ListingPage[Row]]
) -> ListingPage[Row]:
    """A page of at most `limit` rows, from a query for one more, which shows whether it exists."""
    items = rows[:limit]
    return ListingPage(items, items[-1].id if len(rows) > limit else None, fetch)


class AsyncListingPage(_ShownPage[T]):
    """As `ListingPage`, for `async for`."""

    def __init__(
        self,
        items: list[T],
        next_: str | None,
        fetch: Callable[[str], Awaitable[AsyncListingPage[T]]],
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
    """The calls of `customers`: their settings, links, standing and usage."""

    def add(self, name: str, /, **settings: Any) -> Customer: ...
    def list(self) -> builtins.list[Customer]: ...
    def show(self, name: str, /) -> Customer: ...
    def set(self, name: str, /, **changes: Any) -> Customer: ...
    def pause(self, name: str, /) -> Customer: ...
    def resume(self, name: str, /) -> Customer: ...
    def reset(self, name: str, /) -> Customer: ...
    def delete(self, name: str, /) -> None: ...
    def block(self, name: str, /, *, reason: str) -> Customer: ...
    def unblock(self, name: str, /) -> Customer: ...
    def standing(self, name: str, /) -> CustomerStanding: ...
    def link(self, name: str, /, *, days: int = LINK_DAYS) -> NewLink: ...
    def links(self, name: str, /) -> builtins.list[Key]: ...
    def revoke_link(self, name: str, id_: str, /) -> Key: ...
    def usage(
        self, name: str | None = None, /, *, since: str | None = None, until: str | None = None
    ) -> builtins.list[Usage]: ...


class KeyGroup(Protocol):
    """The calls of `keys`."""

    def add(
        self,
        customer: str | None = None,
        *,
        service: str | None = None,
        viewer: str | None = None,
        worker: str | None = None,
        expires: Moment | None = None,
    ) -> tuple[str, Key]: ...
    def list(
        self, customer: str | None = None, *, operators: bool = False
    ) -> builtins.list[Key]: ...
    def revoke(self, id_: str, /) -> Key: ...


class BatchGroup(Protocol):
    """The calls of `batches`."""

    def show(self, id_: str, /) -> Batch: ...
    def cancel(self, id_: str, /) -> Batch: ...


class WebhookGroup(Protocol):
    """The calls of `webhooks`."""

    def add(
        self, url: str, kinds: Sequence[str] | None = None, *, customer: str | None = None
    ) -> tuple[Webhook, str]: ...
    def list(self) -> builtins.list[Webhook]: ...
    def show(self, id_: str, /) -> Webhook: ...
    def set(
        self,
        id_: str,
        /,
        *,
        url: str | None = None,
        kinds: Sequence[str] | None = None,
        enabled: bool | None = None,
    ) -> Webhook: ...
    def delete(self, id_: str, /) -> None: ...
    def test(self, id_: str, /) -> Delivery: ...
    def deliveries(
        self, id_: str, /, *, cursor: str | None = None, limit: int = 100
    ) -> ListingPage[Delivery]: ...
    def retry(self, delivery: str, /) -> Delivery: ...


class QueueGroup(Protocol):
    """The calls of `queue`: the queue as a whole."""

    def fairness(self) -> Fairness: ...
    def overview(self) -> tuple[list[Customer], Fairness]: ...
    def pipelines(self) -> list[PipelineFigures]: ...
    def capacity(self) -> Capacity: ...
    def policy(self) -> str: ...
    def use_policy(self, name: str, /) -> Switched | None: ...


class ResultGroup(Protocol):
    """The result of a document."""

    @property
    def text(self) -> str | None: ...
    @property
    def markdown(self) -> str | None: ...
    @property
    def data(self) -> dict[str, Any]: ...
    @property
    def files(self) -> tuple[ResultFile, ...]: ...
    def file(self, name: str, /) -> bytes: ...


class Installation(Protocol):
    """A data folder or a server."""

    @property
    def customers(self) -> CustomerGroup: ...
    @property
    def keys(self) -> KeyGroup: ...
    @property
    def batches(self) -> BatchGroup: ...
    @property
    def webhooks(self) -> WebhookGroup: ...
    @property
    def queue(self) -> QueueGroup: ...
    def submit(
        self,
        *,
        source: Source,
        customer: str,
        name: str | None = None,
        pipeline: str = DEFAULT_PIPELINE,
        metadata: Mapping[str, Any] | None = None,
        reference: str | None = None,
        urgent: bool = False,
        not_before: Moment | None = None,
        idempotency_key: str | None = None,
        password: str | None = None,
        batch: str | None = None,
    ) -> Document: ...
    def submit_many(
        self,
        *,
        sources: Iterable[NamedSource],
        customer: str,
        pipeline: str = DEFAULT_PIPELINE,
        metadata: Mapping[str, Any] | None = None,
        reference: str | None = None,
        urgent: bool = False,
        not_before: Moment | None = None,
        idempotency_key: str | None = None,
        password: str | None = None,
        batch: str | None = None,
    ) -> list[Document]: ...
    def document(self, id_: str, /) -> Document: ...
    def documents(
        self,
        *,
        customer: str | None = None,
        state: State | str | None = None,
        priority: int | None = None,
        pipeline: str | None = None,
        parent: str | None = None,
        id_prefix: str | None = None,
        reference: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        batch: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> ListingPage[Document]: ...
    def text(self, id_: str, /) -> str: ...
    def markdown(self, id_: str, /) -> str: ...
    def result(self, id_: str, /) -> ResultGroup: ...
    def cause(self, id_: str, /) -> str | None: ...
    def original(self, id_: str, /) -> bytes: ...
    def download(self, id_: str, path: str | Path, /) -> None: ...
    def why(self, id_: str, /) -> Explanation: ...
    def cancel(self, id_: str, /) -> Document: ...
    def retry(self, id_: str, /, *, password: str | None = None) -> Document: ...
    def change(self, id_: str, /, **changes: Any) -> Document: ...
    def delete(self, id_: str, /) -> None: ...
    def wait(
        self,
        ids: Iterable[str],
        /,
        *,
        timeout: float | None = None,
        on_progress: Callable[[int], None] = ...,
    ) -> list[Document]: ...
    def events(
        self, *, after: int | None = None, customer: str | None = None, follow: bool = True
    ) -> Iterator[Event]: ...
    def results(
        self,
        *,
        after: str | None = None,
        customer: str | None = None,
        include: Iterable[str] = (),
        follow: bool = False,
    ) -> Iterator[EndedDocument]: ...
    def close(self) -> None: ...
