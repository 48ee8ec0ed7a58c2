"""Blobs in object storage with the S3 API.

An upload is first written to a local folder, with its SHA-256, and then sent as one object: it is
stored when the service confirms it, or not at all. A blob that is read by path is fetched into a
local folder and cached there. Requests for different blobs do not wait for each other.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from weakref import WeakValueDictionary

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from fairlead.blobs.disk import is_full
from fairlead.blobs.local import (
    KEY,
    LocalBlobs,
    LocalIncomingBlob,
    Memory,
    check_key,
    open_private,
)
from fairlead.blobs.marker import MARKER, Marker, PlaceRecord
from fairlead.errors import DamagedData, DataError, DiskFull, FilesUnreachable, InvalidSetting
from fairlead.model.blobs import IncomingBlob, StoredBlob

AT_ONCE = 8
FETCH_BYTES = 1 << 22
CACHE_BYTES = 2_000_000_000
"""The size of the cache of fetched files."""
FRESH_SECONDS = 300.0
"""For how long a fetched file stays in any case: a caller may not have opened its path yet."""
_OPTIONS = ("endpoint", "region", "virtual_hosted_style_request")


def object_store(url: str, part: str) -> S3Store:
    """The objects under `part` of a URL such as s3://bucket/prefix?endpoint=https://…&region=….

    The keys come from the environment or the machine, as for other S3 clients.
    """
    parts = urlsplit(url)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    unknown = sorted(set(options) - set(_OPTIONS))
    if parts.scheme != "s3" or not parts.hostname or unknown:
        raise InvalidSetting(
            "files must be a folder, or a URL such as s3://bucket/prefix?region=eu-central-1 with "
            f"no other options than {', '.join(_OPTIONS)}; got {(unknown or [parts.scheme])[0]!r}"
        )
    prefix = "/".join(filter(None, (parts.path.strip("/"), part)))
    is_plain = options.get("endpoint", "").startswith("http://")
    client: Any = {"allow_http": is_plain, "connect_timeout": "5s", "timeout": "60s"}
    retry: Any = {"max_retries": 3}
    return S3Store(
        parts.hostname, prefix=prefix, client_options=client, retry_config=retry, **options
    )


class ObjectStorageBlobs:
    """Blobs as objects of a bucket. All methods may be called from any thread."""

    is_far = True

    def __init__(self, objects: S3Store, scratch: Path, record: PlaceRecord | None = None) -> None:
        self._objects = objects
        place = f"the object storage {objects.prefix or scratch.name}"
        self._marker: Marker | None = None
        if record is not None:
            self._marker = Marker(place, record, self._read_marker, self._write_marker)
        self._is_checked = False
        self._incoming = scratch / "incoming"
        self._memory = Memory()
        self._fetched = scratch / "fetched"
        self._fetching: WeakValueDictionary[str, Lock] = WeakValueDictionary()
        self._fetching_lock = Lock()

    def check(self) -> None:
        """As `BlobStore` says; a check is a request, so each upload relies on the last one."""
        self._is_checked = False
        if self._marker is not None:
            self._marker.check()
        self._is_checked = True

    def _read_marker(self) -> str | None:
        try:
            with _our_errors():
                return bytes(obstore.get(self._objects, MARKER).bytes()).decode().strip()
        except FileNotFoundError:
            return None

    def _write_marker(self, installation: str) -> None:
        with _our_errors():
            obstore.put(self._objects, MARKER, f"{installation}\n".encode())

    def begin(self, key: str) -> LocalIncomingBlob:
        return LocalIncomingBlob(check_key(key), self._incoming, self._memory)

    def keep_each(
        self, groups: Sequence[Sequence[IncomingBlob]]
    ) -> list[list[StoredBlob] | Exception]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self._kept, groups))

    def _kept(self, group: Sequence[IncomingBlob]) -> list[StoredBlob] | Exception:
        try:
            for blob in group:
                blob.flush()
            stored = [blob.stored() for blob in group if isinstance(blob, LocalIncomingBlob)]
            self.put_all([(blob.key, self._incoming / blob.key) for blob in stored])
        except Exception as error:  # for the caller to raise
            return error
        else:
            return stored
        finally:
            for blob in group:
                blob.discard()

    def put_all(self, contents: Sequence[tuple[str, Path | bytes]]) -> None:
        """As `BlobStore` says; a path stands for the bytes of its file."""
        if not contents:
            return
        if not self._is_checked:
            self.check()
        places = [_place(key) for key, _ in contents]
        sources = [source for _, source in contents]
        with _our_errors(), ThreadPoolExecutor(min(AT_ONCE, len(places))) as pool:
            try:
                list(pool.map(partial(obstore.put, self._objects), places, sources))
            except BaseException:
                with suppress(BaseError, OSError):
                    obstore.delete(self._objects, places)
                raise

    def path(self, key: str) -> Path:
        place = self._fetched / key
        with self._lock_of(key), suppress(FileNotFoundError):
            if not place.exists():
                self._fetch(key, place)
            os.utime(place)
        return place

    def _lock_of(self, key: str) -> Lock:
        """One lock per key, so that a file is fetched once and other callers wait for it."""
        with self._fetching_lock:
            lock = self._fetching.get(key)
            if lock is None:
                lock = self._fetching[key] = Lock()
            return lock

    def _fetch(self, key: str, place: Path) -> None:
        self._make_room()
        partial_file = place.with_name(f"{key}.coming")
        with _our_errors():
            self._fetched.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with os.fdopen(open_private(partial_file), "wb") as target:
                    for chunk in obstore.get(self._objects, _place(key)).stream(FETCH_BYTES):
                        target.write(chunk)
            except BaseException:
                partial_file.unlink(missing_ok=True)  # it may have filled the disk itself
                raise
            partial_file.rename(place)

    def _make_room(self) -> None:
        """Delete the files that were used longest ago, if the cache is full."""
        if not self._fetched.is_dir():
            return
        files = [(stat, path) for path in self._fetched.iterdir() if (stat := _stat(path))]
        files.sort(key=lambda file: file[0].st_mtime, reverse=True)
        total, fresh = 0, time.time() - FRESH_SECONDS
        for stat, path in files:
            total += stat.st_size
            if total > CACHE_BYTES and stat.st_mtime < fresh:
                path.unlink(missing_ok=True)

    def read(self, key: str, sha256: str) -> bytes:
        try:
            with _our_errors():
                content = bytes(obstore.get(self._objects, _place(key)).bytes())
        except FileNotFoundError:
            self.check()
            raise DamagedData(f"the object {key} is missing; restore it from a backup") from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise DamagedData(
                f"the object {key} is damaged (its SHA-256 differs); restore it from a backup"
            )
        return content

    def delete(self, keys: Iterable[str]) -> None:
        places = {key: _place(key) for key in keys}
        try:
            if places:
                with _our_errors():
                    obstore.delete(self._objects, list(places.values()))
        finally:
            for key in places:
                with self._lock_of(key):  # after a fetch that is running
                    (self._fetched / key).unlink(missing_ok=True)

    def older_than(self, before: float) -> Iterator[list[str]]:
        self.check()  # another installation's objects are no orphans of this one
        with _our_errors():
            for page in obstore.list(self._objects):
                keys = [
                    entry["path"].rpartition("/")[2]
                    for entry in page
                    if entry["last_modified"].timestamp() < before
                ]
                ours = [key for key in keys if KEY.fullmatch(key)]
                if ours:
                    yield ours

    def sweep_incoming(self, before: float) -> int:
        return LocalBlobs(self._incoming.parent).sweep_incoming(before)


def _stat(path: Path) -> os.stat_result | None:
    """None: another thread has just deleted or renamed the file."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _place(key: str) -> str:
    return f"{check_key(key)[:6]}/{key}"


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except BaseError as error:
        reason = re.sub(r"\s+", " ", str(error))[:300]
        raise FilesUnreachable(
            f"the object storage is unreachable ({reason}); repair it, or correct the setting files"
        ) from error
    except OSError as error:
        if is_full(error):
            raise DiskFull(
                "the disk is full, so nothing can be fetched from the object storage; "
                "free some space, then retry"
            ) from error
        raise DataError(f"the object storage cannot be used: {error}") from error
