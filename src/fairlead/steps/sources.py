"""The user's source files: which ones a step process has imported, and whether they changed."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")


def imported_sources() -> list[Path]:
    """The files of imported modules, without Python's, installed packages' and Fairlead's."""
    own = Path(__file__).parents[1]
    installed = {own, *(Path(sysconfig.get_path(name)) for name in _INSTALLED)}
    files = {Path(file).resolve() for file in _files()}
    return sorted(file for file in files if not any(map(file.is_relative_to, installed)))


def _files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield file


class SourceWatch:
    """Notices changes of files by their times and sizes."""

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self._files = list(files)
        self._seen = self._look()

    def has_changed(self) -> bool:
        """Whether a file was changed, added or removed since the last call."""
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> list[tuple[int, int] | None]:
        return [_state(file) for file in self._files]


def _state(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
