"""The operating system's errors in our words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.errors import DataError, DiskFull, ReadOnlyData


@contextmanager
def our_words(folder: Path) -> Iterator[None]:
    """Turns errors about a folder of ours into Fairlead's."""
    try:
        yield
    except OSError as error:
        raise translated(error, folder) from error


def is_full(error: OSError) -> bool:
    """Whether there is no room left where something was to be written."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def translated(error: OSError, folder: Path) -> DataError:
    """The operating system's error about a folder of ours, in our words."""
    if is_full(error):
        return DiskFull(
            f"the disk of {folder} is full and nothing was written; free some space, then try again"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ReadOnlyData(
            f"{folder} cannot be written; give this user write permission on it, "
            "or choose another folder with --data"
        )
    return DataError(
        f"{folder} cannot be used ({error.strerror or error}); mend that, "
        "or choose another folder with --data"
    )
