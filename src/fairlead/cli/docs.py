"""`fairlead docs`: submit, list, cancel and retry documents, and print their texts."""

from __future__ import annotations

import os
from functools import partial

import click

from fairlead.cli.common import (
    duration,
    json_option,
    one_by_one,
    print_fields,
    print_json,
    print_table,
    safe,
)
from fairlead.cli.installation import DocumentQuery
from fairlead.cli.submit import submit_command
from fairlead.cli.target import Target, opened, target_options
from fairlead.i18n import language_of, translator
from fairlead.model.documents import Document, Page
from fairlead.model.json import to_dict
from fairlead.model.names import check_customer
from fairlead.model.states import State
from fairlead.policy.explain import spoken, words

MOST = 1_000_000_000
"""The largest number that an option takes."""


@click.group("docs")
def docs_group() -> None:
    """Submit, list, cancel and retry documents, and print their texts."""


docs_group.add_command(submit_command)


@docs_group.command("list")
@target_options
@click.option("--customer", help="Only documents of this customer.")
@click.option(
    "--state",
    type=click.Choice([each.value for each in State]),
    help="Only documents in this state.",
)
@click.option("--priority", type=click.IntRange(1, MOST), help="Only documents of this priority.")
@click.option("--parent", metavar="ID", help="Only attachments and members of this document.")
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
@json_option
def list_command(
    *,
    target: Target,
    customer: str | None,
    state: str | None,
    priority: int | None,
    parent: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List documents, newest first."""
    if customer is not None:
        check_customer(customer)
    with opened(target) as installation:
        asked = DocumentQuery(customer, state, priority, parent, cursor, limit)
        shown, following = installation.page(asked)
        now = installation.now()
    if as_json:
        print_json(Page(shown, following))
        return
    columns = ["id", "customer", "name", "state", "priority", "count", "waited", "error"]
    print_table(columns, [_row(each, now) for each in shown], empty="no documents")
    if following:
        click.echo(f"next page: --cursor {following}", err=True)


@docs_group.command("show")
@click.argument("id_", metavar="ID")
@target_options
@json_option
def show_command(*, id_: str, target: Target, as_json: bool) -> None:
    """Show a document."""
    with opened(target) as installation:
        document = installation.document(id_)
    if as_json:
        print_json(document)
    else:
        print_fields(to_dict(document))


@docs_group.command("why")
@click.argument("id_", metavar="ID")
@target_options
@json_option
def why_command(*, id_: str, target: Target, as_json: bool) -> None:
    """Explain a document's priority and place in the queue."""
    with opened(target) as installation:
        found, now = installation.why(id_), installation.now()
        said = translator(installation.language() or language_of(os.environ))
    if as_json:
        print_json(spoken(found, words, with_others=True))
        return
    for reason in found.reasons:
        click.echo(safe(said.reason(reason)))
    if found.ahead is not None and found.ahead.most:
        click.echo(safe(said.most_ahead(found.ahead.most)))
    if found.forecast is not None:
        click.echo(said.forecast(found.forecast, now))


@docs_group.command("text")
@click.argument("id_", metavar="ID")
@target_options
@click.option("--markdown", is_flag=True, help="Print Markdown with headings, lists and tables.")
def text_command(*, id_: str, target: Target, markdown: bool) -> None:
    """Print the text of a document that is done."""
    with opened(target) as installation:
        text = installation.text(id_, markdown=markdown)
    click.echo(text, nl=not text.endswith("\n"))


@docs_group.command("cancel")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@target_options
@json_option
def cancel_command(*, ids: tuple[str, ...], target: Target, as_json: bool) -> None:
    """Cancel pending documents."""
    with opened(target) as installation:
        one_by_one(ids, installation.cancel, partial(_print_states, as_json=as_json))


@docs_group.command("retry")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@target_options
@json_option
def retry_command(*, ids: tuple[str, ...], target: Target, as_json: bool) -> None:
    """Retry failed or cancelled documents."""
    with opened(target) as installation:
        one_by_one(ids, installation.retry, partial(_print_states, as_json=as_json))


def _print_states(documents: list[Document], *, as_json: bool) -> None:
    if as_json:
        print_json({"documents": documents})
        return
    for each in documents:
        click.echo(f"{each.id}  {each.state}")


def _row(document: Document, now: float) -> list[str]:
    # A wait ends with the start; of a document that never started, with its end.
    until = document.started_at or document.finished_at or now
    return [
        document.id,
        document.customer,
        document.name,
        document.state.value,
        str(document.priority),
        str(document.count).replace("-", "−"),
        duration(max(0.0, until - document.submitted_at)),
        document.error or "",
    ]
