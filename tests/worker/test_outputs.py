"""Optional files of a document, through real workers and over HTTP."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pypdfium2
import pytest
from inprocess import InProcess, in_process
from needs import need_languages
from partkit import filled_form
from PIL import Image, ImageDraw, ImageFont
from readkit import pdf

from fairlead import Fairlead
from fairlead.model.blobs import SHORT_BYTES
from fairlead.model.documents import Document
from fairlead.model.states import State

pytestmark = pytest.mark.services

__all__ = ["pdf"]

SCANS = {"pipelines": {"scans": {"outputs": ["pages", "searchable-pdf"]}}}


def noise() -> bytes:
    """A PDF whose page is a picture that is longer than what the database stores."""
    image = Image.effect_noise((400, 400), 90).convert("L")
    image.save(buffer := io.BytesIO(), "PDF")
    return buffer.getvalue()


def test_outputs_are_files_of_the_result(tmp_path: Path, pdf: Callable[..., bytes]) -> None:
    no_ocr, outputs = {"ocr_languages": ("absent",)}, ["pages", "searchable-pdf"]
    with Fairlead(tmp_path / "data", settings=no_ocr, outputs=outputs) as fairlead:
        letter = fairlead.submit("acme", pdf("first page", "second page"), name="letter.pdf")
        note = fairlead.submit("acme", b"plain words", name="note.txt")
        photo = fairlead.submit("acme", noise(), name="noise.pdf")
        fairlead.run_until_idle(workers=1)
        assert fairlead.result(note.id).files == ()
        result = fairlead.result(letter.id)
        assert {file.name: file.media_type for file in result.files} == {
            "page-001.png": "image/png",
            "page-002.png": "image/png",
            "searchable.pdf": "application/pdf",
        }
        assert Image.open(io.BytesIO(result.file("page-002.png"))).size == (1_241, 1_754)
        assert result.file("searchable.pdf") == fairlead.original(letter.id)
        assert result.text == "first page\n\fsecond page"
        picture = fairlead.result(photo.id).file("page-001.png")
        assert len(picture) > SHORT_BYTES
        blobs = [path for path in fairlead.folder.texts.rglob("*") if path.is_file()]
        fairlead.delete(photo.id)
        left = [path for path in fairlead.folder.texts.rglob("*") if path.is_file()]
        assert len(left) < len(blobs)


def test_a_step_adds_to_the_outputs_of_reading(tmp_path: Path, pdf: Callable[..., bytes]) -> None:
    step = tmp_path / "stamp.py"
    step.write_text(
        "from fairlead import Result\n"
        "def stamp(job):\n    return Result(files={'stamp.txt': b'seen'})\n"
    )
    steps = ["read", f"{step}:stamp"]
    with Fairlead(tmp_path / "data", steps=steps, outputs=["pages"]) as fairlead:
        letter = fairlead.submit("acme", pdf("a page"))
        fairlead.run_until_idle(workers=1)
        names = [file.name for file in fairlead.result(letter.id).files]
    assert sorted(names) == ["page-001.png", "stamp.txt"]


def test_a_customer_gets_its_own_outputs_only(tmp_path: Path, pdf: Callable[..., bytes]) -> None:
    async def test(server: InProcess) -> None:
        letter = process(server.fairlead, pdf("a page"))
        keys = {name: server.fairlead.keys.add(name)[0] for name in ("acme", "other")}
        address = f"/v1/documents/{letter.id}/files/page-001.png"
        async with server.http(keys["acme"]) as own, server.http(keys["other"]) as other:
            picture = await own.get(address)
            assert picture.headers["Content-Type"] == "image/png"
            assert Image.open(io.BytesIO(picture.content)).size == (1_241, 1_754)
            assert (await other.get(address)).status_code == 404
            summary = (await own.get(f"/v1/documents/{letter.id}/result")).json()
            assert [file["name"] for file in summary["files"]] == [
                "page-001.png",
                "searchable.pdf",
            ]

    in_process(tmp_path, test, SCANS)


def process(fairlead: Fairlead, content: bytes) -> Document:
    document = fairlead.submit("acme", content, name="letter.pdf", pipeline="scans")
    fairlead.run_until_idle(workers=1)
    return fairlead.document(document.id)


def test_a_scan_is_made_searchable_in_the_sandbox(tmp_path: Path) -> None:
    need_languages("eng")
    image = Image.new("L", (900, 300), 255)
    ImageDraw.Draw(image).text((60, 100), "Invoice", font=ImageFont.load_default(90), fill=0)
    image.save(buffer := io.BytesIO(), "TIFF", dpi=(200, 200))
    with Fairlead(tmp_path / "data", outputs=["searchable-pdf"]) as fairlead:
        scan = fairlead.submit("acme", buffer.getvalue(), name="scan.tiff")
        fairlead.run_until_idle(workers=1)
        assert fairlead.document(scan.id).state is State.DONE
        with pypdfium2.PdfDocument(fairlead.result(scan.id).file("searchable.pdf")) as searchable:
            assert searchable[0].get_textpage().get_text_range() == "Invoice"


def test_a_filled_form_shows_its_values_in_the_sandbox(tmp_path: Path) -> None:
    """PDFium draws values that have no picture of their own, with a font, but opens no file."""
    with Fairlead(tmp_path / "data", outputs=["pages", "searchable-pdf"]) as fairlead:
        form = fairlead.submit("acme", filled_form(), name="form.pdf")
        fairlead.run_until_idle(workers=1)
        result = fairlead.result(form.id)
        assert result.text == "page 1\nGrace Hopper\nPoland"
        page = Image.open(io.BytesIO(result.file("page-001.png"))).convert("L")
        assert result.file("searchable.pdf") == filled_form()
    x, y = page.width / 612, page.height / 792
    field = page.crop((int(152 * x), int(134 * y), int(348 * x), int(150 * y)))
    assert min(field.tobytes()) < 100
