"""seccomp: a child may make only the system calls that reading needs.

No network, no new process, thread or program, no signal to others, no opening for writing. A
refused call fails with EPERM; one that is newer than Linux 5.1 with ENOSYS, so that the C library
falls back to an older one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Final

from fairlead.worker.sandbox.rlimits import PR_SET_NO_NEW_PRIVS, prctl, syscall

X86_64: Final = "x86_64"
AARCH64: Final = "aarch64"

# The numbers of the system calls on both processors. All other calls are refused, also future ones.
# Always allowed: reading open files, memory, time, the thread's own state, waiting.
FREE = """
read 0 63, write 1 64, futex 202 98, close 3 57, lseek 8 62, fstat 5 80, newfstatat 262 79,
mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, madvise 28 233, brk 12 214,
clock_gettime 228 113, gettimeofday 96 169, time 201 -, getrandom 318 278,
readv 19 65, writev 20 66, pread64 17 67, preadv 295 69, preadv2 327 286,
stat 4 -, lstat 6 -, statx 332 291, statfs 137 43, fstatfs 138 44,
access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -, readlinkat 267 78,
getdents64 217 61, getcwd 79 17, fadvise64 221 223, readahead 187 213,
dup 32 23, dup2 33 -, dup3 292 24, close_range 436 436,
pipe 22 -, pipe2 293 59, eventfd 284 -, eventfd2 290 19,
poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72,
epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -,
epoll_pwait 281 22, epoll_pwait2 441 441,
timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87,
mincore 27 232, msync 26 227, membarrier 324 283,
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132, pause 34 -,
alarm 37 -, setitimer 38 103, getitimer 36 102,
exit 60 93, exit_group 231 94, restart_syscall 219 128, rseq 334 293,
futex_waitv 449 449, set_robust_list 273 99, get_robust_list 274 100, set_tid_address 218 96,
sched_yield 24 124, sched_getaffinity 204 123, sched_getscheduler 145 120,
sched_getparam 143 121, sched_get_priority_max 146 125, sched_get_priority_min 147 126,
getcpu 309 168, getpid 39 172, gettid 186 178, getppid 110 173,
getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getresuid 118 148,
getresgid 120 150, getgroups 115 158, getpgrp 111 -, getpgid 121 155, getsid 124 156,
uname 63 160, sysinfo 99 179, getrusage 98 165, times 100 153, getrlimit 97 163, umask 95 166,
nanosleep 35 101, clock_nanosleep 230 115, clock_getres 229 114
"""

# Allowed only with the arguments in `_rules`.
CHECKED = """
open 2 -, openat 257 56, fcntl 72 25, ioctl 16 29, prctl 157 167,
kill 62 129, tgkill 234 131, prlimit64 302 261
"""

FilterProgram = list[tuple[int, int, int, int]]
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
# Queries and duplication, but not F_SETOWN, which sends signals to others.
_FCNTL = (0, 1, 2, 3, 4, 1030, 1034)
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_PRCTL = (15, 16)  # the name of a thread
_ANY_PID = 0x7FFFFFFF  # a placeholder: no process and no other operand of the filter has it


def has_seccomp() -> bool:
    """Whether the kernel can filter system calls, and the tables above have this processor."""
    machine = platform.machine()
    if machine not in _SECCOMP:
        return False
    with suppress(OSError):
        action = struct.pack("=I", _ERRNO)
        return syscall(_SECCOMP[machine], _GET_ACTION_AVAILABLE, 0, action) == 0
    return False


def prepare_filter() -> None:
    """Build the filter of `lock_calls` in advance, in the fork server."""
    if has_seccomp():
        _code(platform.machine())


def lock_calls() -> bool:
    """Allow only the listed calls, for all threads; False: the kernel lacks seccomp."""
    if not has_seccomp():
        return False
    machine = platform.machine()
    code = _code(machine).replace(_operand(_ANY_PID), _operand(os.getpid()))
    lines = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(lines))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    # Not zero: the id of a thread that could not be filtered.
    return syscall(_SECCOMP[machine], _SET_MODE_FILTER, _ALL_THREADS, header) == 0


@cache  # filled in the fork server, for its children
def _code(machine: str) -> bytes:
    """The filter in the kernel's format, with `_ANY_PID` in place of the process id."""
    return b"".join(struct.pack("=HBBI", *line) for line in program(machine, _ANY_PID))


def _operand(value: int) -> bytes:
    return struct.pack("=I", value)


def program(machine: str, pid: int) -> FilterProgram:
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


def _rules(pid: int) -> dict[str, FilterProgram]:
    return {
        "open": _unless_any_bit(1, _WRITING),
        "openat": _unless_any_bit(2, _WRITING),
        "fcntl": _if_one_of(1, _FCNTL),
        "ioctl": _if_one_of(1, _IOCTL),
        "prctl": _if_one_of(0, _PRCTL),
        "kill": _if_one_of(0, (pid,)),
        "tgkill": _if_one_of(0, (pid,)),
        "prlimit64": _if_only_read(),
    }


def _for_call(number: int, lines: FilterProgram) -> FilterProgram:
    return [(_EQUAL, 0, len(lines), number), *lines]


def _load(argument: int, *, high: bool = False) -> FilterProgram:
    return [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument + 4 * high)]


def _if_one_of(argument: int, values: Iterable[int]) -> FilterProgram:
    lines = _load(argument)
    for value in values:
        lines += [(_EQUAL, 0, 1, value), _PASS]
    return [*lines, _REFUSE]


def _unless_any_bit(argument: int, bits: int) -> FilterProgram:
    return [*_load(argument), (_ANY_BIT, 0, 1, bits), _REFUSE, _PASS]


def _if_only_read() -> FilterProgram:
    """Allow reading its own limits: pid 0, and NULL as the pointer to a new limit."""
    own = [*_load(0), (_EQUAL, 1, 0, 0), _REFUSE]
    low = [*_load(2), (_EQUAL, 1, 0, 0), _REFUSE]
    high = [*_load(2, high=True), (_EQUAL, 1, 0, 0), _REFUSE]
    return [*own, *low, *high, _PASS]


def numbers(table: str, machine: str) -> dict[str, int]:
    """The numbers of a table's calls, by name; without calls that the processor lacks."""
    column = {X86_64: 1, AARCH64: 2}[machine]
    rows = (entry.split() for entry in table.split(","))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}
