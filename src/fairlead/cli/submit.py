"""`fairlead docs submit`: submit files and folders, print ids."""

from __future__ import annotations

import shlex
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from fairlead.cli.completion import complete_customers
from fairlead.cli.options import (
    STDIN,
    NonEmptyPath,
    json_option,
    metadata_of,
    password_option,
    quiet_option,
    read_password,
    stdin_file,
)
from fairlead.cli.output import counted, print_json, print_lines, safe
from fairlead.cli.progress import page_progress, progress_bar
from fairlead.cli.submit_files import NamedFile, UploadLimits, batches_of, size_of
from fairlead.cli.target import Target, open_target, target_options
from fairlead.config.settings import Sources
from fairlead.errors import (
    NotReady,
    Refused,
    UnknownDocument,
    UsageError,
)
from fairlead.model.documents import Document
from fairlead.model.json import to_dict
from fairlead.model.names import check_customer, check_name
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.model.states import State
from fairlead.model.submissions import submission_options
from fairlead.model.usage import Me

if TYPE_CHECKING:
    from fairlead.app import Fairlead
    from fairlead.client import Client
    from fairlead.model.installation import Installation

BATCH = 100
"""Documents that a data folder accepts in one transaction."""
UPLOAD_OVERHEAD = 100_000
"""Bytes of a request beyond its documents, such as their names."""
LARGE = 10_000_000
"""The upload of a single file of more bytes shows its progress."""
MOST_LINES = 20
"""Of more documents, a terminal gets a summary instead of a line each."""


@click.command("submit")
@click.argument("paths", type=NonEmptyPath(), metavar="PATH...", nargs=-1, required=True)
@target_options
@click.option(
    "--customer",
    shell_complete=complete_customers,
    help="Customer of the documents; a customer's API key implies it.",
)
@click.option("--name", help="Name of the document; only for one file.  [default: the file name]")
@click.option("--pipeline", default=DEFAULT_PIPELINE, help="Pipeline that processes the documents.")
@click.option(
    "--metadata",
    multiple=True,
    metavar="KEY=VALUE|JSON",
    help="Your own data about the documents, up to 4 kB; may be repeated.",
)
@click.option("--reference", help="Your own id of the documents.")
@click.option("--batch", metavar="ID", help="Add the documents to this batch.")
@click.option(
    "--not-before",
    metavar="TIME|DELAY",
    help="Earliest start: a time such as 2026-01-31T12:00:00Z, or a delay such as 90 (s) or 2h.",
)
@click.option("--urgent", is_flag=True, help="Process before the customer's other documents.")
@click.option("--strict", is_flag=True, default=None, help="Refuse a customer that was not added.")
@click.option("--skip-bad", is_flag=True, help="Skip files that cannot be submitted.")
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Resubmitting with the same key returns the same documents.",
)
@password_option
@click.option("--wait", is_flag=True, help="Wait until processing has ended.")
@quiet_option
@json_option
def submit_command(
    *,
    paths: tuple[Path, ...],
    target: Target,
    customer: str | None,
    name: str | None,
    urgent: bool,
    strict: bool | None,
    skip_bad: bool,
    idempotency_key: str | None,
    password: str | None,
    metadata: tuple[str, ...],
    wait: bool,
    quiet: bool,
    as_json: bool,
    **named: Any,
) -> None:
    """Submit files, and all files of folders except hidden ones. PATH -: read stdin."""
    checked = {name: value for name, value in named.items() if name != "batch"}
    submission_options(metadata=metadata_of(metadata), **checked)  # refuses before reading files
    limits = _limits(target, customer, is_one_batch=idempotency_key is not None)
    if name is not None:
        check_name(name)
    most = limits.document_bytes + 1
    paths = tuple(stdin_file(most, password) if path == STDIN else path for path in paths)
    batches = batches_of(paths, limits, name, skip_bad=skip_bad)
    if idempotency_key is not None and len(batches) > 1:
        raise Refused(
            "with an idempotency key all files are sent in one request, which may have at most "
            f"{limits.documents:,} files and {limits.bytes:,} bytes; submit fewer at a time, "
            "each time with another key"
        )
    options = named | {
        "metadata": metadata_of(metadata),
        "urgent": urgent,
        "idempotency_key": idempotency_key,
        "password": read_password(password),
    }
    options |= {"customer": customer} | ({"strict": strict} if target.url is None else {})
    documents = accepted = list[Document]()
    texts: dict[str, str] | None = None
    with open_target(target, may_create=not strict) as installation:
        try:
            with _exit_on_sigterm():
                _submit(target, installation, batches, options, accepted)
                if target.url is None:
                    _print_hints(cast("Fairlead", installation), accepted[0].customer)
                if wait:
                    documents = wait_for(target, installation, accepted)
                    texts = _texts(installation, documents) if as_json else None
        finally:  # also after an error or a signal, print the ids of accepted documents
            if accepted:
                _print(documents, as_json=as_json, quiet=quiet, texts=texts)
    if any(document.state is State.FAILED for document in documents):
        sys.exit(1)


def _limits(target: Target, customer: str | None, *, is_one_batch: bool) -> UploadLimits:
    """The limits of the target, after a check that the customer may submit there."""
    if target.url is not None:
        with open_target(target) as installation:
            return _server_limits(cast("Client", installation).me(), customer)
    if customer is None:
        raise UsageError("name the customer of the documents: --customer NAME")
    check_customer(customer)
    most = Sources(target.data).settings().max_document_bytes
    return UploadLimits(most, sys.maxsize if is_one_batch else BATCH, sys.maxsize)


def _server_limits(me: Me, customer: str | None) -> UploadLimits:
    if me.customer is None and customer is None:
        raise UsageError("this API key submits for many customers; name one: --customer NAME")
    if None not in (customer, me.customer) and customer != me.customer:
        raise UsageError(
            f"the API key belongs to customer {me.customer!r}, not {customer!r}; "
            "leave out --customer, or use another key"
        )
    most = me.limits.max_upload_bytes - UPLOAD_OVERHEAD
    return UploadLimits(me.limits.max_document_bytes, me.limits.max_upload_files, most)


def _print_hints(fairlead: Fairlead, customer: str) -> None:
    """Print why new documents wait: their customer is paused, or no worker is running."""
    if fairlead.customers.show(customer).paused:
        command = f"fairlead customers resume {shlex.quote(customer)}"
        click.echo(safe(f"customer {customer} is paused; resume it: {command}"), err=True)
    if fairlead.folder.server_pid() is None:
        command = f"fairlead worker --data {shlex.quote(str(fairlead.folder.path))}"
        text = "no worker is running on this data folder; start one in another terminal"
        click.echo(safe(f"{text}: {command}"), err=True)


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Turns SIGTERM into SystemExit, so that `finally` still prints."""
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _submit(
    target: Target,
    installation: Installation,
    batches: list[list[NamedFile]],
    options: dict[str, Any],
    accepted: list[Document],
) -> None:
    """Submit the batches; after an error, `accepted` has the documents of those before."""
    number = sum(map(len, batches))
    is_long = number > 1 or size_of(batches[0]) > LARGE
    try:
        with _bar(number) if is_long else nullcontext(lambda *_progress: None) as show:
            for batch in batches:
                on_sent = partial(show, len(accepted), size_of(batch))
                on_sent(0)
                extra: dict[str, Any] = {} if target.url is None else {"on_sent": on_sent}
                accepted += installation.submit_many(sources=batch, **options, **extra)
    finally:
        if 0 < len(accepted) < number:
            click.echo(
                f"{len(accepted)} of {number} documents were accepted before this error",
                err=True,
            )


@contextmanager
def _bar(number: int) -> Iterator[Callable[[int, int, int], None]]:
    """A progress bar of accepted documents, with the part of the next batch that is sent."""
    with progress_bar() as progress:
        task = progress.add_task("submitted", total=number)

        def show(accepted: int, size: int, sent: int) -> None:
            text = f"submitted  {min(sent / size, 1):.0%} sent" if sent else "submitted"
            progress.update(task, completed=accepted, description=text)

        yield show


def wait_for(
    target: Target, installation: Installation, accepted: list[Document]
) -> list[Document]:
    """Wait until the documents have ended; return those that were not deleted meanwhile."""
    names = {document.id: document.name for document in accepted}
    is_local = target.url is None
    pages = _page_progress(cast("Fairlead", installation), names) if is_local else repeat("")
    documents: list[Document] = []
    with progress_bar() as bar:
        task = bar.add_task("read", total=len(names))

        def show(_left: int) -> None:
            description = safe(f"read  {next(pages)}").strip()
            bar.update(task, completed=len(documents), description=description)

        try:
            for id_ in names:
                with suppress(UnknownDocument):
                    documents += installation.wait([id_], on_progress=show)
        except KeyboardInterrupt:
            click.echo("stopped waiting; the documents stay in the queue", err=True)
            raise
    for id_ in names.keys() - {document.id for document in documents}:
        click.echo(safe(f"{id_}  {names[id_]} was deleted meanwhile"), err=True)
    return documents


def _page_progress(fairlead: Fairlead, names: Mapping[str, str]) -> Iterator[str]:
    """Yields the newest progress of these documents, as text."""
    last_event, text = fairlead.store.last_event(), ""
    while True:
        while events := fairlead.store.events(last_event):
            last_event = events[-1].seq
            own = (event for event in events if event.document in names)
            for id_, pages in page_progress(own).items():
                text = f"{names[id_]}: {pages}" if pages else ""
        yield text


def _texts(installation: Installation, documents: list[Document]) -> dict[str, str]:
    """The texts of the documents that are done, by id."""
    texts = {}
    for document in documents:
        with suppress(NotReady, UnknownDocument):  # it was deleted or retried meanwhile
            if document.state is State.DONE:
                texts[document.id] = installation.text(document.id)
    return texts


def _print(
    documents: list[Document], *, as_json: bool, quiet: bool, texts: dict[str, str] | None
) -> None:
    """Print the documents; with `texts`, their JSON includes them."""
    if as_json and texts is not None:
        print_json({"documents": [to_dict(d) | {"text": texts.get(d.id)} for d in documents]})
        return
    if as_json:
        print_json({"documents": documents})
        return
    if quiet:
        print_lines(document.id for document in documents)
        return
    if len(documents) > MOST_LINES:
        click.echo(safe(_summary(documents)), err=True)
        if sys.stdout.isatty():
            failed = (document for document in documents if document.state is State.FAILED)
            documents = list(islice(failed, MOST_LINES))
    for document in documents:
        words = document.facts.get("words")  # absent until it is done
        amount = f"priority {document.priority}" if words is None else counted(words, "word")
        detail = safe(document.detail or amount)
        click.echo(f"{document.id}  {document.state:<10} {safe(document.name)}  {detail}")


def _summary(documents: list[Document]) -> str:
    """The number of documents in each state, and their priorities."""
    states = Counter(document.state.value for document in documents)
    priorities = sorted({document.priority for document in documents})
    span = str(priorities[0]) + (f" to {priorities[-1]}" if len(priorities) > 1 else "")
    command = f"fairlead docs list --customer {shlex.quote(documents[0].customer)}"
    parts = ", ".join(f"{number:,} {state}" for state, number in states.items())
    return f"{counted(len(documents), 'document')}: {parts}; priority {span}; see: {command}"
