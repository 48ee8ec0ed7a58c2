"""Names of workers, by which another process on the same machine can tell whether they are alive.

The lease of a dead worker and the attendance of a dead engine end by themselves. On the same
machine nobody need wait for that. An engine has the name of its first worker.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.errors import FairleadError

if TYPE_CHECKING:
    from fairlead.model.engines import EngineReport
    from fairlead.storage import Store


_NAME = re.compile(r"(?P<machine>.+):(?P<pid>\d+)\.(?P<started>\d+)#\d+")


def worker_name(slot: int) -> str:
    """The name of the worker in this slot of this process; no other worker ever has it."""
    pid = os.getpid()
    return f"{_machine()}:{pid}.{_started(pid) or 0}#{slot}"


def is_known_dead(name: str) -> bool:
    """Whether the worker is known to be dead; False if this machine cannot tell."""
    match = _NAME.fullmatch(name)
    if match is None or match["machine"] != _machine():
        return False
    pid = int(match["pid"])
    started = _started(pid)
    if started is None and _is_of_another_user(pid):  # the kernel may hide it from this user
        return False
    return started != int(match["started"])


@cache
def _machine() -> str:
    """This host, boot and pid namespace: a pid identifies a process only within all three."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    namespace = Path("/proc/self/ns/pid")
    host = socket.gethostname()
    if not (boot.exists() and namespace.exists()):
        return f"{host}-unknown-{os.getpid()}"  # unique, so that only leases count
    marks = f"{host} {boot.read_text()} {namespace.stat().st_ino}"
    return f"{host}-{hashlib.sha256(marks.encode()).hexdigest()[:8]}"


def _is_of_another_user(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return False


def _started(pid: int) -> int | None:
    """When the process started, in the kernel's ticks; None: no such process, or a zombie."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2]
    except OSError:
        return None
    fields = after_name.split()
    return None if fields[0] in "ZX" else int(fields[19])


def requeue_from_dead_workers(store: Store) -> None:
    """Requeue the documents of workers that are known to be dead, before their leases end."""
    for worker in store.lease_holders():
        if is_known_dead(worker):
            store.rescue_from(worker)


def live_engines(store: Store) -> list[EngineReport]:
    """The reports of engines that may be alive; the attendance of dead ones is ended."""
    live: list[EngineReport] = []
    for report in store.engines():
        if is_known_dead(report.engine):
            with suppress(FairleadError):  # else it ends by itself, as on a disk without room
                store.leave(report.engine)
        else:
            live.append(report)
    return live
