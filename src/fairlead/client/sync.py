# Generated from client.py by `python tools/generate_sync_client.py` (`make sync-client`).
# Do not edit: change client.py and run that command.
"""`Client`: a Fairlead server as one object."""

from __future__ import annotations

import builtins
import hashlib
import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, overload

import httpx
from httpx_sse import EventSource

from fairlead import errors
from fairlead.client.step_loop import StepLoop
from fairlead.client.transport import (
    FIRST_PAUSE,
    SILENCE_SECONDS,
    BaseTransport,
    Retry,
    deadline_after,
    decoded,
    seconds_left,
)
from fairlead.client.upload import open_uploads
from fairlead.model.batches import Batch
from fairlead.model.capacity import Capacity
from fairlead.model.customers import Customer, Customers, CustomerSettings, Fairness
from fairlead.model.documents import (
    Document,
    Documents,
    EndedDocument,
    Event,
    EventKind,
    Page,
    PolicyInForce,
    ResultFile,
    Switched,
)
from fairlead.model.explanations import Explanation
from fairlead.model.installation import ListingPage, NamedSource
from fairlead.model.json import from_dict, to_dict
from fairlead.model.keys import LINK_DAYS, Key, Keys, LoginLink, NewKey, NewLink
from fairlead.model.names import check_idempotency_key
from fairlead.model.notebook import fields_html, records_html, result_words
from fairlead.model.pipeline_figures import PipelineFigures, PipelineList
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.model.result_summary import Cause, ResultSummary
from fairlead.model.sources import Source
from fairlead.model.states import State, state_of
from fairlead.model.submissions import (
    Moment,
    document_changes,
    form_fields,
    metadata_query,
    moment,
    submission_options,
)
from fairlead.model.usage import CustomerStanding, Me, Usage, UsageList
from fairlead.model.webhooks import Deliveries, Delivery, Webhook, Webhooks, WebhookWithSecret
from fairlead.steps.job import Job

LONG_POLL = 20.0  # seconds that one request waits for the end of a document
MOST_RESULTS = 1000  # of one request
OCTETS = "application/octet-stream"
_EVENT_KINDS = frozenset([*EventKind, "message"])
"""Others are ignored: `end`, and those of a newer server. `message` is an event without a kind."""

T = TypeVar("T")


class Transport(BaseTransport):
    """Sends requests, and repeats them after lost connections."""

    def __init__(self, *settings: Any, http: httpx.Client | None) -> None:
        super().__init__(*settings)
        self._http_of_caller = http
        self._own_http: dict[int, httpx.Client] = {}
        self._is_closed = False

    @property
    def _http(self) -> httpx.Client:
        """The HTTP client of this process: after a fork, processes must not share a socket."""
        if self._is_closed:
            raise errors.UsageError("the client is closed; make a new one")
        if self._http_of_caller is not None:
            return self._http_of_caller
        process = os.getpid()
        if process not in self._own_http:  # setdefault: another thread may be first
            self._own_http.setdefault(process, httpx.Client(**self.connection_options()))
        return self._own_http[process]

    @property
    def state(self) -> str:
        return "closed" if self._is_closed else "open"

    def close(self) -> None:
        """Close the connections of this process."""
        self._is_closed = True
        own = self._own_http.get(os.getpid())
        if own is not None:
            own.close()

    def request(
        self,
        method: str,
        *path: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        more_seconds: float = 0.0,
        deadline: float = math.inf,
        idempotent: bool = True,
        can_be_sent: Callable[[], bool] = lambda: True,
        **body: Any,
    ) -> httpx.Response:
        """The server's response; raises the error for its problem.

        The response may take `more_seconds` beyond the timeout. NotReady after the `deadline`.
        """
        retry = Retry(self, idempotent=idempotent, can_be_sent=can_be_sent, deadline=deadline)
        address = self.address(path)
        while True:
            options = self.options(params, headers, more_seconds=more_seconds, deadline=deadline)
            try:
                response = self._http.request(method, address, **options, **body)
                self.was_reached = True
                return response.raise_for_status()
            except httpx.HTTPError as error:
                time.sleep(retry.pause(error))
            except UnicodeEncodeError:  # the sentence leaves the text out, as it may be a password
                raise errors.UsageError(
                    "a text to be sent is not UTF-8; give it in that encoding"
                ) from None

    def json(self, record: type[T], method: str, *path: str, **options: Any) -> T:
        """The record in the server's response."""
        return decoded(record, self.request(method, *path, **options))

    def text(self, id_: str, media_type: str) -> str:
        """The text or Markdown of a document."""
        headers = {"Accept": media_type}
        return (self.request("GET", "documents", id_, "text", headers=headers)).text

    @contextmanager
    def stream(
        self,
        *path: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """A response that is read as it arrives; raises the errors of httpx."""
        options = self.options(params, headers, more_seconds=SILENCE_SECONDS)
        with self._http.stream("GET", self.address(path), **options) as response:
            self.was_reached = True
            if not response.is_success:
                response.read()
            yield response.raise_for_status()


class Group:
    """Calls about one subject."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class RemoteCustomers(Group):
    """Customers and their settings, for operators."""

    def add(self, name: str, /, **settings: Any) -> Customer:
        """Add a customer; an existing one gets the settings. Submitting also adds customers."""
        CustomerSettings().changed(settings)
        body = {"name": name} | settings
        try:
            return self._transport.json(Customer, "POST", "customers", json=body)
        except errors.CustomerExists:
            return self.set(name, **settings) if settings else self.show(name)

    def list(self) -> builtins.list[Customer]:
        """All customers, by name."""
        return (self._transport.json(Customers, "GET", "customers")).customers

    def show(self, name: str) -> Customer:
        """The customer of this name."""
        return self._transport.json(Customer, "GET", "customers", name)

    def set(self, name: str, /, **changes: Any) -> Customer:
        """Change settings of a customer, such as its weight, account, caps or thresholds.

        None restores the installation's setting. Other settings keep their values.
        """
        CustomerSettings().changed(changes)
        return self._transport.json(Customer, "PATCH", "customers", name, json=changes)

    def pause(self, name: str) -> Customer:
        """Stop starting the customer's documents; new ones are still accepted."""
        return self._transport.json(Customer, "POST", "customers", name, "pause")

    def resume(self, name: str) -> Customer:
        """Start the customer's documents again."""
        return self._transport.json(Customer, "POST", "customers", name, "resume")

    def reset(self, name: str) -> Customer:
        """Forget the customer's count: its next document is checked as its first."""
        return self._transport.json(Customer, "POST", "customers", name, "reset")

    def delete(self, name: str) -> None:
        """Delete a customer with everything; its usage stays, without its name."""
        self._transport.request("DELETE", "customers", name, more_seconds=3600.0)

    def block(self, name: str, *, reason: str) -> Customer:
        """Refuse new documents of the customer, with a reason; earlier ones are still processed."""
        path = ("customers", name, "block")
        return self._transport.json(Customer, "POST", *path, json={"reason": reason})

    def unblock(self, name: str) -> Customer:
        """Accept the customer's documents again."""
        return self._transport.json(Customer, "POST", "customers", name, "unblock")

    def link(self, name: str, *, days: int = LINK_DAYS) -> NewLink:
        """Make a link that opens the customer's page without a key, for so many days.

        Only this call returns its path, which is relative to the server's URL.
        """
        path, body = ("customers", name, "links"), {"days": days}
        return self._transport.json(NewLink, "POST", *path, json=body, idempotent=False)

    def links(self, name: str) -> builtins.list[Key]:
        """The valid links to the customer's page, oldest first."""
        return (self._transport.json(Keys, "GET", "customers", name, "links")).keys

    def revoke_link(self, name: str, id_: str) -> Key:
        """Revoke a link immediately."""
        return self._transport.json(Key, "DELETE", "customers", name, "links", id_)

    def standing(self, name: str) -> CustomerStanding:
        """The customer's count, next priority, pending documents, and usage of today."""
        path = ("customers", name, "standing")
        return self._transport.json(CustomerStanding, "GET", *path)

    def usage(
        self, name: str | None = None, *, since: str | None = None, until: str | None = None
    ) -> builtins.list[Usage]:
        """The usage of a customer, or of each, by day (UTC); days are dates such as 2026-01-31."""
        params = {"customer": name, "since": since, "until": until}
        return (self._transport.json(UsageList, "GET", "usage", params=params)).usage


class RemoteKeys(Group):
    """API keys, for operators."""

    def add(
        self,
        customer: str | None = None,
        *,
        service: str | None = None,
        viewer: str | None = None,
        worker: str | None = None,
        expires: Moment | None = None,
    ) -> tuple[str, Key]:
        """Make a key of a customer, which is added if it is unknown.

        Or of a service, a viewer or a worker, by a name; without any, of an operator. The key is
        valid until `expires`: a time, or a delay in seconds. Only this call returns it.
        """
        owner = _without_none(customer=customer, service=service, viewer=viewer, worker=worker)
        body = owner or {"operator": True}
        if expires is not None:
            body |= {"expires": moment(expires, "expires").text()}
        new = self._transport.json(NewKey, "POST", "keys", json=body, idempotent=False)
        return new.key, from_dict(Key, to_dict(new))

    def list(self, customer: str | None = None, *, operators: bool = False) -> builtins.list[Key]:
        """Keys, oldest first: of one customer, of operators, or all."""
        params = {"customer": customer, "operator": "true" if operators else None}
        return (self._transport.json(Keys, "GET", "keys", params=params)).keys

    def revoke(self, id_: str) -> Key:
        """Revoke a key immediately."""
        return self._transport.json(Key, "DELETE", "keys", id_)


class RemoteBatches(Group):
    """Documents that were submitted together."""

    def show(self, id_: str) -> Batch:
        """The batch of this id, with its documents by state and its expected end."""
        return self._transport.json(Batch, "GET", "batches", id_)

    def cancel(self, id_: str) -> Batch:
        """Cancel the documents of a batch that are pending; those that have ended stay."""
        return self._transport.json(Batch, "POST", "batches", id_, "cancel")


class RemoteWebhooks(Group):
    """Webhooks and their deliveries; a customer's key sees its own."""

    def add(
        self, url: str, kinds: Sequence[str] | None = None, *, customer: str | None = None
    ) -> tuple[Webhook, str]:
        """Make a webhook; return it and its secret, which only this call returns.

        An operator's key may name a customer; without one, the webhook gets all events.
        """
        body = _without_none(url=url, kinds=kinds, customer=customer)
        new = self._transport.json(
            WebhookWithSecret, "POST", "webhooks", json=body, idempotent=False
        )
        return from_dict(Webhook, to_dict(new)), new.secret

    def list(self) -> builtins.list[Webhook]:
        """All webhooks that the key permits to see, oldest first."""
        return (self._transport.json(Webhooks, "GET", "webhooks")).webhooks

    def show(self, id_: str) -> Webhook:
        """The webhook of this id."""
        return self._transport.json(Webhook, "GET", "webhooks", id_)

    def set(
        self,
        id_: str,
        *,
        url: str | None = None,
        kinds: Sequence[str] | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """Change a webhook; None: unchanged."""
        changes = _without_none(url=url, kinds=kinds, enabled=enabled)
        return self._transport.json(Webhook, "PATCH", "webhooks", id_, json=changes)

    def delete(self, id_: str) -> None:
        """Delete a webhook and its deliveries."""
        self._transport.request("DELETE", "webhooks", id_, idempotent=False)

    def test(self, id_: str) -> Delivery:
        """Queue a test delivery; `deliveries` shows its result."""
        path = ("webhooks", id_, "test")
        return self._transport.json(Delivery, "POST", *path, idempotent=False)

    def deliveries(
        self, id_: str, *, cursor: str | None = None, limit: int = 100
    ) -> ListingPage[Delivery]:
        """Deliveries of a webhook, newest first."""
        params = {"cursor": cursor, "limit": limit}
        path = ("webhooks", id_, "deliveries")
        page = self._transport.json(Deliveries, "GET", *path, params=params)
        return ListingPage(
            page.deliveries,
            page.next,
            lambda next_: self.deliveries(id_, cursor=next_, limit=limit),
        )

    def retry(self, delivery: str) -> Delivery:
        """Send a delivery again under its old id."""
        path = ("webhooks", "deliveries", delivery, "resend")
        return self._transport.json(Delivery, "POST", *path, idempotent=False)


class RemoteQueue(Group):
    """The queue as a whole, for operators."""

    def fairness(self) -> Fairness:
        """How fair the queue is now, as numbers."""
        return (self.overview())[1]

    def overview(self) -> tuple[list[Customer], Fairness]:
        """All customers by name, and the fairness figures of the same moment."""
        overview = self._transport.json(Customers, "GET", "customers")
        return overview.customers, overview.fairness

    def pipelines(self) -> list[PipelineFigures]:
        """All pipelines with their steps, quotas and figures, `default` first."""
        return (self._transport.json(PipelineList, "GET", "pipelines")).pipelines

    def capacity(self) -> Capacity:
        """How many documents each step processes at once, and which queues cannot run, and why."""
        return (self._transport.json(PipelineList, "GET", "pipelines")).capacity

    def policy(self) -> str:
        """The policy in force: "classic" or "fair"."""
        return (self._transport.json(PolicyInForce, "GET", "policy")).policy

    def use_policy(self, name: str) -> Switched | None:
        """Switch a live queue to another policy; None if it was in force already.

        The policy in the server's settings, if there is one, is restored when they change or the
        server starts.
        """
        switched = self._transport.json(Switched, "PUT", "policy", json={"policy": name})
        return None if switched.before == switched.after else switched


class RemoteResult(Group):
    """The result of a document. Texts and files are fetched on access."""

    def __init__(self, transport: Transport, summary: ResultSummary) -> None:
        super().__init__(transport)
        self._summary = summary

    def __repr__(self) -> str:
        summary = self._summary
        return result_words(
            self, summary.id, self.files, has_text=summary.has_text, has_data=bool(self.data)
        )

    def _repr_html_(self) -> str:
        return records_html(repr(self), self.files)

    @property
    def text(self) -> str | None:
        """The text; None if no step found one."""
        return self._text("text/plain")

    @property
    def markdown(self) -> str | None:
        """The Markdown; the text where the document has no layout."""
        return self._text("text/markdown")

    def _text(self, media_type: str) -> str | None:
        if not self._summary.has_text:
            return None
        return self._transport.text(self._summary.id, media_type)

    @property
    def data(self) -> dict[str, Any]:
        """The data of all steps; empty where none returned data."""
        return self._summary.data

    @property
    def files(self) -> tuple[ResultFile, ...]:
        """The files, by name."""
        return self._summary.files

    def file(self, name: str) -> bytes:
        """The bytes of a file, after a check of their SHA-256."""
        path = ("documents", self._summary.id, "files", name)
        content = (self._transport.request("GET", *path)).content
        expected = {file.name: file.sha256 for file in self.files}
        if hashlib.sha256(content).hexdigest() != expected.get(name):
            raise errors.DamagedData(f"the file {name!r} has another SHA-256 than its result says")
        return content


class Client:
    """Calls a Fairlead server.

    `url` and `key` default to FAIRLEAD_URL and FAIRLEAD_KEY in the environment. After a lost
    connection, requests are repeated for `patience` seconds; the server executes none twice.
    `timeout` is the most seconds without a byte from the server, `language` that of error messages.
    `on_trouble` is called with a sentence when requests begin to be repeated. `http` is an httpx
    client of your own, for proxies or certificates; do not use it on both sides of a fork.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        language: str | None = None,
        timeout: float = 60.0,
        patience: float = 30.0,
        on_trouble: Callable[[str], None] = lambda _message: None,
        http: httpx.Client | None = None,
    ) -> None:
        self._transport = Transport(url, key, language, timeout, patience, on_trouble, http=http)
        self.customers = RemoteCustomers(self._transport)
        self.keys = RemoteKeys(self._transport)
        self.batches = RemoteBatches(self._transport)
        self.webhooks = RemoteWebhooks(self._transport)
        self.queue = RemoteQueue(self._transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self._place.values())}>"

    def _repr_html_(self) -> str:
        return fields_html(type(self).__name__, self._place)

    @property
    def _place(self) -> dict[str, str]:
        return {"server": self.url, "state": self._transport.state}

    @property
    def url(self) -> str:
        """The server's address."""
        return self._transport.url

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def me(self) -> Me:
        """The owner of the key, the limits of one request, and the standing of a customer."""
        return self._transport.json(Me, "GET", "me")

    def run_step(
        self,
        function: Callable[[Job], Any],
        *,
        name: str | None = None,
        concurrency: int | None = None,
        until_idle: bool = False,
    ) -> None:
        """Run a function as a pulled step, until a signal.

        The function is like one that workers run. At SIGINT and SIGTERM, running jobs finish first.
        `name` is the name of the step without `pull:`, `concurrency` the number of jobs that run at
        once; both default to those of the function. With `until_idle`, it returns when no document
        waits.
        """
        loop = StepLoop(
            self._transport,
            function,
            name=name,
            concurrency=concurrency,
            until_idle=until_idle,
        )
        loop.run()

    def login_link(self) -> str:
        """Make a link that opens the dashboard once; for operators."""
        link = self._transport.json(LoginLink, "POST", "login-links", idempotent=False)
        return f"{self.url}{link.path}"

    def submit(
        self,
        source: Source,
        *,
        customer: str | None = None,
        name: str | None = None,
        pipeline: str = DEFAULT_PIPELINE,
        metadata: Mapping[str, Any] | None = None,
        reference: str | None = None,
        urgent: bool = False,
        not_before: Moment | None = None,
        idempotency_key: str | None = None,
        password: str | None = None,
        batch: str | None = None,
    ) -> Document:
        """Submit one document: a path, bytes, a file open for reading bytes, or a dict or list.

        When this returns, the document is durable. A file is read while it is sent. Without an
        idempotency key, the client makes one, so that it can repeat a request whose response was
        lost; errors have it as `idempotency_key`, for a later try of your own. A customer's key
        implies the customer, and naming another one raises NotAllowed; other keys need its name.
        """
        documents = self.submit_many(
            [(source, name)],
            customer=customer,
            pipeline=pipeline,
            metadata=metadata,
            reference=reference,
            urgent=urgent,
            not_before=not_before,
            idempotency_key=idempotency_key,
            password=password,
            batch=batch,
        )
        return documents[0]

    def submit_many(
        self,
        sources: Iterable[NamedSource],
        *,
        customer: str | None = None,
        pipeline: str = DEFAULT_PIPELINE,
        metadata: Mapping[str, Any] | None = None,
        reference: str | None = None,
        urgent: bool = False,
        not_before: Moment | None = None,
        idempotency_key: str | None = None,
        password: str | None = None,
        batch: str | None = None,
        on_sent: Callable[[int], None] = lambda _bytes: None,
    ) -> list[Document]:
        """Submit documents in one request: all are accepted, or none.

        Several documents form a new batch, or are added to `batch`. A source may be a pair of a
        source and its name. `on_sent` gets the number of bytes sent.
        """
        options = submission_options(
            urgent=urgent,
            password=password,
            pipeline=pipeline,
            metadata=metadata,
            reference=reference,
            not_before=not_before,
        )
        sources = list(sources)
        if not sources:
            return []
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        headers = {"Idempotency-Key": check_idempotency_key(key)}
        try:
            with open_uploads(sources, on_sent) as uploads:
                response = self._transport.request(
                    "POST",
                    "documents",
                    headers=headers,
                    data=form_fields(options) | _without_none(customer=customer, batch=batch),
                    files=[("file", (upload.name, upload, OCTETS)) for upload in uploads],
                    can_be_sent=lambda: all(upload.can_be_sent for upload in uploads),
                )
            if len(sources) == 1:
                return [decoded(Document, response)]
            return decoded(Documents, response).documents
        except errors.FairleadError as error:
            error.idempotency_key = key
            raise

    def document(self, id_: str) -> Document:
        """The document of this id."""
        return self._transport.json(Document, "GET", "documents", id_)

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
    ) -> ListingPage[Document]:
        """A page of documents, newest first; iterating over it fetches the following pages too."""
        filters: dict[str, Any] = {
            "customer": customer,
            "state": None if state is None else state_of(state).value,
            "priority": priority,
            "pipeline": pipeline,
            "parent": parent,
            "id_prefix": id_prefix,
            "reference": reference,
            "batch": batch,
            "limit": limit,
        }
        query = metadata_query(metadata or {})
        filters |= {f"metadata.{key}": value for key, value in query.items()}
        return self._page(filters, cursor)

    def _page(self, filters: dict[str, Any], cursor: str | None) -> ListingPage[Document]:
        params = filters | {"cursor": cursor}
        page = self._transport.json(Page, "GET", "documents", params=params)
        return ListingPage(page.documents, page.next, lambda next_: self._page(filters, next_))

    @overload
    def wait(  # type: ignore[overload-overlap]  # a string is one id
        self,
        ids: str | Document,
        *,
        timeout: float | None = None,
        on_progress: Callable[[int], None] = ...,
    ) -> Document: ...

    @overload
    def wait(
        self,
        ids: Iterable[str | Document],
        *,
        timeout: float | None = None,
        on_progress: Callable[[int], None] = ...,
    ) -> list[Document]: ...

    def wait(
        self,
        ids: str | Document | Iterable[str | Document],
        *,
        timeout: float | None = None,
        on_progress: Callable[[int], None] = lambda _left: None,
    ) -> Document | list[Document]:
        """Wait until no document is pending; return them, or the one of a single id.

        Raises NotReady after `timeout` seconds, also if the server did not respond. Of several
        documents, one that is unknown at the start is an error; one that is deleted meanwhile is
        left out. `on_progress` gets the number of documents that may be pending: all of them
        first, then the number that is left, at least every 20 seconds, and 0 at the end.
        """
        deadline = deadline_after(timeout)
        if isinstance(ids, str | Document):
            on_progress(1)
            document = self._poll(_id_of(ids), 0.0, deadline)
            document = self._wait(document, deadline, lambda: on_progress(1))
            on_progress(0)
            return document
        all_ids = [_id_of(document) for document in ids]
        on_progress(len(set(all_ids)))
        documents = {id_: self._poll(id_, 0.0, deadline) for id_ in dict.fromkeys(all_ids)}
        pending = [document for document in documents.values() if document.state.is_pending]
        for number, document in enumerate(pending):
            tell = partial(on_progress, len(pending) - number)
            try:
                documents[document.id] = self._wait(document, deadline, tell)
            except errors.UnknownDocument:
                del documents[document.id]
        on_progress(0)
        return [documents[id_] for id_ in all_ids if id_ in documents]

    def _wait(self, document: Document, deadline: float, tell: Callable[[], None]) -> Document:
        """The document when it has ended; `tell` is called whenever it has not."""
        while document.state.is_pending:
            tell()
            seconds = min(LONG_POLL, seconds_left(deadline))
            if seconds <= 0:
                raise errors.NotReady(
                    f"document {document.id} is {document.state}; the wait timed out"
                )
            document = self._poll(document.id, seconds, deadline)
        return document

    def _poll(self, id_: str, seconds: float, deadline: float) -> Document:
        """The document when it has ended, or after so many seconds."""
        options = {"more_seconds": seconds, "deadline": deadline}
        params = {"wait": round(seconds, 3)}
        return self._transport.json(Document, "GET", "documents", id_, params=params, **options)

    def text(self, id_: str) -> str:
        """The text of a document that is done."""
        return self._transport.text(id_, "text/plain")

    def markdown(self, id_: str) -> str:
        """The Markdown of a document that is done; its text where it has no layout."""
        return self._transport.text(id_, "text/markdown")

    def result(self, id_: str) -> RemoteResult:
        """The result of a document that is done: text, Markdown, data and files."""
        path = ("documents", id_, "result")
        summary = self._transport.json(ResultSummary, "GET", *path)
        return RemoteResult(self._transport, summary)

    def cause(self, id_: str) -> str | None:
        """Why a document or its last attempt failed, such as a traceback; for operators only."""
        return (self._transport.json(Cause, "GET", "documents", id_, "cause")).cause

    def original(self, id_: str) -> bytes:
        """The document as it was submitted. `download` keeps large ones out of memory."""
        content = bytearray()
        for piece in self._pieces(id_):
            content += piece
        return bytes(content)

    def download(self, id_: str, path: str | Path) -> None:
        """Write the document as it was submitted to a file, atomically."""
        target = Path(path)
        if not target.name:
            raise errors.UsageError(f"a download needs the path of a file, got {str(path)!r}")
        # Without the name of the file, to which nothing may be added if it has the greatest length.
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        try:
            with part.open("xb") as file:
                for piece in self._pieces(id_):
                    file.write(piece)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def _pieces(self, id_: str) -> Iterator[bytes]:
        """The document in pieces; a lost connection is resumed."""
        document = self.document(id_)
        digest, size, retry = hashlib.sha256(), 0, Retry(self._transport)
        while size < document.size:
            headers = {"Range": f"bytes={size}-", "Accept-Encoding": "identity"}
            try:
                with self._transport.stream("documents", id_, "file", headers=headers) as response:
                    for piece in response.iter_bytes():
                        retry.restart()
                        digest.update(piece)
                        size += len(piece)
                        yield piece
            except httpx.HTTPError as error:
                time.sleep(retry.pause(error))
        if digest.hexdigest() != document.sha256:
            raise errors.DamagedData(
                f"document {id_} has another SHA-256 than when it was submitted"
            )

    def why(self, id_: str) -> Explanation:
        """Explain the priority of a document, and what it waits for."""
        return self._transport.json(Explanation, "GET", "documents", id_, "why")

    def cancel(self, id_: str) -> Document:
        """Cancel a pending document; its worker, if it has one, is stopped."""
        return self._transport.json(Document, "POST", "documents", id_, "cancel")

    def retry(self, id_: str, *, password: str | None = None) -> Document:
        """Queue a document that has ended again; the password opens an encrypted one.

        The request is not repeated after a lost response: the document may have ended again.
        """
        path = ("documents", id_, "retry")
        body = None if password is None else {"password": password}
        return self._transport.json(Document, "POST", *path, json=body, idempotent=False)

    def change(self, id_: str, /, **changes: Any) -> Document:
        """Change `urgent`, `metadata` or `reference` of a document, or several of them."""
        body = document_changes(changes)
        return self._transport.json(Document, "PATCH", "documents", id_, json=body)

    def delete(self, id_: str) -> None:
        """Delete a document with its files; a pending one is cancelled first."""
        self._transport.request("DELETE", "documents", id_)

    def events(
        self, *, after: int | None = None, customer: str | None = None, follow: bool = True
    ) -> Iterator[Event]:
        """Iterate over events as they happen.

        It starts now, or after the event with the number `after`. Without `follow` it ends at the
        newest event. A lost connection is resumed without a gap or a repetition. Kinds of events
        that only a newer server knows are left out.
        """
        last_id, retry = "" if after is None else str(after), Retry(self._transport)
        params = {"customer": customer, "follow": None if follow else "false"}
        while True:
            headers = {"Last-Event-ID": last_id} if last_id else {}
            try:
                with self._transport.stream("events", params=params, headers=headers) as response:
                    retry.restart()
                    for message in EventSource(response).iter_sse():
                        last_id = message.id or last_id
                        if message.data and message.event in _EVENT_KINDS:
                            yield decoded(Event, response, message.data)
                if not follow:
                    return
                time.sleep(FIRST_PAUSE)
            except httpx.HTTPError as error:
                time.sleep(retry.pause(error))

    def results(
        self,
        *,
        after: str | None = None,
        customer: str | None = None,
        include: Iterable[str] = (),
        follow: bool = False,
    ) -> Iterator[EndedDocument]:
        """Iterate over documents that have ended, in order of completion.

        It starts at the oldest one, or after the one with the cursor `after`, and ends at the
        newest one, unless `follow` is set. `include` names contents: "text", "markdown", "data". A
        lost connection is resumed without a gap or a repetition.
        """
        parts = [include] if isinstance(include, str) else include
        params: dict[str, Any] = {
            "customer": customer,
            "include": ",".join(parts) or None,
            "limit": MOST_RESULTS,
            "wait": LONG_POLL if follow else None,
        }
        retry, is_more = Retry(self._transport), True
        while is_more:
            number = 0
            try:
                with self._transport.stream(
                    "results", params=params | {"after": after}
                ) as response:
                    for line in response.iter_lines():
                        retry.restart()
                        result = decoded(EndedDocument, response, line)
                        after, number = result.cursor, number + 1
                        yield result
                is_more = follow or number == MOST_RESULTS
            except httpx.HTTPError as error:
                time.sleep(retry.pause(error))


def _id_of(document: str | Document) -> str:
    return document if isinstance(document, str) else document.id


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
