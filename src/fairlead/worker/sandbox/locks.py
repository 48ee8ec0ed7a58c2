"""The locks that a child puts on itself before it sees its first document.

`files` and `calls` turn the keys; `missing` looks whether this machine has the locks at all.
"""

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
    """What this machine lacks, in words; empty when a child is locked in as intended."""
    lacks = (NO_LANDLOCK, landlock_version() == 0), (NO_SECCOMP, not has_seccomp())
    return [what for what, is_lacking in lacks if is_lacking]
