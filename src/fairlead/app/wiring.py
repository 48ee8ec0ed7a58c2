"""Which store, which files: the parts of an installation, opened as the settings say."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from fairlead.blobs.local import LocalBlobs
from fairlead.config.data_folder import DataFolder
from fairlead.config.settings import Explained, Settings, Sources
from fairlead.errors import MissingExtra
from fairlead.intake import Intake
from fairlead.model.blobs import BlobStore
from fairlead.policy.rules import PolicyName
from fairlead.storage import Store
from fairlead.storage.sqlite import SqliteStore

if TYPE_CHECKING:
    from fairlead.storage.postgres import PostgresStore


class Wiring:
    """Opens the parts of an installation, and lets go of them."""

    def __init__(
        self,
        data: str | Path,
        *,
        settings: Mapping[str, Any] | None = None,
        clock: Callable[[], float] | None = None,
        must_exist: bool = False,
        patient: bool = False,
    ) -> None:
        self._sources = Sources(Path(data), flags=settings)
        chosen = self._sources.settings()
        is_far = chosen.files is not None and "://" in chosen.files
        near = None if is_far or chosen.files is None else Path(chosen.files)
        self.folder = DataFolder(Path(data), files=near)
        if must_exist and chosen.store is None:
            self.folder.check_exists()
        self._clock = clock or time.time
        self.folder.make()
        self.store = self._open_store(chosen.store, clock, patient=patient)
        self._files = self._open_files("files", self.folder.files, chosen.files if is_far else None)
        self._texts = self._open_files("texts", self.folder.texts, chosen.files if is_far else None)
        self._intake = Intake(
            self.store,
            self._files,
            limit=lambda: self.settings.max_document_bytes,
            clock=self._clock,
        )

    def _open_store(
        self, url: str | None, clock: Callable[[], float] | None, *, patient: bool
    ) -> Store:
        rules = self._sources.rules
        if url is None:
            self.folder.check_whole()
            return self.folder.reserve.use(
                lambda: SqliteStore(self.folder.database, rules=rules, clock=self._clock)
            )
        return postgres_store()(url, rules=rules, clock=clock, patient=patient)

    def _open_files(self, part: str, folder: Path, url: str | None) -> BlobStore:
        if url is None:
            return LocalBlobs(folder)
        try:
            from fairlead.blobs import object_storage  # noqa: PLC0415 (an extra)
        except ImportError as error:
            raise MissingExtra(
                f"the library {error.name} is missing; install it: pip install 'fairlead[s3]'"
            ) from None
        return object_storage.ObjectStorageBlobs(
            object_storage.object_store(url, part), self.folder.path / "cache" / part
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the data folder. What was accepted is safe."""
        self.store.close()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._sources.settings()

    def explain_settings(self) -> list[Explained]:
        """Every setting, with where its value comes from."""
        return self._sources.explain()

    @property
    def policy(self) -> PolicyName:
        """The policy in force: "classic" or "fair"."""
        return self.store.policy()

    def now(self) -> float:
        """The time by the installation's clock."""
        return self.store.now()


def postgres_store() -> type[PostgresStore]:
    """The store on a PostgreSQL server, whose libraries are an extra."""
    try:
        from fairlead.storage.postgres import PostgresStore  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise MissingExtra(
            f"the library {error.name} is missing; install it: pip install 'fairlead[postgres]'"
        ) from None
    return PostgresStore
