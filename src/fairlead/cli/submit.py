"""`fairlead docs submit`: files and folders in, ids out."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import click

from fairlead.app import Fairlead
from fairlead.cli.common import data_option, json_option, print_json, safe
from fairlead.cli.progress import pages_told, progress_bar
from fairlead.core.documents import Document, Event
from fairlead.core.shown import document_json
from fairlead.core.states import State
from fairlead.errors import FairleadError, UnreadableSource, UsageError
from fairlead.intake.intake import check_file
from fairlead.intake.names import check_customer, check_name
from fairlead.settings import Sources

BATCH = 100


@click.command("submit")
@click.argument(
    "paths", type=click.Path(path_type=Path), metavar="PATH...", nargs=-1, required=True
)
@data_option
@click.option("--customer", required=True, help="Whose documents these are.")
@click.option("--name", help="The document's name, if not its file's; for one file.")
@click.option("--urgent", is_flag=True, help="Before the other documents of this customer.")
@click.option("--strict", is_flag=True, default=None, help="Refuse a customer never added.")
@click.option("--skip-bad", is_flag=True, help="Submit the rest when a file cannot be submitted.")
@click.option("--idempotency-key", metavar="KEY", help="Sent again, the same documents come back.")
@click.option("--password", metavar="WORD|-", help="Opens encrypted files; -: read from stdin.")
@click.option("--wait", is_flag=True, help="Wait until the texts are there.")
@json_option
def submit_command(
    *,
    paths: tuple[Path, ...],
    data: Path,
    customer: str,
    name: str | None,
    urgent: bool,
    strict: bool | None,
    skip_bad: bool,
    idempotency_key: str | None,
    password: str | None,
    wait: bool,
    as_json: bool,
) -> None:
    """Submit files, and all files of folders but the hidden ones."""
    check_customer(customer)
    limit = Sources(data).settings().max_document_bytes
    files = _checked(list(_files(paths)), limit, skip_bad=skip_bad)
    _check_new_name(name, len(files))
    with Fairlead(data, must_exist=bool(strict)) as fairlead:
        documents = _submit(
            fairlead,
            [(each, name or each.name) for each in files],
            _Manner(customer, urgent, strict, idempotency_key, _password(password)),
        )
        _say_who_keeps_them_waiting(fairlead, customer)
        try:
            if wait:
                _wait(fairlead, documents)
        finally:  # whoever stops waiting still learns the ids
            now = [fairlead.document(each.id) for each in documents] if wait else documents
            _print(now, as_json=as_json)
    if any(each.state is State.FAILED for each in now):
        sys.exit(1)


def _check_new_name(name: str | None, files: int) -> None:
    if name is not None and files != 1:
        raise UsageError(f"--name names one file; {files} were given")
    if name is not None:
        check_name(name)


class _Manner(NamedTuple):
    """How the documents are submitted."""

    customer: str
    urgent: bool
    strict: bool | None
    key: str | None
    password: str | None


def _password(given: str | None) -> str | None:
    """A password on the command line is seen by others on the machine; from stdin it is not."""
    return sys.stdin.readline().rstrip("\n") if given == "-" else given


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if _is_folder(path):
            yield from _files_in(path)
        else:
            yield path


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # the check of files says what is wrong
        return False


def _files_in(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise UnreadableSource(
            f"folder {error.filename} cannot be read ({error.strerror}); check its permissions"
        )

    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        yield from (Path(parent, each) for each in sorted(names) if not each.startswith("."))


def _checked(files: list[Path], limit: int, *, skip_bad: bool) -> list[Path]:
    """The files that can be submitted. Without `skip_bad`, one that cannot refuses them all."""
    good = []
    for file in files:
        try:
            check_file(file, limit)
        except FairleadError as error:
            if not skip_bad and len(files) == 1:
                raise
            if not skip_bad:
                raise type(error)(f"{error}, or leave such files out with --skip-bad") from None
            click.echo(f"skipped: {safe(str(error))}", err=True)
        else:
            good.append(file)
    if not good:
        raise UsageError("no file to submit was found; name files, or folders that have some")
    return good


def _submit(fairlead: Fairlead, files: list[tuple[Path, str]], manner: _Manner) -> list[Document]:
    """Submit in batches, each as a whole; with a key, all in one."""
    size = len(files) if manner.key else BATCH
    accepted: list[Document] = []
    with progress_bar() if len(files) > 1 else nullcontext() as bar:
        task = bar.add_task("submitted", total=len(files)) if bar else None
        try:
            for start in range(0, len(files), size):
                accepted += fairlead.submit_many(
                    manner.customer,
                    files[start : start + size],
                    urgent=manner.urgent,
                    strict=manner.strict,
                    idempotency_key=manner.key,
                    password=manner.password,
                )
                if bar is not None and task is not None:
                    bar.update(task, completed=len(accepted))
        except (FairleadError, KeyboardInterrupt):
            if accepted:
                click.echo(
                    f"{len(accepted)} of {len(files)} documents were accepted before this; "
                    "they stay",
                    err=True,
                )
            raise
    return accepted


def _say_who_keeps_them_waiting(fairlead: Fairlead, customer: str) -> None:
    if fairlead.customer(customer).paused:
        click.echo(
            f"customer {safe(customer)} is paused; resume it: "
            f"fairlead customers resume {shlex.quote(customer)}",
            err=True,
        )
    if fairlead.folder.server_pid() is None:
        click.echo(
            "no worker runs on this data folder; start one in another terminal: "
            f"fairlead worker --data {shlex.quote(str(fairlead.folder.path))}",
            err=True,
        )


def _wait(fairlead: Fairlead, documents: list[Document]) -> None:
    names = {each.id: each.name for each in documents}
    seen = fairlead.store.last_event()
    with progress_bar() as bar:
        task = bar.add_task("read", total=len(names))

        def show(left: int) -> None:
            nonlocal seen
            bar.update(task, completed=len(names) - left)
            while events := fairlead.events(seen):
                seen = events[-1].seq
                for id_, words in pages_told(_of(names, events)).items():
                    text = f"{names[id_]}: {words}" if words else ""
                    bar.update(task, description=safe(f"read  {text}").strip())

        fairlead.wait(names, on_progress=show)


def _of(ids: Container[str | None], events: Iterable[Event]) -> Iterator[Event]:
    return (event for event in events if event.document in ids)


def _print(documents: list[Document], *, as_json: bool) -> None:
    if as_json:
        print_json({"documents": [document_json(each) for each in documents]})
        return
    for each in documents:
        what = each.detail or _amount(each) or f"priority {each.priority}"
        click.echo(f"{each.id}  {each.state:<10} {safe(each.name)}  {safe(what)}")


def _amount(document: Document) -> str | None:
    """How much was read; None until it is done."""
    words = document.facts.get("words")
    return None if words is None else f"{words:,} words"
