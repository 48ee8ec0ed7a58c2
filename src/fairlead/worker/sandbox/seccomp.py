"""seccomp: a child may make only the system calls that reading needs.

No network, no new process or program, no signal to others, no opening for writing. A refused call
fails with EPERM; one that is newer than Linux 5.1 with ENOSYS, so that the C library falls back to
an older one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from contextlib import suppress

from fairlead.worker.sandbox.kernel import PR_SET_NO_NEW_PRIVS, prctl, syscall
from fairlead.worker.sandbox.syscalls import AARCH64, CHECKED, FREE, X86_64, numbers

CeleryProgram = list[tuple[int, int, int, int]]
"""Instructions for the kernel's filter machine: code, jump if true, jump if false, operand."""

_SECCOMP = {X86_64: 317, AARCH64: 277}
_ARCHITECTURE = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
_SET_MODE_FILTER, _GET_ACTION_AVAILABLE = 1, 2
_ALL_THREADS = 1

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSE = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
_UNKNOWN = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
_PASS = (_RETURN, 0, 0, _ALLOW)
_FIRST_YOUNG_CALL = 424  # from here on the numbers are the same on all processors

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | 0o20000000  # the last one: O_TMPFILE
_CLONE_THREAD = 0x10000
# Queries and duplication, but not F_SETOWN, which sends signals to others.
_FCNTL = (0, 1, 2, 3, 4, 1030, 1034)
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_PRCTL = (15, 16)  # the name of a thread


def has_seccomp() -> bool:
    """Whether the kernel filters system calls, on a processor whose calls are known here."""
    machine = platform.machine()
    if machine not in _SECCOMP:
        return False
    action = ctypes.create_string_buffer(struct.pack("=I", _ERRNO), 4)
    with suppress(OSError):
        return syscall(_SECCOMP[machine], _GET_ACTION_AVAILABLE, 0, action) == 0
    return False


def lock_calls() -> bool:
    """Allow only the listed calls, for all threads; False: there is no seccomp."""
    if not has_seccomp():
        return False
    machine = platform.machine()
    code = b"".join(struct.pack("=HBBI", *line) for line in program(machine, os.getpid()))
    lines = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(lines))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    filter_ = ctypes.create_string_buffer(header, len(header))
    # Not zero: the id of a thread that could not be filtered.
    return syscall(_SECCOMP[machine], _SET_MODE_FILTER, _ALL_THREADS, filter_) == 0


def program(machine: str, pid: int) -> CeleryProgram:
    """The filter for the process with this id."""
    free, checked = numbers(FREE, machine), numbers(CHECKED, machine)
    rules = _rules(pid)
    return [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        *(line for number in free.values() for line in _for_call(number, [_PASS])),
        *(line for name, number in checked.items() for line in _for_call(number, rules[name])),
        (_AT_LEAST, 0, 1, _FIRST_YOUNG_CALL),
        _UNKNOWN,
        _REFUSE,
    ]


def _rules(pid: int) -> dict[str, CeleryProgram]:
    """The filter over the arguments of each checked call."""
    return {
        "open": _unless_any_bit(1, _WRITING),
        "openat": _unless_any_bit(2, _WRITING),
        "fcntl": _if_one_of(1, _FCNTL),
        "ioctl": _if_one_of(1, _IOCTL),
        "clone": [*_load(0), (_ANY_BIT, 0, 1, _CLONE_THREAD), _PASS, _REFUSE],
        "prctl": _if_one_of(0, _PRCTL),
        "kill": _if_one_of(0, (pid,)),
        "tgkill": _if_one_of(0, (pid,)),
        "prlimit64": _if_only_asked(),
    }


def _for_call(number: int, lines: CeleryProgram) -> CeleryProgram:
    return [(_EQUAL, 0, len(lines), number), *lines]


def _load(argument: int, *, high: bool = False) -> CeleryProgram:
    return [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument + 4 * high)]


def _if_one_of(argument: int, values: Iterable[int]) -> CeleryProgram:
    lines = _load(argument)
    for value in values:
        lines += [(_EQUAL, 0, 1, value), _PASS]
    return [*lines, _REFUSE]


def _unless_any_bit(argument: int, bits: int) -> CeleryProgram:
    return [*_load(argument), (_ANY_BIT, 0, 1, bits), _REFUSE, _PASS]


def _if_only_asked() -> CeleryProgram:
    """Its own limits may be read: the pointer to a new one must be NULL."""
    own = [*_load(0), (_EQUAL, 1, 0, 0), _REFUSE]
    low = [*_load(2), (_EQUAL, 1, 0, 0), _REFUSE]
    high = [*_load(2, high=True), (_EQUAL, 1, 0, 0), _REFUSE]
    return [*own, *low, *high, _PASS]
