"""Sessions of the dashboard: bounded in number, and kept in a file over a restart."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Lock

import msgspec

from fairlead.config.data_folder import DataFolder
from fairlead.errors import FairleadError
from fairlead.model.keys import sha256_of

SESSION_SECONDS = 12 * 3600
MOST_SESSIONS = 1000
MOST_OF_A_KEY = 20
"""Sessions of one key; a further login ends the oldest."""


class Sessions:
    """Who is logged in until when, by the SHA-256 of the session; oldest first."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._lock = Lock()
        self._known: dict[str, tuple[str, float]] = {}
        with suppress(OSError, msgspec.DecodeError):  # nobody is logged in
            content = folder.sessions.read_bytes()
            self._known = msgspec.json.decode(content, type=dict[str, tuple[str, float]])

    def holder(self, session: str) -> str | None:
        """The id of the key that it was opened with; None: it has ended."""
        key_id, until = self._known.get(sha256_of(session), ("", 0.0))
        return key_id if until > time.time() else None

    def add(self, session: str, key_id: str) -> None:
        now = time.time()
        with self._lock:
            known = {name: value for name, value in self._known.items() if value[1] > now}
            own = [name for name, value in known.items() if value[0] == key_id]
            for name in own[: -(MOST_OF_A_KEY - 1)] + [*known][: -(MOST_SESSIONS - 1)]:
                known.pop(name, None)
            self._known = known | {sha256_of(session): (key_id, now + SESSION_SECONDS)}
            self._write()

    def end(self, session: str) -> None:
        with self._lock:
            if self._known.pop(sha256_of(session), None) is not None:
                self._write()

    def _write(self) -> None:
        with suppress(FairleadError):  # a full disk: the sessions last until the next restart
            self._folder.write_secret(
                self._folder.sessions, msgspec.json.encode(self._known).decode()
            )
