"""Reads a few documents of our own in the fork server, before it forks the first child.

Libraries and codecs build tables at their first use, and Python specialises code after some runs.
The fork server does both once for all children.
"""

from __future__ import annotations

import codecs
import io
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from fairlead.read import ReadLimits, extract

_PDF = b"""%PDF-1.4
1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj
2 0 obj <</Type /Pages /Kids [3 0 R] /Count 1>> endobj
3 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 300 99] /Contents 4 0 R
/Resources <</Font <</F 5 0 R>>>>>> endobj
4 0 obj <</Length 45>> stream
BT /F 9 Tf 9 50 Td (Hello) Tj 0 -20 Td (you) Tj ET
endstream endobj
5 0 obj <</Type /Font /Subtype /Type1 /BaseFont /Helvetica>> endobj
6 0 obj <</Title (Hello) /CreationDate (D:20240102030405Z)>> endobj
trailer <</Root 1 0 R /Info 6 0 R>>
"""
_MAIL = b"""From: a@example.com
Date: Tue, 02 Jan 2024 03:04:05 +0000
Subject: =?utf-8?q?Hello?=
MIME-Version: 1.0
Content-Type: text/html; charset=utf-8

<html><body><h1>Hello</h1><table><tr><td>you</td></tr></table></body></html>
"""
_RICH_TEXT = rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset238 Arial;}}\f0 Hello\par you}"
_TYPES = "[Content_Types].xml"
_OFFICE = "application/vnd.openxmlformats-officedocument"
_LINKED = 'xmlns:r="r" r:id="i"'
_LINES = range(20)  # paragraphs or rows: enough for Python to specialise the code of a reader
_WORD = {
    _TYPES: f'<Types><Override ContentType="{_OFFICE}.wordprocessingml.document.main+xml"/>'
    "</Types>",
    "word/document.xml": "<document><body>"
    + "<p><pPr><pStyle val='a'/></pPr><r><t>Hello you</t><br/></r></p>" * len(_LINES)
    + "<tbl><tr><tc><p><r><t>a</t></r></p></tc><tc><p/></tc></tr></tbl></body></document>",
    "docProps/core.xml": "<a><title>Hello</title><created>2024-01-02T03:04:05Z</created></a>",
}
_SHEET = {
    _TYPES: f'<Types><Override ContentType="{_OFFICE}.spreadsheetml.sheet.main+xml"/></Types>',
    "xl/workbook.xml": f"<workbook><sheets><sheet name='a' {_LINKED}/></sheets></workbook>",
    "xl/_rels/workbook.xml.rels": "<Relationships>"
    "<Relationship Id='i' Type='/worksheet' Target='sheet.xml'/></Relationships>",
    "xl/sheet.xml": "<worksheet><sheetData>"
    + "".join(
        f"<row r='{row + 1}'><c r='A{row + 1}' t='inlineStr'><is><t>Hello</t></is></c>"
        f"<c r='B{row + 1}'><v>{row}.5</v></c></row>"
        for row in _LINES
    )
    + "</sheetData></worksheet>",
}
_SLIDES = {
    _TYPES: f'<Types><Override ContentType="{_OFFICE}.presentationml.presentation.main+xml"/>'
    "</Types>",
    "ppt/presentation.xml": f"<presentation><sldIdLst><sldId {_LINKED}/></sldIdLst></presentation>",
    "ppt/_rels/presentation.xml.rels": "<Relationships>"
    "<Relationship Id='i' Type='/slide' Target='slide.xml'/></Relationships>",
    "ppt/slide.xml": "<sld><sp><txBody>"
    + "<p><r><t>Hello you</t></r></p>" * len(_LINES)
    + "</txBody></sp></sld>",
}
_WRITER = {
    "mimetype": "application/vnd.oasis.opendocument.text",
    "content.xml": "<document-content xmlns:text='t'><body><text>"
    + "<text:h>Hello</text:h><text:p>you <text:span>all</text:span></text:p>" * len(_LINES)
    + "</text></body></document-content>",
}
CODECS = ("cp437", "cp874", *(f"cp{number}" for number in range(1250, 1259)))
_ROUNDS = 3


def samples() -> list[bytes]:
    packages = [_packed(members) for members in (_WORD, _SHEET, _SLIDES, _WRITER)]
    return [_PDF, _MAIL, _RICH_TEXT, "Hello, wörld".encode("utf-16"), b"a,b\n1,2\n", *packages]


def warm_up() -> None:
    """Read all samples. Errors are ignored, because each child reports them itself."""
    for name in CODECS:
        codecs.lookup(name)
    datetime.strptime("2024", "%Y")  # noqa: DTZ007 (it loads a module)
    with suppress(OSError), tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        for number, content in enumerate(samples() * _ROUNDS):
            path = Path(folder, str(number))
            path.write_bytes(content)
            with suppress(Exception):
                extract(path, limits=ReadLimits())


def _packed(members: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()
