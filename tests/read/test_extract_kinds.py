"""A document is recognised by its content, never by its name."""

from __future__ import annotations

import gzip
import io
import random
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from olefiles import compound

from fairlead import read as package
from fairlead.errors import MissingExtra
from fairlead.read import CannotRead, Extracted, kinds, readers

Read = Callable[..., Extracted]
Refuse = Callable[..., CannotRead]

MAIL = b"From: Ada <ada@example.org>\r\nTo: bob@example.org\r\nSubject: Hi\r\n\r\nHello Bob\r\n"


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("text", b"just words"),
        ("text", "naïve café".encode("utf-16")),
        ("text", "naïve café".encode("utf-32")),
        ("text", "Überraschend schöne Grüße aus München, ärgerlich.".encode("cp1252")),
        ("text", b"The <html> tag opens a page, and <p> a paragraph."),
        ("text", b"<p> is a tag; close it with </p> and all is well"),
        ("text", b"Subject: and From: are headers of e-mail.\n\nSo much for that."),
        ("text", b"TO: all\nFROM: the boss\nSUBJECT: parking\n\nPlease park elsewhere."),
        ("text", b"Note: a text\nwith a colon in its first line\n"),
        ("text", b"A PDF begins with %PDF-1.7 as its first line."),
        ("text", b"MZ is how some programs begin, but this is a sentence about them all, really."),
        ("text", b"<?xml version='1.0'?><invoice><total>7</total></invoice>"),
        ("html", b"<!DOCTYPE html><title>x</title><p>y"),
        ("html", b"  \n<!-- made by hand -->\n<HTML><body>y</body></HTML>"),
        ("html", b"<?xml version='1.0'?>\n<html xmlns='http://www.w3.org/1999/xhtml'>y</html>"),
        ("html", b"<div class='a'>y</div>"),
        ("html", "<html><p>ÿ</html>".encode("utf-16")),
        ("html", "<html><p>ÿ</html>".encode("utf-16-le")),
        ("csv", "name;total\r\nKäse;7\r\nBrot;2\r\n".encode("utf-16-le")),
        ("email", MAIL),
        ("email", b"\xef\xbb\xbf" + MAIL),
        ("email", b"From ada@example.org Mon Jan  1 00:00:00 2024\n" + MAIL),
        ("email", b"Received: from a\n by b; today\nMessage-ID: <1@a>\n\nx"),
    ],
)
def test_the_kind_follows_from_the_content(read: Read, kind: str, data: bytes) -> None:
    assert read(data).kind == kind


@pytest.mark.parametrize(
    ("code", "words", "data"),
    [
        ("empty", "no content", b""),
        ("unsupported", "program", b"\x7fELF\x02\x01\x01" + bytes(100)),
        ("unsupported", "program", b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0" + bytes(40)),
        ("damaged", "picture is damaged", b"\x89PNG\r\n\x1a\n" + bytes(40)),
        ("damaged", "damaged", b"RIFF\x10\0\0\0WEBPVP8 " + bytes(40)),
        ("damaged", "damaged", gzip.compress(b"x" * 100)[:-9]),
        ("damaged", "damaged", bytes(257) + b"ustar" + bytes(300)),
        ("empty", "no members", archive()),
        ("unsupported", "xlsb", archive(**{"xl/workbook.bin": b"x"})),
        ("unsupported", "7z", b"7z\xbc\xaf\x27\x1c" + bytes(60)),
        ("unsupported", "cannot be read", random.Random(7).randbytes(5_000)),
        ("unsupported", "cannot be read", bytes(1_000)),
        ("unsupported", "cannot be read", b"\xff\xfe" + b"\x00\xd8" * 50),
        ("unsupported", "cannot be read", struct.pack("<500H", *range(500))),
        ("unsupported", "cannot be read", b"\x00\x01" * 50),
        ("damaged", "breaks off", b"%"),
        ("damaged", "its end is missing", archive(a=b"x" * 100)[:60]),
    ],
)
def test_what_cannot_be_read_is_named(refuse: Refuse, code: str, words: str, data: bytes) -> None:
    error = refuse(data)
    assert error.code == code
    assert words in error.detail


def test_old_office_documents_are_recognised_by_their_streams(refuse: Refuse) -> None:
    assert refuse(compound({"EncryptedPackage": b"x", "EncryptionInfo": b"y"})).code == "encrypted"
    assert "old Office" in refuse(compound({"Contents": b"x"})).detail
    assert refuse(compound({"WordDocument": b"x"})).kind == "doc"
    mentioned = compound({"Contents": b"xx" + "EncryptedPackage\0".encode("utf-16-le")})
    assert refuse(mentioned).code == "unsupported"


def test_an_archive_with_a_giant_directory_is_refused_before_it_is_loaded(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.read.zip.MAX_DIRECTORY_BYTES", 100_000)
    data = archive(**{f"member-{number:06}": b"" for number in range(2_000)})
    assert refuse(data).code == "too-large"


def test_the_surest_sign_is_asked_first() -> None:
    ranks = [reader.rank for reader in readers()]
    assert ranks == sorted(ranks)
    assert [reader.kind for reader in readers()][-2:] == ["csv", "text"]


NEW_KIND = """
from fairlead.read.base import Rank, Reader
from fairlead.read.draft import Draft

def recognises(source):
    return source.head.startswith(b"MEMO1")

def read(source, task):
    draft = Draft("memo", "memo 1", task.limits)
    draft.add(source.read(source.size)[5:].decode())
    return draft.finish()

READER = Reader("memo", Rank.SIGNATURE, recognises, read)
"""


def test_a_new_kind_is_one_file(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memo.py").write_text(NEW_KIND)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    kinds.readers.cache_clear()
    extracted = read(b"MEMO1to whom it may concern")
    sys.modules.pop("fairlead.read.memo")
    kinds.readers.cache_clear()
    assert (extracted.kind, extracted.text) == ("memo", "to whom it may concern")


def test_a_missing_library_is_named_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    monkeypatch.delitem(sys.modules, "fairlead.read.pdf")
    kinds.readers.cache_clear()
    with pytest.raises(MissingExtra, match=r"pypdfium2.*pip install .*\[documents\]'"):
        readers()
    kinds.readers.cache_clear()
