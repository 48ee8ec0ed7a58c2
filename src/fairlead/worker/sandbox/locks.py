"""The locks that a child applies to itself before it sees its first document."""

from __future__ import annotations

from fairlead.worker.sandbox.landlock import landlock_version, lock_files, readable
from fairlead.worker.sandbox.rlimits import die_with, lock_process
from fairlead.worker.sandbox.seccomp import has_seccomp, lock_calls

__all__ = [
    "NO_LANDLOCK",
    "NO_SECCOMP",
    "die_with",
    "lock_calls",
    "lock_files",
    "lock_process",
    "missing",
    "readable",
]

NO_LANDLOCK = "Landlock, which keeps a reading process away from files"
NO_SECCOMP = "seccomp, which keeps a reading process away from the network and other processes"


def missing() -> list[str]:
    """Which locks this machine lacks, in words."""
    lacks = (NO_LANDLOCK, landlock_version() == 0), (NO_SECCOMP, not has_seccomp())
    return [what for what, is_lacking in lacks if is_lacking]
