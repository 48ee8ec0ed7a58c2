"""Sessions of the dashboard: bounded in number, and stored in a file for the next start."""

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
    """The key id and the end of each session, by the SHA-256 of its cookie; oldest first."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._lock = Lock()
        self._sessions: dict[str, tuple[str, float]] = {}
        with suppress(OSError, msgspec.DecodeError):  # without a valid file, nobody is logged in
            content = folder.sessions.read_bytes()
            self._sessions = msgspec.json.decode(content, type=dict[str, tuple[str, float]])

    def holder(self, session: str) -> str | None:
        """The id of the key that opened the session; None: it has ended."""
        key_id, until = self._sessions.get(sha256_of(session), ("", 0.0))
        return key_id if until > time.time() else None

    def add(self, session: str, key_id: str) -> None:
        now = time.time()
        with self._lock:
            valid = {name: value for name, value in self._sessions.items() if value[1] > now}
            own = [name for name, value in valid.items() if value[0] == key_id]
            for name in own[: -(MOST_OF_A_KEY - 1)] + [*valid][: -(MOST_SESSIONS - 1)]:
                valid.pop(name, None)
            self._sessions = valid | {sha256_of(session): (key_id, now + SESSION_SECONDS)}
            self._write()

    def end(self, session: str) -> None:
        with self._lock:
            if self._sessions.pop(sha256_of(session), None) is not None:
                self._write()

    def _write(self) -> None:
        with suppress(FairleadError):  # on a full disk, sessions end with the process
            self._folder.write_secret(
                self._folder.sessions, msgspec.json.encode(self._sessions).decode()
            )
