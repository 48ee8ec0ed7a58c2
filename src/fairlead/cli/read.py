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
                yield _failure(path, error.code, str(error))
                continue
            if isinstance(outcome, Extraction):
                yield _success(path, outcome)
            else:
                yield _failure(path, outcome.code, outcome.detail, getattr(outcome, "kind", None))


def _success(path: Path, extraction: Extraction) -> dict[str, Any]:
    text, markdown = extraction.text, extraction.markdown
    return {
        "name": str(path),
        "kind": extraction.kind,
        "text": text,
        "markdown": text if markdown is None else markdown,
        "facts": dict(extraction.facts),
        "error": None,
        "detail": None,
    }


def _failure(path: Path, code: str, detail: str, kind: str | None = None) -> dict[str, Any]:
    return {
        "name": str(path),
        "kind": kind,
        "text": None,
        "markdown": None,
        "facts": {},
        "error": code,
        "detail": detail,
    }
