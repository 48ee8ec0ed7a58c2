"""Which of the kernel's locks this machine lacks."""

from __future__ import annotations

from fairlead.worker.sandbox.landlock import landlock_version
from fairlead.worker.sandbox.seccomp import has_seccomp

NO_LANDLOCK = "Landlock, which keeps a reading process away from files"
NO_SECCOMP = "seccomp, which keeps a reading process away from the network and other processes"


def missing() -> list[str]:
    lacks = (NO_LANDLOCK, landlock_version() == 0), (NO_SECCOMP, not has_seccomp())
    return [name for name, is_lacking in lacks if is_lacking]
