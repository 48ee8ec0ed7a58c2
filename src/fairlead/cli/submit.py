"""`fairlead docs submit`: submit files and folders, print ids."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from fairlead.cli.common import GivenPath, counted, json_option, print_json, safe
from fairlead.cli.installation import Batches, Installation, SubmitOptions
from fairlead.cli.progress import progress_bar
from fairlead.cli.target import Target, opened, target_options
from fairlead.errors import FairleadError, Refused, UnknownDocument, UnreadableSource, UsageError
from fairlead.intake.names import check_name
from fairlead.intake.sources import check_file
from fairlead.model.documents import Document
from fairlead.model.states import State

Named = tuple[Path, str]
"""A file, and the name that its document is to have."""
LARGE = 10_000_000
"""Bytes of which one may want to see how they go."""


@click.command("submit")
@click.argument("paths", type=GivenPath(), metavar="PATH...", nargs=-1, required=True)
@target_options
@click.option("--customer", help="Customer of the documents; a customer's API key implies it.")
@click.option("--name", help="Name of the document; only for one file.  [default: the file name]")
@click.option("--urgent", is_flag=True, help="Process before the customer's other documents.")
@click.option("--strict", is_flag=True, default=None, help="Refuse a customer that was not added.")
@click.option("--skip-bad", is_flag=True, help="Skip files that cannot be submitted.")
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Resubmitting with the same key returns the same documents.",
)
@click.option(
    "--password", metavar="PASSWORD|-", help="Password of encrypted files; -: read from stdin."
)
@click.option("--wait", is_flag=True, help="Wait until processing has ended.")
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
    wait: bool,
    as_json: bool,
) -> None:
    """Submit files, and all files of folders except hidden ones."""
    options = SubmitOptions(customer, urgent, strict, idempotency_key)
    with opened(target) as installation:
        batches = installation.batches(options)
        _check_new_name(name)
        found = list(_files(paths, skip_bad=skip_bad))
        files = _checked(found, batches.document_bytes, name, skip_bad=skip_bad)
        if name is not None and len(files) != 1:
            raise UsageError(f"--name requires exactly one file; got {len(files)}")
        split = _split([(each, name or each.name) for each in files], batches, options)
        options = options._replace(password=_password(password))
        documents = accepted = list[Document]()
        try:
            with _ended_tidily():
                _submit(installation, split, options, accepted)
                for hint in installation.hints(accepted):
                    click.echo(safe(hint), err=True)
                if wait:
                    documents = _waited_for(installation, accepted)
        finally:  # whoever is refused or stopped still learns the ids of what stays
            if accepted:
                _print(documents, as_json=as_json)
    if any(each.state is State.FAILED for each in documents):
        sys.exit(1)


@contextmanager
def _ended_tidily() -> Iterator[None]:
    """Lets who is told to end say what there is to say first."""
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_new_name(name: str | None) -> None:
    if name is not None:
        check_name(name)


def _password(given: str | None) -> str | None:
    """A password on the command line is seen by others on the machine; from stdin it is not."""
    return sys.stdin.readline().rstrip("\n") if given == "-" else given


def _files(paths: Sequence[Path], *, skip_bad: bool) -> Iterator[Path]:
    for path in paths:
        if _is_folder(path):
            yield from _files_in(path, skip_bad=skip_bad)
        else:
            yield path


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # the check of files says what is wrong
        return False


def _files_in(folder: Path, *, skip_bad: bool) -> Iterator[Path]:
    """The files of a folder and of those inside, but not of those that it only links to."""

    def leave_out(error: OSError) -> None:
        _leave_out(
            UnreadableSource(
                f"folder {error.filename} cannot be read ({error.strerror}); check its permissions"
            ),
            skip_bad=skip_bad,
        )

    for parent, folders, names in os.walk(folder, onerror=leave_out):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        _tell_of_links(Path(parent, each) for each in folders)
        yield from (Path(parent, each) for each in sorted(names) if not each.startswith("."))


def _tell_of_links(folders: Iterable[Path]) -> None:
    """A link may lead out of the folder, or round in a circle: whoever means it names it."""
    for each in folders:
        if each.is_symlink():
            _tell_skipped(f"{each} is a link to a folder; name it to submit its files")


def _leave_out(error: FairleadError, *, skip_bad: bool) -> None:
    """Name what is left out or, without `skip_bad`, refuse it."""
    if not skip_bad:
        raise type(error)(f"{error}, or skip such files with --skip-bad") from None
    _tell_skipped(str(error))


def _tell_skipped(what: str) -> None:
    click.echo(f"skipped: {safe(what)}", err=True)


def _checked(files: list[Path], limit: int, name: str | None, *, skip_bad: bool) -> list[Path]:
    """The files that can be submitted. Without `skip_bad`, one that cannot refuses them all."""
    good = []
    for file in files:
        try:
            check_file(file, limit, name)
        except FairleadError as error:
            if not skip_bad and len(files) == 1:
                raise
            _leave_out(error, skip_bad=skip_bad)
        else:
            good.append(file)
    if not good:
        raise UsageError("no files to submit; name files, or folders that contain some")
    return good


def _split(files: list[Named], batches: Batches, options: SubmitOptions) -> list[list[Named]]:
    """The files in batches, each accepted as a whole; with a key, all in one or refused."""
    found: list[list[Named]] = []
    room = 0
    for file in files:
        size = file[0].stat().st_size
        if not found or len(found[-1]) >= batches.documents or size > room:
            found.append([])
            room = batches.bytes
        found[-1].append(file)
        room -= size
    if options.key is not None and len(found) > 1:
        raise Refused(
            "with an idempotency key all files are sent in one request, which may have at most "
            f"{batches.documents:,} files and {batches.bytes:,} bytes; submit fewer at a time, "
            "each time with another key"
        )
    return found


def _submit(
    installation: Installation,
    batches: list[list[Named]],
    options: SubmitOptions,
    accepted: list[Document],
) -> None:
    """Submit one batch after the other; `accepted` has what was, however this ends."""
    number = sum(map(len, batches))
    try:
        with _Bar() if number > 1 or _size(batches[0]) > LARGE else nullcontext() as bar:
            for batch in batches:
                tell = bar.begin(number, len(accepted), _size(batch)) if bar else _tell_nobody
                accepted += installation.submit(batch, options, tell)
    finally:
        if 0 < len(accepted) < number:
            click.echo(
                f"{len(accepted)} of {number} documents were accepted before this error",
                err=True,
            )


def _size(batch: list[Named]) -> int:
    return sum(path.stat().st_size for path, _ in batch)


def _tell_nobody(_sent: int) -> None:
    """Of what is soon done."""


class _Bar:
    """How many documents were submitted, and how much of those under way has gone out."""

    def __enter__(self) -> _Bar:
        self._progress = progress_bar()
        self._task = self._progress.add_task("submitted")
        self._progress.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._progress.stop()

    def begin(self, number: int, accepted: int, size: int) -> Callable[[int], None]:
        """Show how many are accepted, of how many; what comes back shows bytes of the next."""

        def show(sent: int) -> None:
            words = f"submitted  {min(sent / size, 1):.0%} sent" if sent else "submitted"
            self._progress.update(self._task, total=number, completed=accepted, description=words)

        show(0)
        return show


def _waited_for(installation: Installation, documents: list[Document]) -> list[Document]:
    """The documents at their ends, without those that were deleted meanwhile."""
    names = {each.id: each.name for each in documents}
    with progress_bar() as bar:
        task = bar.add_task("read", total=len(names))

        def show(left: int, words: str) -> None:
            description = safe(f"read  {words}").strip()
            bar.update(task, completed=len(names) - left, description=description)

        try:
            installation.wait(names, show)
        except KeyboardInterrupt:
            click.echo("stopped waiting; the documents stay in the queue", err=True)
            raise
    ended = [_as_it_ended(installation, each) for each in documents]
    return [each for each in ended if each is not None]


def _as_it_ended(installation: Installation, document: Document) -> Document | None:
    try:
        return installation.document(document.id)
    except UnknownDocument:
        words = f"{document.id}  {document.name} was deleted meanwhile"
        click.echo(safe(words), err=True)
        return None


def _print(documents: list[Document], *, as_json: bool) -> None:
    if as_json:
        print_json({"documents": documents})
        return
    for each in documents:
        what = each.detail or _amount(each) or f"priority {each.priority}"
        click.echo(f"{each.id}  {each.state:<10} {safe(each.name)}  {safe(what)}")


def _amount(document: Document) -> str | None:
    """How much was read; None until it is done."""
    words = document.facts.get("words")
    return None if words is None else counted(words, "word")
