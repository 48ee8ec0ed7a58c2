"""The files of `fairlead docs submit`: listed, checked, and split into batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from fairlead.cli.output import safe
from fairlead.errors import FairleadError, UnreadableSource, UsageError
from fairlead.intake import check_file

NamedFile = tuple[Path, str]
"""A file and the name of its document."""


class UploadLimits(NamedTuple):
    """The most bytes of a document, and the most documents and bytes of one batch."""

    document_bytes: int
    documents: int
    bytes: int


def batches_of(
    paths: Sequence[Path], limits: UploadLimits, name: str | None, *, skip_bad: bool
) -> list[list[NamedFile]]:
    """The files at these paths in batches, each accepted as a whole.

    `name` replaces the name of a single file. With `skip_bad`, files that cannot be submitted are
    left out; without it, one of them is an error.
    """
    files = _checked(list(_files(paths, skip_bad=skip_bad)), limits, name, skip_bad=skip_bad)
    return _split([(file, name or file.name) for file in files], limits)


def size_of(batch: list[NamedFile]) -> int:
    """The bytes of a batch."""
    return sum(path.stat().st_size for path, _ in batch)


def _files(paths: Sequence[Path], *, skip_bad: bool) -> Iterator[Path]:
    for path in paths:
        if _is_folder(path):
            yield from _files_in(path, skip_bad=skip_bad)
        else:
            yield path


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # `check_file` reports the error
        return False


def _files_in(folder: Path, *, skip_bad: bool) -> Iterator[Path]:
    """The files of a folder and its subfolders, without hidden ones and linked folders."""

    def skip(error: OSError) -> None:
        _skip(
            UnreadableSource(
                f"folder {error.filename} cannot be read ({error.strerror}); check its permissions"
            ),
            skip_bad=skip_bad,
        )

    for parent, folders, names in os.walk(folder, onerror=skip):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(parent, name) for name in folders):
            if path.is_symlink():  # it may lead out of the folder, or into a loop
                _print_skipped(f"{path} is a link to a folder; name it to submit its files")
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


def _skip(error: FairleadError, *, skip_bad: bool) -> None:
    """Print the error; without `skip_bad`, raise it."""
    if not skip_bad:
        raise type(error)(f"{error}, or skip such files with --skip-bad") from None
    _print_skipped(str(error))


def _print_skipped(reason: str) -> None:
    click.echo(f"skipped: {safe(reason)}", err=True)


def _checked(
    files: list[Path], limits: UploadLimits, name: str | None, *, skip_bad: bool
) -> list[Path]:
    valid = []
    for file in files:
        try:
            check_file(file, limits.document_bytes, name)
        except FairleadError as error:
            if not skip_bad and len(files) == 1:
                raise
            _skip(error, skip_bad=skip_bad)
        else:
            valid.append(file)
    if not valid:
        raise UsageError("no files to submit; name files, or folders that contain some")
    if name is not None and len(valid) != 1:
        raise UsageError(f"--name requires exactly one file; got {len(valid)}")
    return valid


def _split(files: list[NamedFile], limits: UploadLimits) -> list[list[NamedFile]]:
    batches: list[list[NamedFile]] = []
    bytes_left = 0
    for file in files:
        size = file[0].stat().st_size
        if not batches or len(batches[-1]) >= limits.documents or size > bytes_left:
            batches.append([])
            bytes_left = limits.bytes
        batches[-1].append(file)
        bytes_left -= size
    return batches
