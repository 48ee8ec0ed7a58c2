"""`fairlead docs export`: write the results of documents to a folder, incrementally."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.completion import complete_customers
from fairlead.cli.options import NonEmptyPath
from fairlead.cli.output import counted, safe
from fairlead.cli.progress import progress_bar
from fairlead.cli.target import Target, open_target, target_options
from fairlead.errors import DataError, NotReady, UnknownDocument, UsageError
from fairlead.model.documents import EndedDocument
from fairlead.model.json import to_dict
from fairlead.model.names import check_customer, check_name, with_ending
from fairlead.model.states import State

if TYPE_CHECKING:
    from fairlead.model.installation import Installation

STATE_FILE = ".fairlead-export.json"
"""Has the cursor from which the next export into the folder continues."""
SAVED_EVERY = 100
"""Results between two writes of that file; after a crash, at most so many are written again."""
LONGEST_NAME = 200
"""Bytes of a document's name in a file name; file systems allow 255 in all."""
ENDINGS = {"text": ".txt", "markdown": ".md", "json": ".json"}


@click.command("export")
@target_options
@click.option(
    "--customer",
    shell_complete=complete_customers,
    help="Only results of this customer; a customer's API key implies it.",
)
@click.option(
    "--to", "folder", type=NonEmptyPath(), metavar="DIR", required=True, help="Folder to write to."
)
@click.option("--markdown", is_flag=True, help="Write Markdown instead of text.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON: the document and its results.")
@click.option("--files", is_flag=True, help="Write the files of each result, in a folder of it.")
def export_command(
    *,
    target: Target,
    customer: str | None,
    folder: Path,
    markdown: bool,
    as_json: bool,
    files: bool,
) -> None:
    """Write the texts of all documents that are done to a folder.

    Run it again to continue: only results since the last run are written.
    """
    if markdown and as_json:
        raise UsageError("give --markdown or --json, not both; JSON contains the Markdown")
    if customer is not None:
        check_customer(customer)
    form = "markdown" if markdown else "json" if as_json else "text"
    source = str(target.data.absolute()) if target.url is None else target.url
    extent = "texts and files" if files else "texts"
    settings = {"source": source, "customer": customer, "form": form, "extent": extent}
    export = _Export(folder, settings)
    with open_target(target) as installation:
        states = export.run(installation)
    damaged, done = states.pop("damaged", 0), states.pop(State.DONE, 0)
    others = "".join(f"; {number:,} {state}" for state, number in sorted(states.items()))
    click.echo(safe(f"{counted(done, 'result')} written to {folder}{others}"), err=True)
    if damaged:
        raise DataError(
            f"{counted(damaged, 'text')} could not be read; restore them from a backup, see: "
            "fairlead doctor"
        )


class _Export:
    """Writes results to a folder, with the cursor of the last one."""

    def __init__(self, folder: Path, settings: dict[str, str | None]) -> None:
        self._folder = folder
        self._settings = settings
        self._state = folder / STATE_FILE

    def run(self, installation: Installation) -> Counter[str]:
        """Write the new results; return how many documents ended in each state."""
        states: Counter[str] = Counter()
        self._folder.mkdir(parents=True, exist_ok=True)
        cursor = self._cursor()
        try:
            for result in self._results(installation, cursor):
                if result.files and self._settings["extent"] == "texts and files":
                    self._write_files(result, installation)
                states[self._write(result)] += 1
                cursor = result.cursor
                if states.total() % SAVED_EVERY == 0:
                    self._save(cursor)
        finally:  # also after an error or a signal
            self._save(cursor)
        return states

    def _results(self, installation: Installation, cursor: str | None) -> Iterator[EndedDocument]:
        form = self._settings["form"]
        include = ("text", "markdown", "data") if form == "json" else (str(form),)
        customer = self._settings["customer"]
        with progress_bar() as bar:
            task = bar.add_task("exported", total=None)
            for result in installation.results(after=cursor, customer=customer, include=include):
                yield result
                bar.advance(task)

    def _cursor(self) -> str | None:
        """The cursor of the last export into this folder; UsageError if it had other settings."""
        if not self._state.exists():
            return None
        try:
            state: dict[str, Any] = json.loads(self._state.read_text("utf-8"))
            cursor: str | None = state.pop("cursor")
        except (ValueError, KeyError, AttributeError):
            raise DataError(f"{self._state} cannot be read; export to another folder") from None
        if state != self._settings:
            differs = [name for name in self._settings if state.get(name) != self._settings[name]]
            raise UsageError(
                f"{self._folder} has an export of another {differs[0]}: "
                f"{state.get(differs[0]) or 'all'}; export to another folder"
            )
        return cursor

    def _save(self, cursor: str | None) -> None:
        state = json.dumps(self._settings | {"cursor": cursor}) + "\n"
        self._replace(self._state, state.encode())

    def _write(self, result: EndedDocument) -> str:
        """Write the file of a result, if it has one; return its state, or `damaged`."""
        form = str(self._settings["form"])
        path = self._folder / with_ending(_name(result), ENDINGS[form])
        text = result.markdown if form == "markdown" else result.text
        if form == "json":
            content = json.dumps(to_dict(result), indent=2, ensure_ascii=False) + "\n"
            self._replace(path, content.encode())
        elif result.state is State.DONE and text is not None:
            self._replace(path, text.encode())
        return "damaged" if result.state is State.DONE and text is None else result.state.value

    def _write_files(self, document: EndedDocument, installation: Installation) -> None:
        """Write the files of a result, unless the document was deleted or retried meanwhile."""
        with suppress(NotReady, UnknownDocument):
            result = installation.result(document.id)
            folder = self._folder / self._folder_name(document)
            folder.mkdir(exist_ok=True)
            for file in result.files:
                self._replace(folder / check_name(file.name), result.file(file.name))

    def _folder_name(self, document: EndedDocument) -> str:
        """The document's name, without an ending that its text has, too."""
        name, ending = _name(document), ENDINGS[str(self._settings["form"])]
        return name[: -len(ending)] if with_ending(name, ending) == name else name

    def _replace(self, path: Path, content: bytes) -> None:
        """Write a file atomically."""
        part = self._folder / f".{secrets.token_hex(8)}.part"
        try:
            part.write_bytes(content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _name(document: EndedDocument) -> str:
    """The document's id and name: names are unique, and files sort by acceptance."""
    name = document.name.encode("utf-8", "replace")[:LONGEST_NAME].decode("utf-8", "ignore")
    return f"{document.id}-{name}"
