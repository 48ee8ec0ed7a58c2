"""Snapshots: files of expected output, compared as text and rewritten on purpose only."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "snapshots"
UPDATE = "FAIRLEAD_UPDATE_SNAPSHOTS"
_IS_UPDATE = bool(os.environ.pop(UPDATE, ""))  # removed: a server refuses unknown FAIRLEAD_ names

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("secret", re.compile(r"whsec_[A-Za-z0-9+/=]+")),
    ("key", re.compile(r"fl_[A-Za-z0-9_-]{20,}")),
    ("id", re.compile(r"(?<![0-9a-z])0[0-9a-hjkmnp-tv-z]{25}(?![0-9a-z])")),
    ("time", re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?")),
    ("port", re.compile(r"(?<=127\.0\.0\.1:)\d{2,5}\b")),
    ("duration", re.compile(r"(?<=resets in )[\d,.]+ [a-z]+")),
    ("number", re.compile(r"(?<=estimate:)\s+[\d.e-]+|(?<=seconds:)\s+[\d.e-]+")),
    ("number", re.compile(r"(?<='seconds': )[\d.e-]+")),
    ("version", re.compile(r"(?<=email |lizer )\d+(\.\d+)+")),
)
_NUMBERED = ("key", "id")
_KEY_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{12}")
_KEY_ID_FIELDS = ("id", "key", "actor")
_VARYING = re.compile(
    r"seconds|estimate|resets_in|oldest_wait|longest_document|had_lately|worker|fence|seq|.*_at|at|day|extractor"
)
"""Fields whose values differ from run to run; only whether there is one is compared."""


class Normaliser:
    """Replaces what differs from run to run by names; equal values get equal names."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = {word: f"<{name}>" for word, name in words.items()}
        self._names: dict[str, str] = {}
        self._totals: dict[str, int] = {}

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self._field(name, item) for name, item in value.items()}
        return value

    def _field(self, name: str, value: Any) -> Any:
        if _VARYING.fullmatch(name) and isinstance(value, str | float | int):
            return f"<{name}>"
        if name in _KEY_ID_FIELDS and isinstance(value, str) and _KEY_ID.fullmatch(value):
            self._words[value] = self._name("key id", value)
        return self.value(value)

    def text(self, text: str) -> str:
        for word, name in self._words.items():
            text = text.replace(word, name)
        for kind, pattern in _PATTERNS:
            text = pattern.sub(self._replacement(kind), text)
        return text

    def _replacement(self, kind: str) -> Callable[[re.Match[str]], str]:
        return lambda match: self._name(kind, match[0]) if kind in _NUMBERED else f"<{kind}>"

    def _name(self, kind: str, text: str) -> str:
        if text not in self._names:
            self._totals[kind] = self._totals.get(kind, 0) + 1
            self._names[text] = f"<{kind} {self._totals[kind]}>"
        return self._names[text]


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def check_snapshot(name: str, content: str) -> None:
    """Fail with a diff where the content is not what the file of this name expects."""
    path = FOLDER / name
    if _IS_UPDATE:
        path.write_text(content, "utf-8")
        return
    expected = path.read_text("utf-8") if path.exists() else ""
    if content != expected:
        diff = difflib.unified_diff(
            expected.splitlines(),
            content.splitlines(),
            f"tests/snapshots/{name}",
            "now",
            lineterm="",
        )
        pytest.fail(
            "\n".join(diff) + f"\n\n{name} is not as recorded. If the change is intended, record "
            f"it with {UPDATE}=1 pytest tests/snapshots and commit the difference.",
            pytrace=False,
        )
