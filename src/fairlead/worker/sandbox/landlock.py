"""Landlock: of all files, a child may read its document, and those of Python and the libraries.

Nothing may be written, made, removed or run. It is locked before the libraries are imported: a
thread that one of them starts on that occasion is locked in as well.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from fairlead.worker.sandbox.kernel import syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all processors
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_READ_FILE = 1 << 2
_READ_FOLDER = 1 << 3

# Rights over files that each version of Landlock knows; whatever is handled is refused by default.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NETWORK_SINCE, _BIND_AND_CONNECT = 4, 0b11
_SCOPES_SINCE, _SOCKETS_AND_SIGNALS = 6, 0b11

SHARED = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share",
    "/usr/local/share",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/fonts",
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
)
"""Where libraries, their data, fonts, time zones and locales lie."""


def landlock_version() -> int:
    """The version of Landlock here; 0: there is none, or it is switched off."""
    with suppress(OSError):
        return syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return 0


def lock_files(job_dir: Path, environment: Mapping[str, str]) -> bool:
    """From now on only files of the desk and `readable` ones can be opened, for reading.

    False: there is no Landlock.
    """
    version = landlock_version()
    if not version:
        return False
    ruleset = _ruleset(version)
    try:
        for path in (job_dir, *readable(environment)):
            _allow(ruleset, path)
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def readable(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Files and folders that reading a document may need. Looked up once in a process."""
    return _readable(environment.get("TESSDATA_PREFIX"))


@cache  # children that are forked later find it done
def _readable(models: str | None) -> tuple[Path, ...]:
    own = [Path(models)] if models else []
    return (*map(Path, SHARED), *_python(), *own)


def _python() -> Iterator[Path]:
    """Where Python imports from."""
    own = {Path(path) for path in sysconfig.get_paths().values()}
    own = {path for path in own if path not in (Path(sys.prefix), Path(sys.base_prefix))}
    own |= {Path(sys.prefix, "lib"), Path(sys.base_prefix, "lib")}
    yield from own
    for each in map(Path, filter(None, sys.path)):
        if not any(each.is_relative_to(folder) for folder in own):
            yield from _modules(each)


def _modules(entry: Path) -> Iterable[Path]:
    """The modules in a folder that may hold much else, such as somebody's data."""
    if not entry.is_dir():
        return [entry]
    return [path for path in entry.iterdir() if _is_module(path)]


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
    return syscall(_CREATE_RULESET, _buffer(attributes), len(attributes), 0)


def _allow(ruleset: int, path: Path) -> None:
    """Let the file, or all below the folder, be read; what is not there needs no rule."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = _READ_FILE | (_READ_FOLDER if path.is_dir() else 0)
        rule = struct.pack("=Qi", rights, opened)
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, _buffer(rule), 0)
    finally:
        os.close(opened)


def _buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, len(data))
