"""Landlock: a child may read its documents, and the files of Python and the libraries.

It may not write, create, remove or execute anything.
"""

from __future__ import annotations

import os
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from fairlead.errors import DataError
from fairlead.worker.sandbox.rlimits import syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all processors
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_READ_FILE = 1 << 2
_READ_FOLDER = 1 << 3

# How many rights over files each version of Landlock has. Those in a ruleset are denied by default.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NETWORK_SINCE, _BIND_AND_CONNECT = 4, 0b11
_SCOPES_SINCE, _SOCKETS_AND_SIGNALS = 6, 0b11

SHARED = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"),
    *("/usr/share", "/usr/local/share", "/etc/ld.so.cache", "/etc/localtime"),
    *("/etc/mime.types", "/etc/fonts", "/dev/null", "/dev/zero", "/dev/urandom"),
)
"""Libraries, their data, fonts, time zones and locales."""


def landlock_version() -> int:
    """The version of Landlock; 0: the kernel lacks it, or it is switched off."""
    with suppress(OSError):
        return syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return 0


def lock_files(job_dir: Path, models: str | None) -> bool:
    """Allow only reading, of the job directory and `readable` paths; False: no Landlock."""
    version = landlock_version()
    if not version:
        return False
    ruleset = _ruleset(version)
    try:
        for path, rights in ((str(job_dir), _READ_FILE | _READ_FOLDER), *rules(models)):
            _allow(ruleset, path, rights)
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


@cache  # filled in the fork server, for its children
def rules(models: str | None) -> tuple[tuple[str, int], ...]:
    """Each readable path with its rights; a path below another one needs no rule of its own."""
    paths = {path.resolve() for path in readable(models) if os.access(path, os.F_OK)}
    return tuple(
        (str(path), _READ_FILE | (_READ_FOLDER if path.is_dir() else 0))
        for path in paths
        if paths.isdisjoint(path.parents)
    )


@cache
def readable(models: str | None) -> tuple[Path, ...]:
    """Files and folders that reading a document may need, with the folder of OCR models."""
    return (*map(Path, SHARED), *_python(), *([Path(models)] if models else []))


def refuse_readable(folders: Iterable[Path]) -> None:
    """Raise DataError for a data folder that every child could read."""
    models = os.environ.get("TESSDATA_PREFIX")
    open_to_all = [*map(Path, SHARED), *_installed(), *([Path(models)] if models else [])]
    for folder in folders:
        for parent in open_to_all:
            if folder.resolve().is_relative_to(parent.resolve()):
                raise DataError(
                    f"{folder} lies in {parent}, where the processes that read documents may read "
                    "everything; choose a folder elsewhere, such as /var/lib/fairlead"
                )


def _installed() -> set[Path]:
    """The folders of this Python and of the packages installed for it."""
    folders = {Path(path) for path in sysconfig.get_paths().values()}
    folders -= {Path(sys.prefix), Path(sys.base_prefix)}
    return folders | {Path(sys.prefix, "lib"), Path(sys.base_prefix, "lib")}


def _python() -> Iterator[Path]:
    own = _installed()
    yield from own
    for entry in map(Path, filter(None, sys.path)):
        if not any(entry.is_relative_to(folder) for folder in own):
            # Only the modules of a folder: it may have other files, such as a user's data.
            yield from filter(_is_module, entry.iterdir()) if entry.is_dir() else [entry]


def _is_module(path: Path) -> bool:
    return path.suffix in (".py", ".so") or (path / "__init__.py").exists()


def _ruleset(version: int) -> int:
    rights = (1 << _RIGHTS.get(version, _RIGHTS[max(_RIGHTS)])) - 1
    words = [rights]
    if version >= _NETWORK_SINCE:
        words.append(_BIND_AND_CONNECT)
    if version >= _SCOPES_SINCE:
        words.append(_SOCKETS_AND_SIGNALS)
    attributes = struct.pack(f"={len(words)}Q", *words)
    return syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Allow reading the file, or all files below the folder; ignore a path that is gone."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = struct.pack("=Qi", rights, opened)
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(opened)
