"""What a test needs beyond Python: without it a laptop skips the test, and CI fails it."""

from __future__ import annotations

import importlib.util
import os

import pytest

from fairlead.read.ocr import tessdata


def need(there: bool, requirement: str) -> None:
    """Go on where it is there; else skip, or fail where the variable CI is set."""
    if there:
        return
    if os.environ.get("CI"):
        pytest.fail(f"needs {requirement}")
    pytest.skip(f"needs {requirement}")


def need_languages(*names: str) -> None:
    """Tesseract's data for these languages."""
    need(importlib.util.find_spec("tesserocr") is not None, "the extra ocr")
    folder = tessdata()
    missing = [n for n in names if not folder or not (folder / f"{n}.traineddata").exists()]
    need(not missing, f"the packages {' '.join(f'tesseract-ocr-{name}' for name in missing)}")
