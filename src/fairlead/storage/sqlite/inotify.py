"""Wake-ups between processes that hold one SQLite file open: they touch a file and watch it.

A touch after each commit is one system call, for any number of processes that watch the file by
inotify. The kernel merges unread signals, and a watch ends with its process, so nothing needs
cleaning up. docs/decisions/0024 compares this with sockets.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock

from fairlead.change_feed import ChangeFeed, Subscription, Wake
from fairlead.service import Service, WakePipe

_log = logging.getLogger(__name__)

POLL_SECONDS = 0.02
"""How often subscribers compare versions without inotify."""
WATCHED_POLL_SECONDS = 0.25
"""The same with inotify: touches can fail for lack of permission or after a deletion."""
PAUSE_SECONDS = 0.002
"""The pause after a signal: a burst of commits wakes subscribers at most 500 times a second."""

_IN_ATTRIB = 0x4
_IN_MOVE_SELF = 0x800
"""The event of a muted watch: a watch needs at least one."""
_MOST_BYTES = 4096


class Watch:
    """An inotify instance, readable after a touch of one file. Raises OSError."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.PyDLL(None, use_errno=True)  # holds the interpreter's lock: calls are short
        if not hasattr(libc, "inotify_init1"):
            raise OSError("this system has no inotify")
        self._path = os.fsencode(path)
        self._add_watch = libc.inotify_add_watch
        self._instance: int = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            self._wait_for(_IN_ATTRIB)
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        return self._instance

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._instance, _MOST_BYTES)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Ignore all touches within the context."""
        with suppress(OSError):  # the file was deleted, so there are no touches
            self._wait_for(_IN_MOVE_SELF)
        yield
        with suppress(OSError):
            self._wait_for(_IN_ATTRIB)

    def close(self) -> None:
        os.close(self._instance)

    def _wait_for(self, events: int) -> None:
        """Watch for these events; a second call replaces those of the first."""
        _checked(self._add_watch(self._instance, self._path, ctypes.c_uint32(events)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"inotify: {os.strerror(number)}")
    return result


class InotifyFeed(ChangeFeed):
    """A change feed that listens for commits of other processes from the first subscription on.

    The writer calls `committed` after each commit of this process. If the file cannot be opened or
    watched, subscribers poll, and the log says why.
    """

    def __init__(self, path: Path, version: Callable[[], int]) -> None:
        super().__init__(version, POLL_SECONDS)
        self._path = path
        self._file = -1
        self._start_lock = Lock()
        self._listener: _Listener | None = None
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            _log.debug("fairlead: commits cannot wake other processes: %s", error)

    def committed(self) -> None:
        """Wake the subscribers of this process and of others. For one thread at a time.

        The touch must not wake this process's own listener, which would cost as much as the commit.
        The announcement here also covers commits of other processes during the mute.
        """
        listener = self._listener
        if listener is None:
            self._touch()
        else:
            with listener.muted():
                self._touch()
        self.announce()

    def subscribe(self, wake: Wake = lambda: None) -> Subscription:
        with self._start_lock:
            if self._listener is None or self._listener.is_of_another_process:
                self._listen()
        return super().subscribe(wake)

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _touch(self) -> None:
        if self._file >= 0:
            with suppress(OSError):  # other processes poll
                os.utime(self._file)

    def _listen(self) -> None:
        """Start to listen; if that fails, the next subscription tries again."""
        self._listener, self.poll_seconds = None, POLL_SECONDS
        if self._file < 0:
            return
        try:
            self._listener = _Listener(Watch(self._path), self.announce)
        except OSError as error:
            _log.debug("fairlead: subscribers poll for commits of other processes: %s", error)
        else:
            self.poll_seconds = WATCHED_POLL_SECONDS


class _Listener:
    """Calls a function after each touch of a watched file, in its own thread."""

    def __init__(self, watch: Watch, announce: Callable[[], None]) -> None:
        self._watch = watch
        self._announce = announce
        self._process = os.getpid()
        self._stop_pipe = WakePipe()
        self._service = Service("commit listener", self._listen, on_stop=self._stop_pipe.wake)
        self._service.start()

    @property
    def is_of_another_process(self) -> bool:
        """Whether this is a copy in a forked child: the thread runs in the parent only."""
        return self._process != os.getpid()

    def muted(self) -> AbstractContextManager[None]:
        return nullcontext() if self.is_of_another_process else self._watch.muted()

    def close(self) -> None:
        if not self.is_of_another_process:  # else it would wake the parent through the shared pipe
            self._service.stop()
        self._stop_pipe.close()
        self._watch.close()

    def _listen(self) -> Generator[float, None, None]:
        signals = select.poll()
        signals.register(self._watch, select.POLLIN)
        signals.register(self._stop_pipe, select.POLLIN)
        while True:
            yield 0.0
            signals.poll()
            self._watch.clear()
            self._announce()
            self._stop_pipe.wait(PAUSE_SECONDS)
