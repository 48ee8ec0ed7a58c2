"""Bounds the processes of a step on a machine, over all engines that share a data folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from pathlib import Path

from fairlead.errors import TemporarilyUnavailable

_CHECK_SECONDS = 1.0


class ProcessSlots:
    """The slots of one step that this engine holds: locked files, which end with the engine."""

    def __init__(self, folder: Path, reference: str) -> None:
        self._folder = folder
        self._name = hashlib.sha256(reference.encode()).hexdigest()[:16]
        self._held: dict[int, int] = {}  # descriptors of locked files by their numbers
        self._next_try = 0.0

    def held(self, wanted: int, *, of: int) -> int:
        """How many slots this engine holds, after an attempt to get so many of the step's.

        Raises TemporarilyUnavailable if the files cannot be made.
        """
        for number in [number for number in self._held if number >= of]:
            os.close(self._held.pop(number))
        if len(self._held) < wanted and time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + _CHECK_SECONDS
            try:
                self._take(wanted, of)
            except OSError as error:
                raise TemporarilyUnavailable(
                    f"the processes of a step cannot be counted ({error}); repair that"
                ) from error
        return min(wanted, len(self._held))

    def release(self) -> None:
        while self._held:
            os.close(self._held.popitem()[1])

    def _take(self, wanted: int, of: int) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(of):
            if len(self._held) >= wanted:
                return
            if number not in self._held:
                self._lock(number)

    def _lock(self, number: int) -> None:
        path = self._folder / f"{self._name}.{number}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            self._held[number] = descriptor
