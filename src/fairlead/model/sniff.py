"""Guesses the shape and pages of a document from its first bytes, to estimate its cost.

It parses nothing, and may be wrong.
"""

from __future__ import annotations

import re

from fairlead.model.documents import Sniff

_SIGNATURES = (
    (b"%PDF-", "pdf"),
    (b"\xd0\xcf\x11\xe0", "ole"),
    (b"{\\rtf", "rtf"),
    (b"\x89PNG", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"BM", "image"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
    (b"\x1f\x8b", "archive"),
)
_SIGNS = tuple(sign for sign, _ in _SIGNATURES)
_MEMBERS = (
    (b"word/", "docx"),
    (b"xl/", "xlsx"),
    (b"ppt/", "pptx"),
    (b"opendocument.text", "odt"),
    (b"opendocument.spreadsheet", "ods"),
    (b"opendocument.presentation", "odp"),
    (b"epub", "epub"),
)
_PAGES = re.compile(rb"/Linearized\b[^>]{0,400}?/N\s{1,4}(\d{1,6})\b")
_MAIL = re.compile(rb"(?:received|return-path|from|mime-version|message-id|delivered-to):", re.I)
_MARKUP = re.compile(rb"\s{0,200}(?:<!doctype html|<html|<head|<body|<\?xml)", re.I)


def look(head: bytes) -> Sniff:
    """The shape and pages that the first bytes suggest."""
    shape = _shape(head)
    match = _PAGES.search(head) if shape == "pdf" else None
    return Sniff(shape, int(match[1]) if match else None)


def _shape(head: bytes) -> str:
    if head.startswith(b"PK\x03\x04"):
        return next((shape for sign, shape in _MEMBERS if sign in head), "archive")
    if head[8:12] == b"WEBP":
        return "image"
    if head.startswith(_SIGNS):
        return next(shape for sign, shape in _SIGNATURES if head.startswith(sign))
    return _shape_of_text(head)


def _shape_of_text(head: bytes) -> str:
    if _MAIL.match(head):
        return "mail"
    if _MARKUP.match(head):
        return "markup"
    is_text = b"\x00" not in head or head.startswith((b"\xff\xfe", b"\xfe\xff"))
    return "text" if is_text else "other"
