"""Documents from the wild, read through a real child, against what is known of them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.core.documents import Broken, Failed
from fairlead.work.results import Extraction, parse_answer
from fairlead.work.sandbox import Job

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
MANIFEST = CORPUS / "manifest.csv"
READ = (".pdf", ".docx", ".html", ".eml", ".txt")

pytestmark = pytest.mark.skipif(not MANIFEST.exists(), reason=f"no corpus at {CORPUS}")

Outcome = Callable[[str], Extraction | Failed | Broken]


def rows() -> dict[str, dict[str, str]]:
    if not MANIFEST.exists():
        return {}
    with MANIFEST.open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


ROWS = rows()
GOOD = [name for name in ROWS if name.endswith(READ) and ROWS[name]["expected_outcome"] == "ok"]
UNREAD = [name for name in ROWS if not name.endswith(READ)]


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def outcome(start: Any) -> Outcome:
    """What a real child makes of a file."""

    def run(name: str) -> Extraction | Failed | Broken:
        reading = start()
        reading.until_ready().send(Job(CORPUS / name, ROWS[name]["sha256"]))
        return parse_answer(reading.answer().raw)

    return run


@pytest.mark.parametrize("name", GOOD)
def test_the_known_words_are_found(outcome: Outcome, name: str) -> None:
    found = outcome(name)
    assert isinstance(found, Extraction), found
    assert plain(ROWS[name]["expected_snippet"]) in plain(found.text)
    if ROWS[name]["pages"]:
        assert found.facts["pages"] == int(ROWS[name]["pages"])


@pytest.mark.parametrize("name", UNREAD)
def test_kinds_nobody_reads_yet_are_unsupported(outcome: Outcome, name: str) -> None:
    found = outcome(name)
    assert isinstance(found, Failed)
    assert found.code == "unsupported"
    assert "seems to be" in found.detail


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("libreoffice-writer-password.pdf", {"encrypted"}),
        ("docx_bomb_1g_text.docx", {"too-large"}),
        ("exe_renamed.docx", {"unsupported"}),
        ("one_byte.pdf", {"unsupported", "damaged"}),
    ],
)
def test_refusals(outcome: Outcome, name: str, codes: set[str]) -> None:
    found = outcome(name)
    assert isinstance(found, Failed)
    assert found.code in codes


def test_a_scan_says_that_it_may_be_one(outcome: Outcome) -> None:
    found = outcome("ocr_test.pdf")
    assert isinstance(found, Extraction)
    assert found.facts["warnings"] == ["no text was found: the document may be a scan"]


def test_fifty_thousand_pages_stay_within_the_limits(outcome: Outcome) -> None:
    found = outcome("pages50k_shared.pdf")
    assert isinstance(found, Extraction)
    assert found.facts["pages"] == 50_000
    assert found.text.count("Same page") == 50_000
