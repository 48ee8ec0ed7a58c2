"""Reads files in a sandboxed child as the engine does, without a store."""

from __future__ import annotations

import hashlib
import selectors
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from fairlead.errors import TemporarilyUnavailable
from fairlead.model.documents import Broken, Failed
from fairlead.worker.sandbox.answer import Extraction, died, over_time, parse_answer
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import ChildDied, JobAnswer, ReadJob, Sandbox


class FileReader:
    """Reads one file after another in one child; a child that died is replaced."""

    def __init__(self, limits: SandboxLimits | None = None) -> None:
        self._limits = limits or SandboxLimits()
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_child()

    def read(self, path: Path, password: str | None = None) -> Extraction | Failed | Broken:
        """Return the text and facts of a file, or why it cannot be read.

        Raises:
            OSError: the file cannot be opened.
            MissingExtra: the document libraries are not installed.
            TemporarilyUnavailable: the child does not start.
        """
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        sandbox = self._ready_child()
        try:
            # The child sees its own folder only, so a link must not lead out of it.
            sandbox.send(ReadJob(path.resolve(), sha256, password))
            answer = self._answer(sandbox)
        except ChildDied as death:
            self._end_child()
            return died(death, self._limits)
        if answer is None:
            self._end_child()
            return over_time(self._limits)
        return parse_answer(answer.raw, answer.parts, answer.files)

    def _ready_child(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = Sandbox(self._limits)
            self._sandbox.start()
        try:
            while not self._sandbox.ready:
                _wait(self._sandbox, None)
                self._sandbox.receive()
        except ChildDied as death:
            raise TemporarilyUnavailable(
                f"the process that reads documents does not start ({death.how}); "
                "run fairlead doctor to check the installation"
            ) from death
        return self._sandbox

    def _answer(self, sandbox: Sandbox) -> JobAnswer | None:
        """Wait for the answer; None if the time limit has passed."""
        deadline = time.monotonic() + self._limits.seconds
        while (left := deadline - time.monotonic()) > 0:
            _wait(sandbox, left)
            for answer in sandbox.receive():
                return answer
        return None

    def _end_child(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.kill()
            sandbox.close()


def _wait(sandbox: Sandbox, seconds: float | None) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(sandbox, selectors.EVENT_READ)
        selector.select(seconds)
