"""`fairlead read`: read files without a store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from fairlead.cli.options import (
    STDIN,
    NonEmptyPath,
    no_url_option,
    password_option,
    read_password,
    stdin_file,
)
from fairlead.cli.output import print_json_line, safe
from fairlead.errors import Refused
from fairlead.intake import check_file
from fairlead.worker.file_reader import FileReader
from fairlead.worker.sandbox.answer import Extraction


@click.command("read")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=NonEmptyPath())
@no_url_option
@click.option("--markdown", is_flag=True, help="Print Markdown with headings, lists and tables.")
@password_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per file and line.")
def read_command(
    *, paths: tuple[Path, ...], markdown: bool, password: str | None, as_json: bool
) -> None:
    """Read files and print their texts, without a data folder; exit code 1 if one fails.

    FILE -: read stdin.
    """
    failed = False
    paths = tuple(stdin_file(-1, password) if path == STDIN else path for path in paths)
    for record in _records(paths, read_password(password)):
        if record["error"] is not None:
            failed = True
            click.echo(f"fairlead: {_reason(record)}", err=True)
        elif not as_json:
            if len(paths) > 1:
                click.echo(safe(f"==> {record['name']} <=="))
            text = record["markdown" if markdown else "text"]
            click.echo(text, nl=not text.endswith("\n"))
        if as_json:
            print_json_line(record)
    if failed:
        sys.exit(1)


def _reason(record: dict[str, Any]) -> str:
    """The sentence, with the file's name before it unless it has that already."""
    name, detail = record["name"], record["detail"]
    return safe(detail if name in detail else f"{name}: {detail}")


def _records(paths: tuple[Path, ...], password: str | None) -> Iterator[dict[str, Any]]:
    with FileReader() as reader:
        for path in paths:
            try:
                check_file(path, sys.maxsize, name=path.name)
                outcome = reader.read(path, password)
            except Refused as error:
                yield _record(path, error=error.code, detail=str(error))
                continue
            kind = getattr(outcome, "kind", None)
            if isinstance(outcome, Extraction):
                text, markdown = outcome.text, outcome.markdown
                texts = {"text": text, "markdown": text if markdown is None else markdown}
                yield _record(path, kind=kind, facts=dict(outcome.facts), **texts)
            else:
                yield _record(path, kind=kind, error=outcome.code, detail=outcome.detail)


def _record(path: Path, **fields: Any) -> dict[str, Any]:
    """A record of one file, with None for other fields."""
    names = ("kind", "text", "markdown", "facts", "error", "detail")
    return {"name": str(path)} | dict.fromkeys(names) | {"facts": {}} | fields
