"""The numbers of the system calls that a child may make, on x86_64 and aarch64.

A call that is not here is refused, also one that a future kernel will have.
"""

from __future__ import annotations

from typing import Final

X86_64: Final = "x86_64"
AARCH64: Final = "aarch64"

# Freely: reading from what is open, memory, time, threads' own affairs, waiting.
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

# Only with certain arguments: `fairlead.worker.sandbox.seccomp` says which.
CHECKED = """
open 2 -, openat 257 56, fcntl 72 25, ioctl 16 29, clone 56 220, prctl 157 167,
kill 62 129, tgkill 234 131, prlimit64 302 261
"""


def numbers(table: str, machine: str) -> dict[str, int]:
    """The calls of a table by name, as far as the processor has them."""
    column = {X86_64: 1, AARCH64: 2}[machine]
    rows = (entry.split() for entry in table.split(","))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}
