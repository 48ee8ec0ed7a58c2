"""Documents from the wild through real workers behind all their locks."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from needs import need_languages

from fairlead import Fairlead
from fairlead.model.documents import Document

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
MANIFEST = CORPUS / "manifest.csv"

pytestmark = [
    pytest.mark.services,
    pytest.mark.full,
    pytest.mark.skipif(not MANIFEST.exists(), reason=f"no corpus at {CORPUS}"),
]

REFUSED = {"unsupported", "damaged", "too-large", "encrypted", "time-limit", "memory-limit"}


def plain(text: str) -> str:
    return " ".join(text.split())


def is_as_known(fairlead: Fairlead, row: dict[str, str], document: Document) -> bool:
    """Whether a document ended as the manifest says."""
    if document.error is not None:
        return row["expected_outcome"].startswith("reject") and document.error in REFUSED
    if row["expected_outcome"] == "reject":
        return False
    snippets = row["expected_snippet"].split("|")
    return any(plain(snippet) in plain(fairlead.text(document.id)) for snippet in snippets)


def test_every_file_ends_as_its_manifest_says(tmp_path: Path) -> None:
    need_languages("eng", "osd")
    with MANIFEST.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with Fairlead(tmp_path, settings={"retry_delay": 0.01}) as fairlead:
        documents = {}
        for row in rows:
            note = row["fields_or_note"]
            password = note.removeprefix("password: ") if "password: " in note else None
            document = fairlead.submit("acme", CORPUS / row["file"], password=password)
            documents[row["file"]] = document.id
        fairlead.run_until_idle(workers=2)
        ended = {name: fairlead.document(id_) for name, id_ in documents.items()}
        wrong = {
            row["file"]: (ended[row["file"]].error, ended[row["file"]].detail)
            for row in rows
            if not is_as_known(fairlead, row, ended[row["file"]])
        }
        assert wrong == {}
        mails = fairlead.documents(parent=documents["fake-email-attachment.eml"]).items
        assert len(mails) == 1
