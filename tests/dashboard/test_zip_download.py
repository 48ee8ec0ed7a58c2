"""The texts of selected documents as one zip file; documents of others are unknown."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from apikit import problem, served
from dashkit import customer, operator
from resultkit import add_done, add_failed

from fairlead import Fairlead

pytestmark = pytest.mark.services


def test_the_zip_has_the_texts_of_what_is_done(tmp_path: Path) -> None:
    with Fairlead(tmp_path / "data") as fairlead:
        one, two = add_done(fairlead, "acme", ["one", "zwei äöü"])
        failed = add_failed(fairlead, "acme")
        (foreign,) = add_done(fairlead, "bolt", ["secret"])
    with served(tmp_path / "data", "--workers", "0") as server:
        acme = customer(server, "acme")
        answer = acme.get("/texts.zip", params={"id": [one.id, two.id, failed.id], "state": "done"})
        assert answer.headers["content-type"] == "application/zip"
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            assert archive.testzip() is None
            texts = {name: archive.read(name).decode() for name in archive.namelist()}
        assert texts == {f"{one.id}-one.txt": "one", f"{two.id}-zwei äöü.txt": "zwei äöü"}
        plain = {"Accept": "*/*"}
        refused = acme.get("/texts.zip", params={"id": [one.id, foreign.id]}, headers=plain)
        problem(refused, "unknown-document", 404)
        everything = operator(server).get("/texts.zip", params={"id": [one.id, foreign.id]})
        with zipfile.ZipFile(io.BytesIO(everything.content)) as archive:
            assert len(archive.namelist()) == 2
