"""Limits of the process itself: memory, files, privileges, and whose death is its own."""

from __future__ import annotations

import os
import resource
import signal
import sys

from fairlead.worker.sandbox.kernel import (
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    prctl,
)

OPEN_FILES = 64


def lock_process(memory: int, parent: int) -> None:
    """Bound memory and open files, forbid writing to files, and die with the parent."""
    die_with(parent)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_DUMPABLE, 0)  # nobody of the same user may look into it, or make it do things
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
    ):
        _lower(limit, value)


def die_with(parent: int) -> None:
    """Let the parent alone decide when this process ends, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have ended before the line above.
    if os.getppid() != parent:
        sys.exit(1)


def _lower(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))
