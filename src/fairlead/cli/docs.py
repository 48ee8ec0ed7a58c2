"""`fairlead docs`: submit, list, cancel, retry, delete, download documents; print texts."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from fairlead.cli.completion import complete_customers, complete_documents
from fairlead.cli.export import export_command
from fairlead.cli.options import (
    NonEmptyPath,
    json_option,
    metadata_of,
    password_option,
    quiet_option,
    read_password,
)
from fairlead.cli.output import (
    counted,
    duration,
    one_by_one,
    plain_minus,
    print_deleted,
    print_fields,
    print_json,
    print_lines,
    print_table,
    safe,
)
from fairlead.cli.submit import submit_command
from fairlead.cli.target import Target, full_id, language, open_target, target_options
from fairlead.errors import NotAllowed, UsageError
from fairlead.i18n import language_of, translator
from fairlead.model.documents import Document, Page, full_name
from fairlead.model.installation import Installation
from fairlead.model.json import to_dict
from fairlead.model.names import check_customer
from fairlead.model.states import State
from fairlead.policy.explain import with_words, words
from fairlead.policy.failures import Remedy, may_succeed, remedy

MOST = 1_000_000_000
"""The largest number that an option takes."""
PAGE = 1000
"""Documents that a server lists in one response."""


@click.group("docs")
def docs_group() -> None:
    """Submit, list, cancel, retry, delete and download documents; print and export their texts."""


docs_group.add_command(submit_command)
docs_group.add_command(export_command)


@docs_group.command("list")
@target_options
@click.option(
    "--customer", shell_complete=complete_customers, help="Only documents of this customer."
)
@click.option(
    "--state",
    type=click.Choice([state.value for state in State]),
    help="Only documents in this state.",
)
@click.option("--priority", type=click.IntRange(1, MOST), help="Only documents of this priority.")
@click.option("--pipeline", metavar="NAME", help="Only documents of this pipeline.")
@click.option("--parent", metavar="ID", help="Only attachments and members of this document.")
@click.option("--reference", help="Only documents with this reference.")
@click.option("--batch", metavar="ID", help="Only documents of this batch.")
@click.option(
    "--metadata",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only documents whose metadata has this; may be repeated.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, MOST),
    default=50,
    show_default=True,
    help="Largest number of documents.",
)
@click.option(
    "--cursor", metavar="ID", help="Continue after the last document of the previous page."
)
@quiet_option
@json_option
def list_command(
    *,
    target: Target,
    customer: str | None,
    metadata: tuple[str, ...],
    limit: int,
    cursor: str | None,
    quiet: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """List documents, newest first."""
    if customer is not None:
        check_customer(customer)
    filters["metadata"] = metadata_of(metadata)
    documents: list[Document] = []
    with open_target(target) as installation:
        while len(documents) < limit:
            size = min(PAGE, limit - len(documents))
            page = installation.documents(customer=customer, cursor=cursor, limit=size, **filters)
            documents += page.items
            cursor = page.next
            if cursor is None:
                break
    if as_json:
        print_json(Page(documents, cursor))
        return
    if quiet:
        print_lines(document.id for document in documents)
        return
    columns = ["id", "state", "customer", "name", "error", "priority", "waited", "count"]
    rows = [_row(document) for document in documents]
    if any(document.parts for document in documents):
        columns.append("parts")
        rows = [[*row, _parts(document)] for row, document in zip(rows, documents, strict=True)]
    print_table(columns, rows, empty="no documents")
    if cursor:
        click.echo(f"next page: --cursor {cursor}", err=True)


@docs_group.command("show")
@click.argument("id_", metavar="ID", shell_complete=complete_documents)
@target_options
@json_option
def show_command(*, id_: str, target: Target, as_json: bool) -> None:
    """Show a document."""
    with open_target(target) as installation:
        document = installation.document(full_id(installation, id_))
        fields = to_dict(document) | _data_or_cause(installation, document)
    if as_json:
        print_json(fields)
        return
    cause, data = fields.pop("cause", ""), fields.pop("data", None)
    print_fields(fields | {"files": {file["name"]: _file_text(file) for file in fields["files"]}})
    _print_lines("data", json.dumps(data, ensure_ascii=False, indent=2) if data else "")
    _print_lines("cause", cause)


def _print_lines(label: str, text: str) -> None:
    for line in [f"{label}:", *text.rstrip().split("\n")] if text else ():
        click.echo(safe(line))


def _file_text(file: dict[str, Any]) -> str:
    return f"{file['media_type']}, {file['size']:,} B"


def _data_or_cause(installation: Installation, document: Document) -> dict[str, Any]:
    """The data of a document that is done; for operators also the cause of a failure."""
    if document.state is State.DONE:
        return {"data": installation.result(document.id).data}
    if document.attempts:
        with suppress(NotAllowed):  # the key is a customer's
            if cause := installation.cause(document.id):
                return {"cause": cause}
    return {}


@docs_group.command("why")
@click.argument("id_", metavar="ID", shell_complete=complete_documents)
@target_options
@json_option
def why_command(*, id_: str, target: Target, as_json: bool) -> None:
    """Explain a document's priority and place in the queue."""
    with open_target(target) as installation:
        explanation = installation.why(full_id(installation, id_))
    if as_json:
        print_json(with_words(explanation, words, with_others=True))
        return
    translated = translator(language(target) or language_of(os.environ))
    for reason in explanation.reasons:
        click.echo(plain_minus(safe(translated.reason(reason))))
    if explanation.ahead is not None and explanation.ahead.most:
        click.echo(safe(translated.most_ahead(explanation.ahead.most)))
    if explanation.forecast is not None:
        click.echo(translated.forecast(explanation.forecast, time.time()))


@docs_group.command("text")
@click.argument("id_", metavar="ID", shell_complete=complete_documents)
@target_options
@click.option("--markdown", is_flag=True, help="Print Markdown with headings, lists and tables.")
def text_command(*, id_: str, target: Target, markdown: bool) -> None:
    """Print the text of a document that is done."""
    with open_target(target) as installation:
        id_ = full_id(installation, id_)
        text = installation.markdown(id_) if markdown else installation.text(id_)
        warnings = [] if text.strip() else installation.document(id_).facts.get("warnings", [])
    click.echo(text, nl=not text.endswith("\n"))
    for warning in warnings:
        click.echo(safe(f"no text: {warning}"), err=True)


_ids_argument = click.argument(
    "ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_documents
)


@docs_group.command("cancel")
@_ids_argument
@target_options
@json_option
def cancel_command(*, ids: tuple[str, ...], target: Target, as_json: bool) -> None:
    """Cancel pending documents."""
    with open_target(target) as installation:
        one_by_one(
            ids,
            lambda id_: installation.cancel(full_id(installation, id_)),
            partial(_print_states, as_json=as_json),
        )


@docs_group.command("retry")
@click.argument("ids", metavar="[ID...]", nargs=-1, shell_complete=complete_documents)
@click.option(
    "--state",
    type=click.Choice([State.FAILED.value, State.CANCELLED.value]),
    help="All documents in this state, but those that no retry helps.",
)
@click.option("--customer", shell_complete=complete_customers, help="With --state: only these.")
@target_options
@password_option
@json_option
def retry_command(
    *,
    ids: tuple[str, ...],
    state: str | None,
    customer: str | None,
    target: Target,
    password: str | None,
    as_json: bool,
) -> None:
    """Process again documents that have ended."""
    if bool(ids) == bool(state):
        raise UsageError("name the documents, or give --state for all in that state")
    if customer is not None and state is None:
        raise UsageError("--customer needs --state; ids name documents without it")
    password = read_password(password)
    with open_target(target) as installation:
        if state is not None:
            documents = installation.documents(customer=customer, state=state, limit=PAGE)
            ids = _retryable(documents, has_password=password is not None)
        one_by_one(
            ids,
            lambda id_: installation.retry(full_id(installation, id_), password=password),
            partial(_print_states, as_json=as_json),
        )


def _retryable(documents: Iterable[Document], *, has_password: bool) -> tuple[str, ...]:
    """The ids of the documents that a retry may help; tells how many are left out, and why."""
    chosen: list[str] = []
    left_out: Counter[str] = Counter()
    for document in documents:
        error = document.error if document.state is State.FAILED else None
        if may_succeed(error, has_password=has_password):
            chosen.append(document.id)
        else:
            left_out[error or ""] += 1
    for code, number in left_out.most_common():
        click.echo(
            f"left out: {counted(number, 'document')} ({code}): {_ADVICE[remedy(code)]}", err=True
        )
    if not chosen:
        click.echo("nothing to retry", err=True)
    return tuple(chosen)


_ADVICE = {
    Remedy.PASSWORD: "give --password",
    Remedy.OTHER_FILE: "a retry cannot succeed; submit another file",
}


@docs_group.command("set")
@click.argument("id_", metavar="ID")
@target_options
@click.option("--urgent/--not-urgent", default=None, help="Process before the others, or not.")
@click.option("--reference", metavar="TEXT|none", help="Your own id of the document.")
@click.option(
    "--metadata",
    multiple=True,
    metavar="KEY=VALUE|JSON",
    help="All metadata from now on; {} removes them.",
)
@json_option
def set_command(
    *,
    id_: str,
    target: Target,
    urgent: bool | None,
    reference: str | None,
    metadata: tuple[str, ...],
    as_json: bool,
) -> None:
    """Change the urgency, metadata or reference of a document."""
    changes: dict[str, Any] = {}
    if urgent is not None:
        changes["urgent"] = urgent
    if reference is not None:
        changes["reference"] = None if reference == "none" else reference
    if metadata:
        changes["metadata"] = metadata_of(metadata)
    with open_target(target) as installation:
        document = installation.change(full_id(installation, id_), **changes)
    _print_states([document], as_json=as_json)


@docs_group.command("delete")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_documents)
@target_options
@json_option
def delete_command(*, ids: tuple[str, ...], target: Target, as_json: bool) -> None:
    """Delete documents with their files and texts; pending ones are cancelled first."""
    with open_target(target) as installation:

        def delete(id_: str) -> str:
            id_ = full_id(installation, id_)
            installation.delete(id_)
            return id_

        one_by_one(ids, delete, partial(print_deleted, as_json=as_json))


@docs_group.command("download")
@click.argument("id_", metavar="ID", shell_complete=complete_documents)
@target_options
@click.option(
    "--output",
    type=NonEmptyPath(),
    metavar="PATH|-",
    help="File to write; -: stdout.  [default: the document's name, unless that file exists]",
)
def download_command(*, id_: str, target: Target, output: Path | None) -> None:
    """Write a document as it was submitted to a file."""
    with open_target(target) as installation:
        document = installation.document(full_id(installation, id_))
        if output == Path("-"):
            sys.stdout.buffer.write(installation.original(document.id))
            return
        path = Path(document.name) if output is None else output
        if output is None and os.path.lexists(path):
            raise UsageError(f"the file {document.name} exists; name another: --output PATH")
        installation.download(document.id, path)
    click.echo(safe(str(path)))


def _print_states(documents: list[Document], *, as_json: bool) -> None:
    if as_json:
        print_json({"documents": documents})
        return
    for document in documents:
        click.echo(f"{document.id}  {document.state}")


def _parts(document: Document) -> str:
    """How many of the parts have ended, of how many."""
    return f"{document.parts_done}/{document.parts}" if document.parts else ""


def _row(document: Document) -> list[str]:
    # The wait of a document that never started lasts until its end.
    until = document.started_at or document.finished_at or time.time()
    return [
        document.id,
        document.state.value,
        document.customer,
        full_name(document),
        document.error or "",
        str(document.priority),
        duration(max(0.0, until - document.submitted_at)),
        str(document.count),
    ]
