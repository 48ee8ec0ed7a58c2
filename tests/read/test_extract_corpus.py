"""Documents from the wild, against what is known of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from needs import need_languages

from fairlead.read import CannotRead, Extracted, extract

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
MANIFEST = CORPUS / "manifest.csv"

pytestmark = pytest.mark.skipif(not MANIFEST.exists(), reason=f"no corpus at {CORPUS}")


def rows() -> dict[str, dict[str, str]]:
    if not MANIFEST.exists():
        return {}
    with MANIFEST.open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


ROWS = rows()


def having(*outcomes: str) -> list[str]:
    return [name for name, row in ROWS.items() if row["expected_outcome"] in outcomes]


def plain(text: str) -> str:
    return " ".join(text.split())


def check(name: str, extracted: Extracted) -> None:
    row = ROWS[name]
    snippet = row["expected_snippet"]
    either = snippet.split("|") if row["category"] == "xlsx" else [snippet]
    assert any(plain(words) in plain(extracted.text) for words in either)
    assert extracted.markdown is None or plain(either[0])[:9] in plain(extracted.markdown)
    if row["pages"]:
        assert extracted.facts["pages"] == int(row["pages"])


@pytest.mark.parametrize("name", having("ok", "bounded"))
def test_the_known_words_are_found(name: str) -> None:
    check(name, extract(CORPUS / name))


@pytest.mark.parametrize("name", having("ok-ocr"))
def test_scans_are_read(name: str) -> None:
    need_languages("eng", "osd")
    check(name, extract(CORPUS / name))


@pytest.mark.parametrize("name", having("reject", "reject-or-bounded", "needs-password"))
def test_what_is_refused_has_a_clear_code(name: str) -> None:
    with pytest.raises(CannotRead) as caught:
        extract(CORPUS / name)
    wanted = {"needs-password": {"encrypted"}}
    codes = wanted.get(ROWS[name]["expected_outcome"], {"unsupported", "damaged", "too-large"})
    assert caught.value.code in codes


@pytest.mark.parametrize("name", having("needs-password"))
def test_the_right_password_opens_and_a_wrong_one_does_not(name: str) -> None:
    password = ROWS[name]["fields_or_note"].removeprefix("password: ")
    check(name, extract(CORPUS / name, password=password))
    with pytest.raises(CannotRead, match="does not open"):
        extract(CORPUS / name, password="wrong")


@pytest.mark.parametrize("name", [n for n, r in ROWS.items() if r["fields_or_note"][:1] == "{"])
def test_invoices_tell_their_fields(name: str) -> None:
    wanted = json.loads(ROWS[name]["fields_or_note"])
    wanted.pop("truth")
    wanted["number"] = wanted.pop("invoice_number")
    extracted = extract(CORPUS / name).facts["invoice"]
    assert isinstance(extracted, dict)
    assert {key: extracted.get(key) for key in wanted} == wanted


def test_many_pages_are_cut_with_a_warning() -> None:
    extracted = extract(CORPUS / "pages50k_shared.pdf")
    assert extracted.facts["warnings"] == ["only the first 5000 of 50000 pages were read"]
