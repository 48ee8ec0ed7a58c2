"""Opens the store and the blob storage that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.blobs.local import LocalBlobs
from fairlead.blobs.marker import MarkedPlace, PlaceRecord
from fairlead.extras import needs_extra
from fairlead.model.blobs import BlobStore

if TYPE_CHECKING:
    from fairlead.storage import Store
    from fairlead.storage.postgres import PostgresStore


class RecordedPlace:
    """The record of a blob place in the store, by name."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    def expected(self) -> MarkedPlace:
        return MarkedPlace(*self._store.blob_place(self._name))

    def note_marked(self) -> None:
        self._store.note_marked(self._name)


def open_files(folder: Path, url: str | None, cache: Path, record: PlaceRecord) -> BlobStore:
    """Blobs in a local folder or, with a URL, in the part of object storage of the same name."""
    if url is None:
        return LocalBlobs(folder, record)
    with needs_extra("s3"):
        from fairlead.blobs import object_storage  # noqa: PLC0415
    return object_storage.ObjectStorageBlobs(
        object_storage.object_store(url, folder.name), cache / folder.name, record
    )


def postgres_store() -> type[PostgresStore]:
    """The class of the PostgreSQL store, whose libraries are an extra."""
    with needs_extra("postgres"):
        from fairlead.storage.postgres import PostgresStore  # noqa: PLC0415
    return PostgresStore
