"""`Fairlead`: the whole embedded installation as one object. Here the parts are wired together."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from fairlead.core.access import Key
from fairlead.core.classic import Check, ClassicPolicy
from fairlead.core.documents import (
    Customer,
    CustomerSettings,
    Document,
    Event,
    Switched,
    Totals,
)
from fairlead.core.explain import Explanation, explain, why_reset
from fairlead.core.fair import Clock, FairRule, Placed
from fairlead.core.fairness import Fairness
from fairlead.core.rules import PolicyName, check_policy
from fairlead.core.shown import CustomerView
from fairlead.core.states import State
from fairlead.core.webhooks import DEFAULT_KINDS, Delivery, NewWebhook, Webhook, check_kinds
from fairlead.datafolder import DataFolder
from fairlead.engines.local import LocalEngine
from fairlead.engines.ringer import Ringer, Rings
from fairlead.errors import (
    DamagedData,
    MissingExtra,
    NotReady,
    UnknownDelivery,
    UnknownKey,
    UnknownWebhook,
    Words,
)
from fairlead.files.local import LocalFiles
from fairlead.given import Source
from fairlead.ids import new_id
from fairlead.intake import Intake, Offer
from fairlead.intake.names import check_customer
from fairlead.keys import id_of, matches, new_key, sha256_of
from fairlead.ports import Files, Incoming, Store
from fairlead.settings import Explained, Settings, Sources
from fairlead.stores.sqlite import SqliteStore
from fairlead.webhooks import Deliverer, Networks, Sender, check_url, new_secret
from fairlead.work.extract import ReadLimits
from fairlead.work.limits import Limits
from fairlead.work.sweep import Sweeper, portions

if TYPE_CHECKING:
    from fairlead.stores.postgres import PostgresStore

TELL_SECONDS = 0.5
"""How often those who wait are told how much is left."""


class Fairlead:
    """An embedded installation in a data folder, which several processes may hold open.

    All methods may be called from any thread. `settings` overrides single settings by name;
    `clock` gives the time in seconds since 1970. With `patient`, a database server that cannot be
    reached is waited for.
    """

    def __init__(
        self,
        data: str | Path,
        *,
        settings: Mapping[str, Any] | None = None,
        clock: Callable[[], float] | None = None,
        must_exist: bool = False,
        patient: bool = False,
    ) -> None:
        self._sources = Sources(Path(data), flags=settings)
        chosen = self._sources.settings()
        is_far = chosen.files is not None and "://" in chosen.files
        near = None if is_far or chosen.files is None else Path(chosen.files)
        self.folder = DataFolder(Path(data), files=near)
        if must_exist and chosen.store is None:
            self.folder.check_exists()
        self._clock = clock or time.time
        self.folder.make()
        self.store = self._open_store(chosen.store, clock, patient=patient)
        self._files = self._open_files("files", self.folder.files, chosen.files if is_far else None)
        self._texts = self._open_files("texts", self.folder.texts, chosen.files if is_far else None)
        self._intake = Intake(
            self.store,
            self._files,
            limit=lambda: self.settings.max_document_bytes,
            clock=self._clock,
        )

    def _open_store(
        self, url: str | None, clock: Callable[[], float] | None, *, patient: bool
    ) -> Store:
        rules = self._sources.rules
        if url is None:
            self.folder.check_whole()
            return SqliteStore(self.folder.database, rules=rules, clock=self._clock)
        return postgres_store()(url, rules=rules, clock=clock, patient=patient)

    def _open_files(self, part: str, folder: Path, url: str | None) -> Files:
        if url is None:
            return LocalFiles(folder)
        try:
            from fairlead.files import objects  # noqa: PLC0415 (an extra)
        except ImportError as error:
            raise MissingExtra(
                f"the library {error.name} is missing; install it: pip install 'fairlead[s3]'"
            ) from None
        return objects.ObjectFiles(
            objects.object_store(url, part), self.folder.path / "cache" / part
        )

    def __enter__(self) -> Fairlead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the data folder. What was accepted is safe."""
        self.store.close()

    # --- documents ---

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

    def begin(self) -> Incoming:
        """A new document that comes in pieces; it is nothing until `accept_each` takes it."""
        return self._intake.begin()

    def accept_each(self, offers: Sequence[Offer]) -> list[list[Document] | Exception]:
        """Accept what came in pieces; each offer is accepted or refused as a whole."""
        return self._intake.accept_each(offers)

    def document(self, id_: str) -> Document:
        """The document of this id."""
        return self.store.document(id_)

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
        `containing` for those with this in their name.
        """
        if customer is not None:
            self.customer(customer)  # an unknown one is an error, not an empty list
        for named in (parent, before):
            if named is not None:
                self.document(named)
        return self.store.documents(
            customer=customer,
            state=None if state is None else State(state),
            priority=priority,
            parent=parent,
            name=containing,
            before=before,
            limit=limit,
        )

    def text(self, id_: str) -> str:
        """The text of a document that is done."""
        document = self.document(id_)
        if document.text_sha256 is None:
            raise NotReady(_why_no_text(document))
        if document.text_key is not None:
            return self._texts.read(document.text_key, document.text_sha256).decode()
        return self._short_text(id_, "text", document.text_sha256)

    def markdown(self, id_: str) -> str:
        """The document as Markdown, once it is done; where it has no layout, its text."""
        document = self.document(id_)
        if document.markdown_sha256 is None:
            return self.text(id_)
        if document.markdown_key is not None:
            return self._texts.read(document.markdown_key, document.markdown_sha256).decode()
        return self._short_text(id_, "markdown", document.markdown_sha256)

    def _short_text(self, id_: str, which: Literal["text", "markdown"], sha256: str) -> str:
        """A text that the store keeps itself, after a check of its SHA-256."""
        found = self.store.short_texts(id_)
        content: bytes | None = None if found is None else getattr(found, which)
        return _checked(content, sha256, f"the {which} of document {id_}").decode()

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

    def delete(self, id_: str, *, by: str | None = None) -> None:
        """Remove a document with its files; a pending one is cancelled first.

        Its events stay, without its content. One that was deleted before stays so.
        """
        texts = self.store.delete(id_, by=by)
        self._files.delete([id_])
        self._texts.delete(texts)

    def why(self, id_: str) -> Explanation:
        """Why the document has its priority, and what it waits for."""
        document = self.document(id_)
        customer = self.customer(document.customer)
        return explain(
            document,
            customer,
            self.store.place(id_),
            policy=self.policy_of(customer),
            clock=self.store.clock(),
            lane=self._sources.rules().lane,
            now=self.now(),
            flow=self.store.flow() if document.state is State.WAITING else None,
        )

    def cancel(self, id_: str, *, by: str | None = None) -> Document:
        """Cancel a pending document; its worker, if it has one, is stopped."""
        return self.store.cancel(id_, by=by)

    def retry(self, id_: str, *, by: str | None = None) -> Document:
        """Queue a failed or cancelled document once more, at its own place."""
        return self.store.again(id_, by=by)

    # --- customers ---

    def customer(self, name: str) -> Customer:
        """The customer of this name."""
        return self.store.customer(name)

    def customers(self) -> list[Customer]:
        """All customers, by name."""
        return self.store.customers()

    def add_customer(self, name: str, *, by: str | None = None, **settings: Any) -> Customer:
        """Make a customer known before it submits anything, with settings as of `set_customer`."""
        self._changed(CustomerSettings(), settings)  # refuses what is wrong before it is there
        self.store.add_customer(check_customer(name), by=by)
        return self.set_customer(name, by=by, **settings) if settings else self.customer(name)

    def set_customer(self, name: str, *, by: str | None = None, **changes: Any) -> Customer:
        """Change settings of a customer: weight, account, caps, interval, thresholds.

        None: as for everybody.
        """
        settings = self._changed(self.customer(name).settings, changes)
        self.store.set_customer(name, settings, by=by)
        return self.customer(name)

    def _changed(self, settings: CustomerSettings, changes: Mapping[str, Any]) -> CustomerSettings:
        if changes.get("account") is not None:
            check_customer(changes["account"])
        return replace(settings, **changes)

    def pause(self, name: str, *, by: str | None = None) -> Customer:
        """Let the customer's documents wait; new ones are accepted all the same."""
        self.store.pause(name, by=by)
        return self.customer(name)

    def resume(self, name: str, *, by: str | None = None) -> Customer:
        """Let the customer's documents run again."""
        self.store.resume(name, by=by)
        return self.customer(name)

    def reset(self, name: str, *, by: str | None = None) -> Customer:
        """Forget the customer's count: its next document is checked as its first."""
        self.store.reset(name, by=by)
        return self.customer(name)

    def policy_of(
        self, customer: Customer, policy: PolicyName | None = None
    ) -> ClassicPolicy | FairRule:
        """The rule in force, as it holds for this customer; `policy` where it is known already."""
        rules, own = self._sources.rules(), customer.settings
        make = rules.fair if (policy or self.policy) == "fair" else rules.classic
        return make(own.reset_interval, own.thresholds)

    def next_place(
        self, customer: Customer, policy: PolicyName | None = None, clock: Clock | None = None
    ) -> Check | Placed:
        """What the customer's next document would get now: `.count` and `.priority`.

        For many customers, read `policy` and `clock` once and pass them in.
        """
        rule = self.policy_of(customer, policy)
        if isinstance(rule, ClassicPolicy):
            return rule.check(customer.counter, now=self.now())
        return rule.submit(
            customer.tags,
            clock or self.store.clock(),
            cost=0,
            weight=customer.settings.weight,
            now=self.now(),
            has_pending=customer.pending > 0,
        )

    def next_priority(self, customer: Customer) -> int:
        """The priority that the customer's next document would get now."""
        return self.next_place(customer).priority

    def view(self, customer: Customer) -> CustomerView:
        """The customer with what follows from its records at this moment, as it is shown."""
        own, waits_since = customer.settings, customer.oldest_waiting_at
        return CustomerView(
            name=customer.name,
            pending=customer.pending,
            waiting=customer.waiting,
            processing=customer.processing,
            count=self._shown_count(customer),
            next_priority=self.next_priority(customer),
            resets_in=self._resets_in(customer),
            oldest_wait=None if waits_since is None else max(0.0, self.now() - waits_since),
            paused=customer.paused,
            account=own.account,
            weight=own.weight,
            processing_cap=own.processing_cap,
            pending_cap=own.pending_cap,
            requests_a_second=own.requests_a_second,
            requests_burst=own.requests_burst,
            bytes_a_day=own.bytes_a_day,
            reset_interval=own.reset_interval,
            thresholds=own.thresholds,
            created_at=customer.created_at,
        )

    def _shown_count(self, customer: Customer) -> int | None:
        """The classic rule's count; under fair the one that the next document would be shown."""
        if isinstance(self.policy_of(customer), ClassicPolicy):
            return customer.counter.count if customer.counter else None
        return self.next_place(customer).count

    def _resets_in(self, customer: Customer) -> int | None:
        """After how many seconds without a document the customer starts over, if it must wait."""
        policy = self.policy_of(customer)
        if isinstance(policy, ClassicPolicy):
            left: int | None = why_reset(policy, customer, self.now()).params.get("seconds")
            return left
        if customer.tags is None or customer.pending:
            return None
        return max(0, round(customer.tags.submitted_at + policy.reset_interval - self.now()))

    # --- webhooks ---

    def add_webhook(
        self,
        customer: str,
        url: str,
        kinds: Iterable[str] = DEFAULT_KINDS,
        *,
        by: str | None = None,
    ) -> tuple[Webhook, str]:
        """Tell a customer's own server what becomes of its documents from now on.

        Returns the webhook and its secret, which is never shown again.
        """
        check_url(url, self._networks())
        secret = new_secret(os.urandom(32))
        id_ = new_id(self._clock())
        new = NewWebhook(id_, customer, url, check_kinds(kinds), secret)
        return self.store.outbox.add(new, by=by), secret

    def webhook(self, id_: str, *, customer: str | None = None) -> Webhook:
        """The webhook of this id; with `customer`, another one's is as good as none."""
        found = self.store.outbox.webhook(id_)
        if customer not in (None, found.customer):
            raise UnknownWebhook(
                Words("no webhook has the id {id}; list those there are", id=repr(id_))
            )
        return found

    def webhooks(self, customer: str | None = None) -> list[Webhook]:
        """All webhooks, or those of a customer, oldest first."""
        return self.store.outbox.webhooks(customer)

    def set_webhook(
        self,
        id_: str,
        *,
        customer: str | None = None,
        url: str | None = None,
        kinds: Iterable[str] | None = None,
        enabled: bool | None = None,
        by: str | None = None,
    ) -> Webhook:
        """Change a webhook; None: as it is. What waits for a disabled one goes on when enabled."""
        self.webhook(id_, customer=customer)
        if url is not None:
            check_url(url, self._networks())
        wanted = None if kinds is None else check_kinds(kinds)
        return self.store.outbox.set(id_, url=url, kinds=wanted, enabled=enabled, by=by)

    def remove_webhook(
        self, id_: str, *, customer: str | None = None, by: str | None = None
    ) -> None:
        """Forget a webhook and its deliveries."""
        self.webhook(id_, customer=customer)
        self.store.outbox.remove(id_, by=by)

    def test_webhook(self, id_: str, *, customer: str | None = None) -> Delivery:
        """Queue a delivery that tells of nothing; look at it again to see what came of it."""
        self.webhook(id_, customer=customer)
        return self.store.outbox.test(id_)

    def delivery(self, id_: str, *, customer: str | None = None) -> Delivery:
        """The delivery of this id; with `customer`, another one's is as good as none."""
        found = self.store.outbox.delivery(id_)
        if customer not in (None, self.webhook(found.webhook).customer):
            raise UnknownDelivery(
                Words("no delivery has the id {id}; list those of its webhook", id=repr(id_))
            )
        return found

    def deliveries(
        self,
        webhook: str,
        *,
        customer: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Delivery]:
        """Deliveries of a webhook, newest first; `before` is the last id of the page before."""
        self.webhook(webhook, customer=customer)
        return self.store.outbox.deliveries(webhook, before=before, limit=limit)

    def resend(self, id_: str, *, customer: str | None = None) -> Delivery:
        """Send a delivery again, under its old id and with all its attempts."""
        self.delivery(id_, customer=customer)
        return self.store.outbox.resend(id_)

    def deliverer(self) -> Deliverer:
        """Threads that deliver what is due, until it is closed."""
        sender = Sender(self._networks, clock=self._clock)
        lot = random.random  # spreads attempts; nothing secret depends on it
        return Deliverer(self.store.outbox, sender, clock=self.now, lot=lot)

    def _networks(self) -> Networks:
        return Networks(self.settings.webhook_networks)

    # --- keys ---

    def add_key(self, customer: str | None, *, by: str | None = None) -> tuple[str, Key]:
        """A new key of a customer, made known where it is not, or of an operator.

        The key itself comes back this once; what is kept does not tell it.
        """
        if customer is not None:
            self.store.add_customer(check_customer(customer), by=by)
        key, id_ = new_key()
        return key, self.store.add_key(id_, sha256_of(key), customer, by=by)

    def keys(self, customer: str | None = None, *, operators: bool = False) -> list[Key]:
        """Keys, oldest first: of one customer, of operators, or all."""
        if customer is not None:
            self.customer(customer)
        every = self.store.keys()
        return [
            each
            for each in every
            if (customer is None or each.customer == customer)
            and (not operators or each.is_operator)
        ]

    def revoke_key(self, id_: str, *, by: str | None = None) -> Key:
        """Let a key open nothing any more."""
        return self.store.revoke_key(id_, by=by)

    def operator_key(self) -> tuple[str, Key]:
        """The operator key of this data folder, kept in a file that only this user may read.

        Made where there is none, or where the one in the file was revoked.
        """
        found = self.folder.read_operator_key()
        id_ = None if found is None else id_of(found)
        if found is not None and id_ is not None:
            with suppress(UnknownKey):
                known = self.store.key(id_)
                if matches(found, known.sha256) and not known.is_revoked:
                    return found, known
        key, made = self.add_key(None, by="first-start")
        self.folder.write_operator_key(key)
        return key, made

    # --- the whole ---

    @property
    def policy(self) -> PolicyName:
        """The policy in force: "classic" or "fair"."""
        return self.store.policy()

    def use_policy(self, name: str) -> Switched | None:
        """Switch a live queue to another policy, and say what that did; None: it was in force.

        Where the settings name a policy, they win again when they change or a process starts.
        """
        return self.store.use_policy(check_policy(name))

    def fairness(self) -> Fairness:
        """How fair the queue is at this moment, as numbers."""
        return self.store.fairness()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._sources.settings()

    def explain_settings(self) -> list[Explained]:
        """Every setting, with where its value comes from."""
        return self._sources.explain()

    def now(self) -> float:
        """The time by the installation's clock."""
        return self.store.now()

    def totals(self) -> Totals:
        """How many documents wait and are processed, of how many customers."""
        return self.store.totals()

    def events(
        self, after: int = 0, limit: int = 1000, *, customer: str | None = None
    ) -> list[Event]:
        """What happened after the event of this number, oldest first; to one customer, if asked."""
        return self.store.events(after, limit, customer=customer)

    def sweep(self) -> int:
        """Remove files that belong to no document and are old; return how many."""
        return sum(self._sweep_portions())

    def _sweep_portions(self) -> Iterator[int]:
        before = time.time() - self.settings.sweep_after  # files have the machine's times
        return portions(self.store, self._files, self._texts, before=before)

    # --- work ---

    def engine(
        self, workers: int | None = None, *, on_tick: Callable[[], None] = lambda: None
    ) -> LocalEngine:
        """A local engine for this installation, to be run once."""
        return LocalEngine(
            self.store,
            self._files,
            self._texts,
            workers=self.settings.workers if workers is None else workers,
            limits=self._limits,
            lease=lambda: self.settings.lease,
            desks=self.folder.desks,
            on_tick=on_tick,
        )

    def sweeper(self) -> Sweeper:
        """A thread that sweeps now and every hour, until it is closed."""
        return Sweeper(self._sweep_portions, lambda: self.store.only_one("sweep"))

    def ringer(self) -> Ringer:
        """A thread that wakes Celery's workers when documents wait, until it is closed."""
        return Ringer(self.store, self.bell())

    def bell(self) -> Rings:
        """What reaches the broker that the settings name."""
        return celery_bell()(self.settings.needed_broker())

    def run_until_idle(
        self, workers: int | None = None, *, on_tick: Callable[[], None] = lambda: None
    ) -> None:
        """Process documents until none is left that could run.

        Documents of paused customers stay; those that other processes hold are waited for.
        """
        self.engine(workers, on_tick=on_tick).run(until_idle=True)

    def wait(
        self, ids: Iterable[str], *, on_progress: Callable[[int], None] = lambda _left: None
    ) -> None:
        """Return when none of the documents is pending any more; somebody else does the work.

        `on_progress` is told how many are left.
        """
        pending = list(ids)
        version, bell = None, threading.Event()
        patience = self.store.watch(bell.set)
        try:
            while pending:
                if (newest := self.store.version()) != version:
                    version = newest
                    pending = [each for each in pending if self.document(each).state.is_pending]
                on_progress(len(pending))
                if pending:
                    bell.wait(min(patience, TELL_SECONDS))
                    bell.clear()
        finally:
            self.store.unwatch(bell.set)

    def _limits(self) -> Limits:
        settings = self.settings
        read = ReadLimits(
            characters=settings.max_characters,
            pages=settings.max_pages,
            pixels=settings.max_pixels,
            unpacked_bytes=settings.max_unpacked_bytes,
            ratio=settings.max_ratio,
            members=settings.max_members,
            languages=settings.ocr_languages,
        )
        is_strict = settings.sandbox == "strict"
        return Limits(settings.time_limit, settings.memory_limit, read, is_strict)


def celery_bell() -> Callable[[str], Rings]:
    """What rings for Celery's workers by a broker; its libraries are an extra."""
    try:
        from fairlead.engines.celery.bell import Bell, make_app  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise MissingExtra(
            f"the library {error.name} is missing; install it: pip install 'fairlead[celery]'"
        ) from None
    return lambda broker: Bell(make_app(broker))


def postgres_store() -> type[PostgresStore]:
    """The store on a PostgreSQL server, whose libraries are an extra."""
    try:
        from fairlead.stores.postgres import PostgresStore  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise MissingExtra(
            f"the library {error.name} is missing; install it: pip install 'fairlead[postgres]'"
        ) from None
    return PostgresStore


def _checked(content: bytes | None, sha256: str, what: str) -> bytes:
    """What the store keeps itself, if it is what was stored."""
    if content is None or hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedData(f"{what} is not what was stored; restore it from a backup")
    return content


def _why_no_text(document: Document) -> str:
    if document.state.is_pending:
        return Words(
            "document {id} is {state}; its text comes when it is done",
            id=document.id,
            state=document.state.value,
        )
    if document.error is None:
        return Words(
            "document {id} is {state}; it has no text", id=document.id, state=document.state.value
        )
    return Words(
        "document {id} is {state} ({error}): {detail}; it has no text",
        id=document.id,
        state=document.state.value,
        error=document.error,
        detail=(document.detail or "").rstrip("."),
    )
