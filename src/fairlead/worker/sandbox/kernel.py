"""Calls to the kernel that Python's library does not have."""

from __future__ import annotations

import ctypes
import os
from functools import cache

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

_Argument = int | ctypes.Array[ctypes.c_char] | None


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def syscall(number: int, *arguments: _Argument) -> int:
    """Make a system call; raises OSError."""
    return _checked(_library().syscall(ctypes.c_long(number), *map(_word, arguments)))


def prctl(option: int, value: int) -> None:
    """Change a property of this process; raises OSError."""
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
