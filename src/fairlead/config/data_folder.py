"""The data folder of an embedded installation.

fairlead.db     the store, unless it is on a database server
fairlead.db-commits  touched after each commit, so that other processes wake up
fairlead.db-mark     the number of the last durable event, so that `doctor` detects a damaged WAL
fairlead.db-purge    exists while the WAL still has deleted contents
fairlead.toml   settings, if any
files/          originals of documents; short ones are in the store
texts/          texts and Markdown of documents; short ones are in the store
cache/          blobs on their way to object storage, or recently read from it
reading/        job directories of the sandbox
operator.key    an operator's API key, mode 0600
sessions.json   hashes of the sessions of the dashboard, mode 0600
server.lock     held by the one server or worker of the folder; its process id and address
reserve         disk space that is released when the disk is full
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairlead.blobs.disk import our_errors, translated
from fairlead.blobs.local import fsync_folder
from fairlead.config.disk_reserve import Reserve
from fairlead.errors import DamagedData, DataError, DataInUse, NoDataFolder

NO_ROOM = 1 << 20
"""A disk with fewer free bytes counts as full."""
_PID_LENGTH = 20


class DataFolder:
    """Paths inside a data folder, and the lock of its server."""

    def __init__(self, path: Path, *, files: Path | None = None) -> None:
        self.path = path
        self.database = path / "fairlead.db"
        self.files = (files or path) / "files"
        self.texts = (files or path) / "texts"
        self.job_dirs = path / "reading"
        self.step_slots = path / "step-slots"
        self.operator_key = path / "operator.key"
        self.sessions = path / "sessions.json"
        self.reserve = Reserve(path / "reserve")
        self._lock = path / "server.lock"
        self._aside = path / "fairlead.db.carried-over"

    def make(self) -> None:
        """Make the folder where it does not exist."""
        for folder in {self.path, self.files.parent}:
            self._make(folder)

    def _make(self, folder: Path) -> None:
        try:
            if not folder.is_dir():
                folder.mkdir(parents=True, mode=0o700)
                fsync_folder(folder.parent)
        except FileExistsError:
            raise DataError(
                f"{folder} is a file; choose a folder with --data or FAIRLEAD_DATA"
            ) from None
        except OSError as error:
            raise translated(error, folder) from error

    def has_room(self, least: int | None = None) -> bool:
        """Whether the disks of the folder and of the originals have `least` free bytes."""
        least = NO_ROOM if least is None else least
        with suppress(OSError):  # the next write reports the error
            return all(
                _has_room(os.statvfs(path), least) for path in {self.path, self.files.parent}
            )
        return True

    def is_read_only(self) -> bool:
        """Whether a file system of the folder is read-only."""
        return any(map(_is_read_only, {self.path, self.files.parent}))

    def open_lock(self, name: str) -> int:
        """A file descriptor for a lock between processes."""
        try:
            return os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise translated(error, self.path) from error

    def read_operator_key(self) -> str | None:
        try:
            return self.operator_key.read_text("utf-8").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise translated(error, self.path) from error

    def write_secret(self, path: Path, text: str) -> None:
        """Write a file of mode 0600 in this folder, atomically."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        new = path.with_name(path.name + ".new")
        try:
            with os.fdopen(os.open(new, flags, 0o600), "w") as file:
                file.write(text + "\n")
            new.replace(path)
            fsync_folder(self.path)
        except OSError as error:
            raise translated(error, self.path) from error

    def check_exists(self) -> None:
        """Raise NoDataFolder for a folder without Fairlead data."""
        if not self._has_database():
            self.check_whole()
            raise NoDataFolder(
                f"there is no Fairlead data in {self.path.absolute()}; name the folder with "
                "--data or FAIRLEAD_DATA, or submit a first document: fairlead docs submit"
            )

    def check_whole(self) -> None:
        """Refuse a folder with documents and no database: a new one would make them orphans."""
        if self._has_database():
            return
        if self._aside.exists():
            raise NoDataFolder(
                f"the data of {self.path} were moved to a database server; "
                "name it with the setting store"
            )
        has_documents = any(self.files.glob("[!i]*/*"))  # except those in incoming/
        if has_documents and not self._has_database():  # unless another process has just made it
            raise DamagedData(
                f"{self.path} has documents but no {self.database.name}; restore that file from a "
                "backup, or choose another folder with --data"
            )

    def put_database_aside(self) -> None:
        """Rename a database whose rows were moved, so that no process opens it."""
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self.database}{suffix}").replace(f"{self._aside}{suffix}")
        fsync_folder(self.path)

    def _has_database(self) -> bool:
        try:
            return self.database.exists()
        except OSError as error:
            raise translated(error, self.path) from error

    @contextmanager
    def as_server(self) -> Iterator[None]:
        """Hold the server lock of this folder; the kernel releases it when the process ends."""
        with our_errors(self.path):
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take(lock)
            yield
        finally:
            os.close(lock)

    def server_pid(self) -> int | None:
        """The process id of the server of this folder, if one is running."""
        try:
            lock = os.open(self._lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _pid_in(lock)
        finally:
            os.close(lock)
        return None

    def write_server_url(self, url: str) -> None:
        """Store the address of the server that holds the lock, for `fairlead login`."""
        with suppress(OSError), self._lock.open("r+b") as file:
            file.seek(_PID_LENGTH)
            file.write(url.encode())

    def server_url(self) -> str | None:
        """The address of the server of this folder, if one is running."""
        if self.server_pid() is None:
            return None
        return self._lock.read_text()[_PID_LENGTH:] or None

    def _take(self, lock: int) -> None:
        while not _is_locked(lock):
            server = self.server_pid()
            if server is not None:  # None: another process was in `server_pid`
                raise DataInUse(
                    f"process {server} already uses {self.path}; stop it first, give it more "
                    "--workers, or choose another folder with --data"
                )
        with our_errors(self.path):  # overwriting works on a full disk
            os.ftruncate(lock, os.pwrite(lock, f"{os.getpid():<{_PID_LENGTH}}".encode(), 0))


def _is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid_in(lock: int) -> int:
    return int(os.pread(lock, _PID_LENGTH, 0) or b"0")


def _is_read_only(folder: Path) -> bool:
    """Tries to create an unnamed file, as statvfs calls a failing file system writable."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return error.errno in (errno.EROFS, errno.EIO)
    return False


def _has_room(disk: os.statvfs_result, least: int) -> bool:
    """Some file systems report no size; they count as never full."""
    return disk.f_blocks == 0 or disk.f_bavail * disk.f_frsize >= least
