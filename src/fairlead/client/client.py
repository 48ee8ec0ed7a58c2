"""`Client`: a Fairlead server as one object."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from fairlead.client import decode as reading
from fairlead.client.decode import Me, Page
from fairlead.client.sse import blocks
from fairlead.client.upload import Body, part_of
from fairlead.errors import (
    CustomerExists,
    DamagedData,
    FairleadError,
    MissingExtra,
    NotReady,
    UnknownCustomer,
    UnknownDelivery,
    UnknownDocument,
    UnknownKey,
    UnknownWebhook,
    UsageError,
)
from fairlead.model.access_keys import Key
from fairlead.model.documents import CustomerSettings, Document, Event
from fairlead.model.json_document import CustomerView
from fairlead.model.names import check_idempotency_key
from fairlead.model.sources import Source
from fairlead.model.states import State, state_of
from fairlead.model.webhooks import Delivery, Webhook
from fairlead.policy.explain import Explanation
from fairlead.policy.fairness import Fairness

if TYPE_CHECKING:
    import httpx

    from fairlead.client.transport import Line, Trials

LONG_POLL = 20.0
"""Seconds for which one request waits for a document's end."""
PAGE = 100

T = TypeVar("T")
Pair = Source | tuple[Source, str | None]


class Client:
    """Speaks with a Fairlead server. Methods may be called from any thread.

    `url` and `key` may also come from the environment: FAIRLEAD_URL and FAIRLEAD_KEY. A customer's
    key sees its own documents, an operator's all. When the connection is lost, requests are sent
    again for `patience` seconds; none is done twice. `timeout` is how long a silence may be.
    `language` is that of problems. `on_trouble` is told when the server does not answer. `http` is
    an httpx client of your own, for proxies or certificates; that one must not cross a fork.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        language: str | None = None,
        timeout: float = 60.0,
        patience: float = 30.0,
        on_trouble: Callable[[str], None] = lambda _words: None,
        http: httpx.Client | None = None,
    ) -> None:
        self._line: Line = _line_module().Line(
            url or _from_environment("FAIRLEAD_URL", "the address of a server"),
            key or _from_environment("FAIRLEAD_KEY", "a key"),
            language=language,
            timeout=timeout,
            patience=patience,
            on_trouble=on_trouble,
            http=http,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    @property
    def url(self) -> str:
        """The server's address."""
        return self._line.url

    def close(self) -> None:
        """Let go of the connections."""
        self._line.close()

    def me(self) -> Me:
        """Whose the key is, and what one request may bring."""
        return self._get(reading.me, "/v1/me")

    # --- documents ---

    def submit(
        self,
        source: Source,
        *,
        name: str | None = None,
        urgent: bool = False,
        idempotency_key: str | None = None,
        password: str | None = None,
    ) -> Document:
        """Submit one document: a path, bytes, or a file open for reading bytes.

        When this returns, the document is safe. A file is read while it is sent. Without an
        idempotency key one is made, so that a request whose answer was lost is sent again safely;
        an error has it as `idempotency_key`, for a later try of your own.
        """
        return self.submit_many(
            [(source, name)], urgent=urgent, idempotency_key=idempotency_key, password=password
        )[0]

    def submit_many(
        self,
        sources: Iterable[Pair],
        *,
        urgent: bool = False,
        idempotency_key: str | None = None,
        password: str | None = None,
        on_sent: Callable[[int], None] = lambda _bytes: None,
    ) -> list[Document]:
        """Submit documents together, or none, in one request. A pair is a source and its name.

        `on_sent` is told how many bytes have gone out.
        """
        pairs = [each if isinstance(each, tuple) else (each, None) for each in sources]
        if not pairs:
            return []
        fields = {"urgent": "true"} if urgent else {}
        if password is not None:
            fields["password"] = _check_text("the password", password)
        body = Body([part_of(source, name) for source, name in pairs], fields, on_sent)
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        headers = body.headers | {"Idempotency-Key": check_idempotency_key(key)}
        try:
            return self._ask(
                *(reading.documents, "POST", "/v1/documents"),
                content=body,
                headers=headers,
                is_spent=body.is_spent,
            )
        except FairleadError as error:
            error.idempotency_key = key
            raise

    def document(self, id_: str) -> Document:
        """The document of this id."""
        return self._get(reading.document, _document(id_))

    def page(
        self,
        *,
        customer: str | None = None,
        state: State | str | None = None,
        priority: int | None = None,
        parent: str | None = None,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> Page:
        """A page of documents, newest first; `cursor` is the `next` of the page before."""
        for id_ in (parent, cursor):
            if id_ is not None:
                _id("document", id_)  # what can be none is not asked for
        wanted = {
            "customer": customer,
            "state": None if state is None else state_of(state).value,
            "priority": priority,
            "parent": parent,
            "cursor": cursor,
            "limit": limit,
        }
        return self._get(reading.page, "/v1/documents", wanted)

    def documents(
        self,
        *,
        customer: str | None = None,
        state: State | str | None = None,
        priority: int | None = None,
        parent: str | None = None,
    ) -> Iterator[Document]:
        """All documents, newest first, fetched page by page. New ones do not disturb it."""
        cursor: str | None = None
        while True:
            found = self.page(
                customer=customer,
                state=state,
                priority=priority,
                parent=parent,
                cursor=cursor,
                limit=PAGE,
            )
            yield from found.documents
            cursor = found.next
            if cursor is None:
                return

    def wait(self, document: str | Document, *, timeout: float | None = None) -> Document:
        """The document when it has come to its end.

        NotReady when that is not known after `timeout` seconds, also where the server was away or
        asked for fewer requests; when it does so for longer than `patience`, that is the error.
        """
        return self._wait(_id_of(document), _end_of(timeout))

    def wait_all(
        self,
        documents: Iterable[str | Document],
        *,
        timeout: float | None = None,
        on_progress: Callable[[int], None] = lambda _left: None,
    ) -> list[Document]:
        """The documents when none is pending any more; NotReady as for `wait`.

        One that is unknown at the beginning is an error; one that is deleted meanwhile is left
        out. `on_progress` is told how many may be left.
        """
        ids, until = [_id_of(each) for each in documents], _end_of(timeout)
        on_progress(len(ids))
        found = {id_: self._look(id_, 0.0, until) for id_ in ids}
        pending = [id_ for id_, each in found.items() if each.state.is_pending]
        for number, id_ in enumerate(pending):
            on_progress(len(pending) - number)
            try:
                found[id_] = self._wait(id_, until, known=found[id_])
            except UnknownDocument:
                del found[id_]
        on_progress(0)
        return [found[id_] for id_ in ids if id_ in found]

    def _look(self, id_: str, seconds: float, until: float | None) -> Document:
        """The document now, or within so many seconds when it has ended."""
        return self._ask(
            *(reading.document, "GET", _document(id_)),
            params={"wait": round(seconds, 3)},
            seconds=seconds,
            until=until,
        )

    def _wait(self, id_: str, until: float | None, *, known: Document | None = None) -> Document:
        found = known or self._look(id_, 0.0, until)
        while found.state.is_pending:
            left = LONG_POLL if until is None else until - time.monotonic()
            if left <= 0:
                raise NotReady(f"document {id_} is {found.state}; it has not ended in time")
            found = self._look(id_, min(LONG_POLL, left), until)
        return found

    def text(self, id_: str) -> str:
        """The text of a document that is done."""
        return self._text(id_, "text/plain")

    def markdown(self, id_: str) -> str:
        """The document as Markdown, once it is done; where it has no layout, its text."""
        return self._text(id_, "text/markdown")

    def facts(self, id_: str) -> dict[str, Any]:
        """What was found in a document that is done: kind, pages, title, language and so on."""
        headers = {"Accept": "application/json"}
        path = _document(id_, "text")
        return self._ask(lambda found: dict(found["facts"]), "GET", path, headers=headers)

    def content(self, id_: str) -> bytes:
        """The document as it was submitted. `download` keeps large ones out of memory."""
        return b"".join(self._content(id_))

    def download(self, id_: str, path: str | Path) -> None:
        """Write the document as it was submitted to a file, which appears when it is whole."""
        target = Path(path)
        if not target.name:
            raise UsageError(f"a download needs the path of a file, got {str(path)!r}")
        # Not made of the file's own name, which may be as long as names can be.
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        try:
            with part.open("xb") as file:
                for piece in self._content(id_):
                    file.write(piece)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def _content(self, id_: str) -> Iterator[bytes]:
        """The document in pieces; a lost connection goes on where it broke off."""
        known = self.document(id_)
        digest, size = hashlib.sha256(), 0
        trials = self._trials()
        while size < known.size:
            headers = {"Range": f"bytes={size}-", "Accept-Encoding": "identity"}
            with (
                trials.once(),
                self._line.listen(_document(id_, "file"), headers=headers) as answer,
            ):
                before = size
                for piece in answer.iter_bytes():
                    trials.reached()
                    digest.update(piece)
                    size += len(piece)
                    yield piece
                _line_module().check_any(answer, size - before)
        if digest.hexdigest() != known.sha256:
            raise DamagedData(
                f"document {id_} came with another SHA-256 than it was submitted with"
            )

    def why(self, id_: str) -> Explanation:
        """Why the document has its priority, and what it waits for."""
        return self._get(reading.explanation, _document(id_, "why"))

    def cancel(self, id_: str) -> Document:
        """Cancel a pending document; its worker, if it has one, is stopped."""
        return self._post(reading.document, _document(id_, "cancel"))

    def retry(self, id_: str) -> Document:
        """Queue a failed or cancelled document once more.

        When the answer is lost, it is not sent again: the document may have failed meanwhile.
        """
        return self._post(reading.document, _document(id_, "retry"), is_safe=False)

    def delete(self, id_: str) -> None:
        """Remove a document with its files; a pending one is cancelled first."""
        self._remove(_document(id_))

    # --- events ---

    def events(self, *, after: int | None = None, customer: str | None = None) -> Iterator[Event]:
        """What happens, as it happens, for as long as you iterate.

        It begins now, or after the event of the number `after`. When the connection is lost, it
        goes on where it was, without gap or repeat. Kinds of events that only a newer Fairlead
        knows are passed over.
        """
        last = after
        trials = self._trials()
        while True:
            headers = {} if last is None else {"Last-Event-ID": str(last)}
            params = {"customer": customer}
            with (
                trials.once(),
                self._line.listen("/v1/events", params=params, headers=headers) as answer,
            ):
                _line_module().check_type(answer, "text/event-stream")
                for told in blocks(_heard(answer.iter_lines(), trials)):
                    if told.id:
                        last = _line_module().read_as(int, answer, told.id)
                    if told.kind == "end" or not told.data:
                        continue
                    event = _line_module().read_as(reading.event, answer, told.data)
                    if event is not None:
                        yield event
            trials.rest()

    # --- customers, for operators ---

    def customers(self) -> list[CustomerView]:
        """All customers, by name."""
        return self.overview()[0]

    def fairness(self) -> Fairness:
        """How fair the queue is at this moment, as numbers."""
        return self.overview()[1]

    def overview(self) -> tuple[list[CustomerView], Fairness]:
        """All customers by name, and how fair the queue is, at one moment."""
        return self._get(reading.overview, "/v1/customers")

    def customer(self, name: str) -> CustomerView:
        """The customer of this name."""
        return self._get(reading.customer, _customer(name))

    def add_customer(self, name: str) -> CustomerView:
        """Make a customer known before it submits anything; one that is there stays as it is."""
        try:
            return self._post(reading.customer, "/v1/customers", {"name": name})
        except CustomerExists:
            return self.customer(name)

    def set_customer(self, name: str, **changes: Any) -> CustomerView:
        """Change settings of a customer: weight, account, caps, limits, interval, thresholds.

        None: as for everybody.
        """
        CustomerSettings().changed(changes)  # refuses what JSON cannot even say
        return self._ask(reading.customer, "PATCH", _customer(name), json=changes)

    def pause(self, name: str) -> CustomerView:
        """Let the customer's documents wait; new ones are accepted all the same."""
        return self._post(reading.customer, _customer(name, "pause"))

    def resume(self, name: str) -> CustomerView:
        """Let the customer's documents run again."""
        return self._post(reading.customer, _customer(name, "resume"))

    def reset(self, name: str) -> CustomerView:
        """Forget the customer's count: its next document is checked as its first."""
        return self._post(reading.customer, _customer(name, "reset"))

    # --- keys, for operators ---

    def add_key(self, customer: str | None) -> tuple[str, Key]:
        """A new key of a customer, made known where it is not, or of an operator.

        The key itself comes back this once.
        """
        wanted = {"operator": True} if customer is None else {"customer": customer}
        return self._ask(
            lambda found: (str(found["key"]), reading.key(found)),
            *("POST", "/v1/keys"),
            json=wanted,
            is_safe=False,
        )

    def keys(self, customer: str | None = None, *, operators: bool = False) -> list[Key]:
        """Keys, oldest first: of one customer, of operators, or all."""
        wanted = {"customer": customer, "operator": "true" if operators else None}
        return self._get(reading.keys, "/v1/keys", wanted)

    def revoke_key(self, id_: str) -> Key:
        """Let a key open nothing any more."""
        return self._ask(reading.key, "DELETE", f"/v1/keys/{_id('key', id_)}")

    # --- webhooks ---

    def add_webhook(
        self, url: str, kinds: Sequence[str] | None = None, *, customer: str | None = None
    ) -> tuple[Webhook, str]:
        """Tell a server what becomes of the documents from now on; operators name the customer.

        Returns the webhook and its secret, which is never shown again.
        """
        wanted = {"url": url, "kinds": kinds, "customer": customer}
        given = {name: value for name, value in wanted.items() if value is not None}
        return self._ask(
            lambda found: (reading.webhook(found), str(found["secret"])),
            *("POST", "/v1/webhooks"),
            json=given,
            is_safe=False,
        )

    def webhook(self, id_: str) -> Webhook:
        """The webhook of this id."""
        return self._get(reading.webhook, _webhook(id_))

    def webhooks(self) -> list[Webhook]:
        """All webhooks that the key may see, oldest first."""
        return self._get(reading.webhooks, "/v1/webhooks")

    def set_webhook(
        self,
        id_: str,
        *,
        url: str | None = None,
        kinds: Sequence[str] | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """Change a webhook; None: as it is."""
        wanted = {"url": url, "kinds": kinds, "enabled": enabled}
        given = {name: value for name, value in wanted.items() if value is not None}
        return self._ask(reading.webhook, "PATCH", _webhook(id_), json=given)

    def remove_webhook(self, id_: str) -> None:
        """Forget a webhook and its deliveries."""
        self._remove(_webhook(id_), is_safe=False)

    def test_webhook(self, id_: str) -> Delivery:
        """Queue a delivery that tells of nothing; look at the deliveries to see what came of it."""
        return self._post(reading.delivery, _webhook(id_, "test"), is_safe=False)

    def deliveries(self, webhook: str) -> Iterator[Delivery]:
        """Deliveries of a webhook, newest first, fetched page by page."""
        cursor: str | None = None
        while True:
            path = _webhook(webhook, "deliveries")
            found, cursor = self._get(reading.deliveries, path, {"cursor": cursor})
            yield from found
            if cursor is None:
                return

    def resend(self, delivery: str) -> Delivery:
        """Send a delivery again under its old id."""
        path = f"/v1/webhooks/deliveries/{_id('delivery', delivery)}/resend"
        return self._post(reading.delivery, path, is_safe=False)

    # --- requests ---

    def _trials(self) -> Trials:
        """For what lasts longer than one request."""
        found: Trials = _line_module().Trials(self._line, is_safe=True)
        return found

    def _get(self, read: Callable[[Any], T], path: str, params: dict[str, Any] | None = None) -> T:
        return self._ask(read, "GET", path, params=params)

    def _post(
        self, read: Callable[[Any], T], path: str, content: Any = None, *, is_safe: bool = True
    ) -> T:
        return self._ask(read, "POST", path, json=content, is_safe=is_safe)

    def _ask(self, read: Callable[[Any], T], method: str, path: str, **how: Any) -> T:
        """What the JSON of the answer stands for."""
        found: T = _line_module().read_as(read, self._line.ask(method, path, **how))
        return found

    def _remove(self, path: str, *, is_safe: bool = True) -> None:
        _line_module().check_done(self._line.ask("DELETE", path, is_safe=is_safe))

    def _text(self, id_: str, media_type: str) -> str:
        path, headers = _document(id_, "text"), {"Accept": media_type}
        found: str = _line_module().text_of(
            self._line.ask("GET", path, headers=headers), media_type
        )
        return found


def _line_module() -> ModuleType:
    try:
        from fairlead.client import transport as line  # noqa: PLC0415 (an extra, needed here alone)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the library {error.name} is missing; install it: pip install 'fairlead[client]'"
        ) from None
    return line


def _heard(lines: Iterator[str], trials: Trials) -> Iterator[str]:
    """The lines; each of them, and be it one that says nothing, shows that the server is there."""
    for line in lines:
        trials.reached()
        yield line


def _id_of(document: str | Document) -> str:
    return document if isinstance(document, str) else document.id


def _end_of(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _from_environment(name: str, what: str) -> str:
    found = os.environ.get(name)
    if not found:
        raise UsageError(f"a client needs {what}; give it, or set {name} in the environment")
    return found


_UNKNOWN: dict[str, type[FairleadError]] = {
    "document": UnknownDocument,
    "webhook": UnknownWebhook,
    "delivery": UnknownDelivery,
    "key": UnknownKey,
}


def _id(kind: str, id_: str) -> str:
    """The id as a part of an address; an empty one would make it the address of something else."""
    if not id_ or not _is_text(id_):
        raise _UNKNOWN[kind](f"no {kind} has the id {id_!a}; check the id")
    return _quoted(id_)


def _document(id_: str, *more: str) -> str:
    return "/".join(["/v1/documents", _id("document", id_), *more])


def _webhook(id_: str, *more: str) -> str:
    return "/".join(["/v1/webhooks", _id("webhook", id_), *more])


def _customer(name: str, *more: str) -> str:
    if not _is_text(name):
        raise UnknownCustomer(f"customer {name!a} is not known")
    return "/".join(["/v1/customers", _quoted(name), *more])


def _is_text(given: str) -> bool:
    """Whether it can be sent: names of files that are not UTF-8 have characters that cannot."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_text(what: str, given: str) -> str:
    if not _is_text(given):
        raise UsageError(f"{what} is not UTF-8; give it in that encoding")
    return given


def _quoted(part: str) -> str:
    is_dots = part in (".", "..")  # which would be a way through the address
    return part.replace(".", "%2E") if is_dots else quote(part, safe="")
