"""A full disk delays a step: that is not the document's fault."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.steps.declare import RetryLater

FULL_DISK_SECONDS = 60.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def retrying_on_full_disk() -> Iterator[None]:
    """Raise RetryLater if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise RetryLater(FULL_DISK_SECONDS) from error
        raise
