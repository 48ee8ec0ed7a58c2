"""Looks into the folders of blobs."""

from __future__ import annotations

from pathlib import Path

from fairlead.blobs.marker import MARKER


def files_below(folder: Path) -> set[str]:
    """The names of all files, but for the one that identifies the installation."""
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    return files - {MARKER}
