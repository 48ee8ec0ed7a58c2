"""Names of workers, by which another process on the same machine can tell whether they live.

A lease ends by itself when its worker dies. On the same machine nobody needs to wait for that.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from functools import cache
from pathlib import Path

_NAME = re.compile(r"(?P<machine>.+):(?P<pid>\d+)\.(?P<started>\d+)#\d+")


def worker_name(slot: int) -> str:
    """The name of this process's worker in the given seat, unlike any other's, ever."""
    pid = os.getpid()
    return f"{_machine()}:{pid}.{_started(pid) or 0}#{slot}"


def is_known_dead(name: str) -> bool:
    """Whether the worker is known to be gone; False also when nobody here can tell."""
    found = _NAME.fullmatch(name)
    if found is None or found["machine"] != _machine():
        return False
    pid = int(found["pid"])
    started = _started(pid)
    if started is None and _is_anothers(pid):  # who may hide it from this user
        return False
    return started != int(found["started"])


@cache
def _machine() -> str:
    """This host, this boot, this space of process ids: only inside all three a pid means much."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    space = Path("/proc/self/ns/pid")
    host = socket.gethostname()
    if not (boot.exists() and space.exists()):
        return f"{host}-unknown-{os.getpid()}"  # never equal to another's: leases decide
    marks = f"{host} {boot.read_text()} {space.stat().st_ino}"
    return f"{host}-{hashlib.sha256(marks.encode()).hexdigest()[:8]}"


def _is_anothers(pid: int) -> bool:
    """Whether there is such a process, of another user."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return False


def _started(pid: int) -> int | None:
    """When the process started, in the kernel's ticks; None when there is none, or a zombie."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2]
    except OSError:
        return None
    fields = after_name.split()
    return None if fields[0] in "ZX" else int(fields[19])
