"""A full disk delays a step: that is not the document's fault."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.steps.declare import RetryLater

FULL_DISK_SECONDS = 60.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def waiting_for_room() -> Iterator[None]:
    """Raise RetryLater if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise RetryLater(FULL_DISK_SECONDS) from error
        raise
