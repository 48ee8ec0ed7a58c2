"""What a test needs beyond Python: without it a laptop skips the test, and CI fails it."""

from __future__ import annotations

import os

import pytest

from fairlead.work.extract.ocr import tessdata


def need(there: bool, what: str) -> None:
    """Go on where it is there; else skip, or fail where the variable CI is set."""
    if there:
        return
    if os.environ.get("CI"):
        pytest.fail(f"needs {what}")
    pytest.skip(f"needs {what}")


def need_languages(*names: str) -> None:
    """Tesseract's data for these languages."""
    pytest.importorskip("tesserocr") if not os.environ.get("CI") else __import__("tesserocr")
    folder = tessdata()
    missing = [n for n in names if not folder or not (folder / f"{n}.traineddata").exists()]
    need(not missing, f"the packages {' '.join(f'tesseract-ocr-{name}' for name in missing)}")
