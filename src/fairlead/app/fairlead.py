"""`Fairlead`: an embedded installation as one object."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event as Flag
from typing import Any, Self, overload

from fairlead.app.batches import EmbeddedBatches
from fairlead.app.contents import Contents
from fairlead.app.customers import EmbeddedCustomers
from fairlead.app.document_result import DocumentResult
from fairlead.app.keys import EmbeddedKeys
from fairlead.app.open_storage import RecordedPlace, open_files, postgres_store
from fairlead.app.queue import EmbeddedQueue
from fairlead.app.results import PORTION, ResultReader, check_parts, event_number
from fairlead.app.services import Services
from fairlead.app.webhooks import EmbeddedWebhooks
from fairlead.config.data_folder import NO_ROOM, DataFolder
from fairlead.config.settings import Settings, Sources, mask_url
from fairlead.errors import NotReady, TemporarilyUnavailable, UnknownDocument, UsageError
from fairlead.intake import Intake
from fairlead.model.blobs import BlobStore
from fairlead.model.documents import Document, DocumentCheck, EndedDocument, Event
from fairlead.model.explanations import Explanation, PipelineState
from fairlead.model.installation import ListingPage, NamedSource, listing_page
from fairlead.model.names import check_customer
from fairlead.model.notebook import fields_html
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.model.sources import Source
from fairlead.model.states import State, state_of
from fairlead.model.submissions import (
    Moment,
    document_changes,
    metadata_query,
    submission_options,
)
from fairlead.policy.explain import explain, with_words, words
from fairlead.steps.reference import named_steps, reference_of
from fairlead.storage import Store
from fairlead.storage.sqlite import SqliteStore
from fairlead.worker.sandbox.landlock import refuse_readable

SHORT_ROOM = 64 << 20
"""With less free space, deletions also shrink the database."""
WORTH_SHRINKING = 1 << 20
"""Free bytes in the database from which on it is shrunk."""
PROGRESS_SECONDS = 0.5
"""How often `wait` reports the number of pending documents."""


class Fairlead:
    """An embedded installation in a data folder, which several processes may open.

    All methods may be called from any thread. `settings` overrides single settings by name. `steps`
    are those of the default pipeline: "read", functions, or their names as "module:function"; steps
    in `settings["pipelines"]` may be the same. `outputs` are the optional files of the default
    pipeline: "searchable-pdf" and "pages". `clock` returns seconds since 1970. With `patient`, an
    unreachable database server is waited for. `actor` is the actor in the audit record of calls
    without `by`.

    The server and the command line also use `folder`, `store`, `files`, `texts`, `intake`,
    `contents`, `result_reader` and `services`, which are internal.
    """

    def __init__(
        self,
        data: str | Path,
        *,
        settings: Mapping[str, Any] | None = None,
        steps: Sequence[str | Callable[..., Any]] | None = None,
        outputs: Sequence[str] | None = None,
        clock: Callable[[], float] | None = None,
        must_exist: bool = False,
        patient: bool = False,
        actor: str | None = None,
    ) -> None:
        references = None if steps is None else [reference_of(step) for step in steps]
        flags = named_steps(settings or {})
        self._sources = Sources(Path(data), flags=flags, steps=references, outputs=outputs)
        self._actor = actor
        self.clock = clock or time.time
        self._is_closed = False
        current = self._sources.settings()
        self._url = current.store
        self.folder = DataFolder(Path(data), files=current.files_folder)
        if must_exist and current.store is None:
            self.folder.check_exists()
        refuse_readable({self.folder.path, self.folder.files.parent})
        self.folder.make()
        self.store = self._open_store(current.store, clock, patient=patient)
        if current.policy is not None and self.store.last_event() == 0:
            self.store.follow_settings()  # a new store starts with it
        self.files = self._open_blobs(current, self.folder.files)
        self.texts = self._open_blobs(current, self.folder.texts)
        self.intake = Intake(
            self.store,
            self.files,
            limit=lambda: self.settings.max_document_bytes,
            clock=self.clock,
        )
        self.contents = Contents(self.store, self.files, self.texts)
        self.result_reader = ResultReader(self.store, self.texts)
        self.services = Services(self)
        self.keys = EmbeddedKeys(self.store, self.folder, actor)
        self.customers = EmbeddedCustomers(
            self.store,
            self._sources.rules,
            actor,
            keys=self.keys,
            settings=self._sources.settings,
            why=self.why,
            delete=self.delete,
        )
        self.batches = EmbeddedBatches(self)
        self.webhooks = EmbeddedWebhooks(self.store, self.services.networks, self.clock, actor)
        self.queue = EmbeddedQueue(
            self.store, self.customers, lambda: self.settings.pipelines, actor
        )

    def _open_store(
        self, url: str | None, clock: Callable[[], float] | None, *, patient: bool
    ) -> Store:
        rules = self._sources.rules
        if url is not None:
            return postgres_store()(url, rules=rules, clock=clock, patient=patient)
        self.folder.check_whole()
        return self.folder.reserve.use(
            lambda: SqliteStore(self.folder.database, rules=rules, clock=self.clock)
        )

    def _open_blobs(self, current: Settings, folder: Path) -> BlobStore:
        # A data folder with its own database may be moved, so its place has no path.
        own = "" if current.store is None else str(self.folder.path.absolute())
        place = f"{mask_url(current.files or own)}/{folder.name}"
        cache = self.folder.path / "cache"
        return open_files(folder, current.files_url, cache, RecordedPlace(self.store, place))

    def __repr__(self) -> str:
        words = ", ".join(self._place.values())
        return f"<Fairlead in {words}>"

    def _repr_html_(self) -> str:
        return fields_html("Fairlead", self._place)

    @property
    def _place(self) -> dict[str, str]:
        """Where the data is, without a read of it: it may be closed or unreachable."""
        place = {"data folder": str(self.folder.path)}
        if self._url is not None:
            place["database"] = mask_url(self._url)
        return place | {"state": "closed" if self._is_closed else "open"}

    def check_places(self) -> None:
        """Raise FilesUnreachable if the blobs of documents or texts are not available."""
        self.files.check()
        self.texts.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the data folder. Accepted documents are durable."""
        self._is_closed = True
        self.store.close()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._sources.settings()

    def submit(
        self,
        customer: str,
        source: Source,
        *,
        name: str | None = None,
        pipeline: str = DEFAULT_PIPELINE,
        metadata: Mapping[str, Any] | None = None,
        reference: str | None = None,
        urgent: bool = False,
        not_before: Moment | None = None,
        idempotency_key: str | None = None,
        password: str | None = None,
        batch: str | None = None,
        strict: bool | None = None,
    ) -> Document:
        """Accept one document: a path, bytes, a file open for reading bytes, or a dict or list.

        When this returns, the document is durable. With `strict`, the customer must exist. The
        password opens an encrypted document, and is stored until the document has ended. `metadata`
        (a JSON object of up to 4 kB) and `reference` are your own. `not_before` is the earliest
        start: a time, or a delay in seconds.
        """
        return self.submit_many(
            customer,
            [(source, name)],
            pipeline=pipeline,
            metadata=metadata,
            reference=reference,
            urgent=urgent,
            not_before=not_before,
            idempotency_key=idempotency_key,
            password=password,
            batch=batch,
            strict=strict,
        )[0]

    def submit_many(
        self,
        customer: str,
        sources: Iterable[NamedSource],
        *,
        pipeline: str = DEFAULT_PIPELINE,
        metadata: Mapping[str, Any] | None = None,
        reference: str | None = None,
        urgent: bool = False,
        not_before: Moment | None = None,
        idempotency_key: str | None = None,
        password: str | None = None,
        batch: str | None = None,
        strict: bool | None = None,
    ) -> list[Document]:
        """Accept all documents or none. A source may be a pair of a source and its name.

        Several documents form a new batch, or are added to `batch`.
        """
        self.settings.known_pipeline(pipeline)
        options = submission_options(
            urgent=urgent,
            password=password,
            pipeline=pipeline,
            metadata=metadata,
            reference=reference,
            not_before=not_before,
        )
        return self.intake.submit(
            customer,
            [source if isinstance(source, tuple) else (source, None) for source in sources],
            options,
            strict=self.settings.strict_customers if strict is None else strict,
            key=idempotency_key,
            batch=batch,
        )

    def document(self, id_: str, /) -> Document:
        return self.store.document(id_)

    def documents(
        self,
        *,
        customer: str | None = None,
        state: State | str | None = None,
        priority: int | None = None,
        pipeline: str | None = None,
        parent: str | None = None,
        id_prefix: str | None = None,
        name: str | None = None,
        reference: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        batch: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> ListingPage[Document]:
        """A page of documents, newest first; iterating over it fetches the following pages too.

        Filters: `parent` is the id of a document with attachments or of an archive, `name` a part
        of the name, `id_prefix` the beginning of the id, `metadata` strings, numbers or booleans at
        the top level of the metadata. `cursor` is the id of the last document of the previous page.
        The documents that `parent` and `cursor` name may be deleted.
        """
        if customer is not None:
            self.store.customer(customer)  # raises UnknownCustomer
        for id_ in (parent, cursor):
            if id_ is not None:
                self.owner(id_)

        def fetch(cursor: str | None) -> ListingPage[Document]:
            rows = self.store.documents(
                customer=customer,
                state=None if state is None else state_of(state),
                priority=priority,
                pipeline=pipeline,
                parent=parent,
                id_prefix=id_prefix,
                name=name,
                reference=reference,
                metadata=metadata_query(metadata or {}),
                batch=batch,
                before=cursor,
                limit=limit + 1,
            )
            return listing_page(rows, limit, fetch)

        return fetch(cursor)

    def owner(self, id_: str, /) -> str:
        """The customer of a document, which may be deleted."""
        try:  # in this order, as it may be deleted between the two queries
            return self.document(id_).customer
        except UnknownDocument:
            customer = self.store.deleted_customer(id_)
            if customer is None:
                raise
            return customer

    def text(self, id_: str, /) -> str:
        """The text of a document that is done."""
        return self.contents.text(id_)

    def markdown(self, id_: str, /) -> str:
        """The Markdown of a document that is done; its text where it has no layout."""
        return self.contents.markdown(id_)

    def result(self, id_: str, /) -> DocumentResult:
        """The result of a document that is done: `.text`, `.data`, `.file(name)`."""
        return self.contents.result(id_)

    def cause(self, id_: str, /) -> str | None:
        """Why a document or its last attempt at a step failed; for operators only."""
        return self.store.cause(id_)

    def original(self, id_: str, /) -> bytes:
        """The document as it was submitted."""
        return self.contents.original(id_)

    def download(self, id_: str, path: str | Path, /) -> None:
        """Write the document as it was submitted to a file, atomically."""
        target = Path(path)
        if not target.name:
            raise UsageError(f"a download needs the path of a file, got {str(path)!r}")
        content = self.original(id_)
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        try:
            part.write_bytes(content)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def why(self, id_: str, /) -> Explanation:
        """Explain the priority of a document, and what it waits for."""
        document = self.document(id_)
        customer = self.store.customer(document.customer, among_others=True)
        is_waiting = document.state is State.WAITING
        stored = self.store.stored_document(id_)
        explanation = explain(
            document,
            customer,
            self.store.outlook(id_) if is_waiting else None,
            policy=self.customers.rule(customer),
            lane=self._sources.rules().lane,
            now=self.store.now(),
            retry_at=stored.retry_at if is_waiting else None,
            calls=stored.calls,
            pipeline=self._pipeline_state(stored.queue),
        )
        return with_words(explanation, words, with_others=True)

    def _pipeline_state(self, queue: str) -> PipelineState:
        state = self.store.pipeline_state(queue)
        problem = self.queue.step_problem(queue)
        return state if problem is None else state._replace(is_served=False, problem=problem)

    def cancel(
        self, id_: str, /, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> Document:
        """Cancel a pending document; its worker, if it has one, is stopped."""
        return self.store.cancel(id_, by=by or self._actor, check=check)

    def retry(
        self,
        id_: str,
        /,
        *,
        password: str | None = None,
        by: str | None = None,
        check: DocumentCheck | None = None,
    ) -> Document:
        """Queue a document that has ended again, at its own place.

        A result stays readable until a new one replaces it. The password opens an encrypted
        document; that of the submission was deleted when the document ended.
        """
        return self.store.retry(id_, password=password, by=by or self._actor, check=check)

    def change(
        self,
        id_: str,
        /,
        *,
        by: str | None = None,
        check: DocumentCheck | None = None,
        **changes: Any,
    ) -> Document:
        """Change `urgent`, `metadata` or `reference` of a document, or several of them."""
        checked = document_changes(changes)
        return self.store.change(id_, checked, by=by or self._actor, check=check)

    def delete(
        self, id_: str, /, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> None:
        """Delete a document with its files; a pending one is cancelled first.

        Its events stay, without its content. Deleting it again does nothing. Works on a full disk,
        as long as the reserve lasts.
        """
        self.contents.delete(id_, self.delete_row(id_, by=by, check=check))

    def delete_row(
        self, id_: str, /, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> list[str]:
        """As `delete`, but return the keys of the texts for `contents.delete` to remove."""
        if self.store.deleted_customer(id_) is not None:
            return []  # without using the reserve
        keys = self.folder.reserve.use(
            lambda: self.store.delete(id_, by=by or self._actor, check=check)
        )
        if not self.folder.has_room(SHORT_ROOM):
            self._make_room()
        return keys

    def _make_room(self) -> None:
        """Shrink the database if it has free pages, then fill the reserve."""
        if self.store.free_bytes() >= WORTH_SHRINKING:
            with suppress(TemporarilyUnavailable):  # the next deletion tries again
                self.folder.reserve.use(
                    lambda: self.store.shrink(lambda: self.folder.has_room(SHORT_ROOM))
                )
        if self.settings.store is None:
            self.folder.reserve.fill()

    def has_room(self) -> bool:
        """Whether the disk has room for documents; free pages of the database count."""
        return self.folder.has_room() or self.store.free_bytes() >= NO_ROOM

    @overload
    def wait(  # type: ignore[overload-overlap]  # a string is one id
        self,
        ids: str | Document,
        /,
        *,
        timeout: float | None = None,
        on_progress: Callable[[int], None] = ...,
    ) -> Document: ...

    @overload
    def wait(
        self,
        ids: Iterable[str | Document],
        /,
        *,
        timeout: float | None = None,
        on_progress: Callable[[int], None] = ...,
    ) -> list[Document]: ...

    def wait(
        self,
        ids: str | Document | Iterable[str | Document],
        /,
        *,
        timeout: float | None = None,
        on_progress: Callable[[int], None] = lambda _left: None,
    ) -> Document | list[Document]:
        """Wait until no document is pending; return them, or the one of a single id.

        This processes nothing: workers must be running. Raises NotReady after `timeout` seconds. Of
        several documents, deleted ones are left out. `on_progress` gets the number of documents
        that may be pending: all of them first, then the number that is left, at least every half
        second, and 0 at the end.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if isinstance(ids, str | Document):
            id_ = _id_of(ids)
            return self._wait([id_], deadline, on_progress).get(id_) or self.document(id_)
        all_ids = [_id_of(document) for document in ids]
        ended = self._wait(all_ids, deadline, on_progress)
        return [ended[id_] for id_ in all_ids if id_ in ended]

    def _wait(
        self, ids: list[str], deadline: float | None, on_progress: Callable[[int], None]
    ) -> dict[str, Document]:
        documents = dict[str, Document | None].fromkeys(ids)
        pending, woken = list(documents), Flag()
        on_progress(len(pending))
        with self.store.changes.subscribe(woken.set) as changes:
            while True:
                if changes.changed():
                    documents |= {id_: self._unless_deleted(id_) for id_ in pending}
                    pending = [id_ for id_ in pending if _is_pending(documents[id_])]
                on_progress(len(pending))
                if not pending:
                    return {id_: document for id_, document in documents.items() if document}
                seconds = min(changes.poll_seconds, PROGRESS_SECONDS)
                if deadline is not None:
                    seconds = min(seconds, deadline - time.monotonic())
                    if seconds <= 0:
                        raise NotReady(f"document {pending[0]} is pending; the wait timed out")
                woken.wait(seconds)
                woken.clear()

    def _unless_deleted(self, id_: str) -> Document | None:
        try:
            return self.document(id_)
        except UnknownDocument:
            if self.store.deleted_customer(id_) is None:
                raise
            return None

    def events(
        self, *, after: int | None = None, customer: str | None = None, follow: bool = True
    ) -> Iterator[Event]:
        """Iterate over events as they happen.

        It starts now, or after the event with the number `after`. Without `follow` it ends at the
        newest event. With it, the customer may be one that does not exist yet.
        """
        if customer is not None:
            check_customer(customer)
            if not follow:
                self.store.customer(customer)
        start = self.store.last_event() if after is None else after
        return self._events(start, customer, follow=follow)

    def _events(self, last: int, customer: str | None, *, follow: bool) -> Iterator[Event]:
        woken = Flag()
        with self.store.changes.subscribe(woken.set) as changes:
            while True:
                events = self.store.events(last, customer=customer)
                for event in events:
                    last = event.seq
                    yield event
                if not follow and not events:
                    return
                if follow and not changes.changed():
                    woken.wait(changes.poll_seconds)
                    woken.clear()

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
        newest one, unless `follow` is set. `include` names contents: "text", "markdown", "data".
        """
        if customer is not None:
            self.store.customer(customer)
        parts, number = check_parts(include), event_number(self.store, after)
        return self._results(number, customer, parts, follow=follow)

    def _results(
        self, last: int, customer: str | None, include: tuple[str, ...], *, follow: bool
    ) -> Iterator[EndedDocument]:
        woken = Flag()
        with self.store.changes.subscribe(woken.set) as changes:
            while True:
                changes.changed()
                while portion := self.result_reader.portion(last, PORTION, customer, include):
                    for result in portion:
                        yield self.result_reader.read(result, include)
                    last = int(portion[-1].cursor)
                if not follow:
                    return
                woken.wait(changes.poll_seconds)
                woken.clear()

    def run_until_idle(
        self, workers: int | None = None, *, on_tick: Callable[[], None] = lambda: None
    ) -> None:
        """Process documents until none is left that could run.

        Documents of paused customers stay. Waits for documents that other processes have claimed,
        and for up to half a minute for the end of a temporary failure, such as a full disk.

        Raises:
            TemporarilyUnavailable: the failure lasts longer.
        """
        self.services.engine(workers, on_tick=on_tick).run(until_idle=True)


def _id_of(document: str | Document) -> str:
    return document if isinstance(document, str) else document.id


def _is_pending(document: Document | None) -> bool:
    return document is not None and document.state.is_pending
