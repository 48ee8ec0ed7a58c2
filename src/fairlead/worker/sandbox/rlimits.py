"""Limits of the process: memory, files, privileges, and death with its parent.

Also `syscall` and `prctl`, which Python's library does not have.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from functools import cache

OPEN_FILES = 64
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

_Argument = int | bytes | None


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def syscall(number: int, *arguments: _Argument) -> int:
    return _checked(_library().syscall(ctypes.c_long(number), *map(_word, arguments)))


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_library().prctl(option, ctypes.c_ulong(value), zero, zero, zero))


def _word(argument: _Argument) -> object:
    """A number as wide as a register, which a variadic function needs."""
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def _checked(result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def lock_process(memory: int, parent: int) -> None:
    """Bound memory and open files, forbid writing to files, and die with the parent."""
    die_with(parent)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_DUMPABLE, 0)  # no other process of this user may trace it
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
    ):
        _lower(limit, value)


def die_with(parent: int) -> None:
    """Ignore signals of the terminal, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(1)


def _lower(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))
