"""Reads a few documents of our own before the first child is forked.

Libraries and codecs make tables of theirs when they are first used. What is done once in the
process that children are forked from need not be done in each of them.
"""

from __future__ import annotations

import codecs
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from fairlead.work.extract import ReadLimits, extract

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
CODECS = ("cp437", "cp874", *(f"cp{number}" for number in range(1250, 1259)))
SAMPLES = (_PDF, _MAIL, _RICH_TEXT, "Hello, wörld".encode("utf-16"), b"a,b\n1,2\n")


def warm_up() -> None:
    """Read all samples; what cannot be read here, no child can, and each will say so itself."""
    for name in CODECS:
        codecs.lookup(name)
    datetime.strptime("2024", "%Y")  # noqa: DTZ007 (it loads a module)
    with suppress(OSError), tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        for number, content in enumerate(SAMPLES):
            path = Path(folder, str(number))
            path.write_bytes(content)
            with suppress(Exception):
                extract(path, limits=ReadLimits())
