"""Sniffing the first bytes: the shape and, if they state it, the number of pages."""

from __future__ import annotations

import io
import zipfile

import pytest

from fairlead.model.documents import Sniff
from fairlead.model.sniff import look


def package(*names: str, content: bytes = b"x") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("head", "shape"),
    [
        (b"%PDF-1.7\n1 0 obj", "pdf"),
        (package("[Content_Types].xml", "word/document.xml"), "docx"),
        (package("[Content_Types].xml", "xl/workbook.xml"), "xlsx"),
        (package("[Content_Types].xml", "ppt/slides/slide1.xml"), "pptx"),
        (package("mimetype", content=b"application/vnd.oasis.opendocument.text"), "odt"),
        (package("mimetype", content=b"application/epub+zip"), "epub"),
        (package("letter.txt"), "archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
        (b"{\\rtf1\\ansi", "rtf"),
        (b"\x89PNG\r\n\x1a\n", "image"),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image"),
        (b"\xff\xd8\xff\xe0", "image"),
        (b"From: a@b.example\nTo: c@d.example\n\nHello", "mail"),
        (b"  <!DOCTYPE html><html>", "markup"),
        (b"Dear customer,", "text"),
        ("Grüße".encode("utf-16"), "text"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "other"),
        (b"", "text"),
    ],
)
def test_the_shape_follows_from_the_first_bytes(head: bytes, shape: str) -> None:
    assert look(head) == Sniff(shape)


def test_a_linearized_pdf_tells_its_pages() -> None:
    head = b"%PDF-1.7\n1 0 obj\n<</Linearized 1/L 9/O 3/E 7/N 312/T 8/H [ 4 5 ]>>\nendobj\n"
    assert look(head) == Sniff("pdf", 312)


def test_a_hostile_head_is_looked_at_quickly() -> None:
    assert look(b"%PDF-" + b"/Linearized" * 400) == Sniff("pdf")
    assert look(b" " * 4096).shape == "text"
