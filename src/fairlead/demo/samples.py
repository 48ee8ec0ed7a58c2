"""Generates sample documents: PDF, DOCX, HTML, e-mail and plain text in turn.

The same seed gives the same bytes, and each document contains a unique reference number.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from functools import cache
from importlib import import_module
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple

from fairlead.errors import MissingExtra
from fairlead.extras import install_command


class SampleDocument(NamedTuple):
    """A document whose text contains its reference number."""

    name: str
    content: bytes
    reference: str


class InvoiceItem(NamedTuple):
    """A line of an invoice."""

    label: str
    number: int
    price: float


class Letter(NamedTuple):
    """The content of a sample, independent of the kind of file."""

    reference: str
    heading: str
    sender: str
    recipient: str
    date: datetime
    items: list[InvoiceItem]
    paragraphs: list[str]


@cache
def _words(kind: str) -> list[str]:
    """The companies, headings, goods or sentences that samples are made of."""
    vocabulary = json.loads(files(__package__).joinpath("samples.json").read_text("utf-8"))
    return list(vocabulary[kind])


def samples(count: int, *, seed: int, pages: tuple[int, int] = (1, 12)) -> Iterator[SampleDocument]:
    """Make this many documents; a PDF has `pages` pages, at least and at most.

    A document depends on `seed`, its number and `pages` alone, not on `count`.

    Raises:
        MissingExtra: A library that writes one of the kinds is not installed.
    """
    for number in range(count):
        random = Random(f"{seed}/{number}")  # noqa: S311 (not a secret)
        suffix, make = _KINDS[number % len(_KINDS)]
        letter = _letter(random, number)
        content = make(letter, random.randint(*pages))
        yield SampleDocument(f"{letter.reference.lower()}.{suffix}", content, letter.reference)


def _letter(random: Random, number: int) -> Letter:
    sender, recipient = random.sample(_words("companies"), 2)
    return Letter(
        reference=f"REF-{random.randrange(10_000):04d}-{number:06d}",
        heading=random.choice(_words("headings")),
        sender=sender,
        recipient=recipient,
        date=datetime(2024, 1, 1, 9, tzinfo=UTC) + timedelta(hours=random.randrange(9_000)),
        items=[_item(random) for _ in range(random.randint(2, 6))],
        paragraphs=_paragraphs(random, 3),
    )


def _item(random: Random) -> InvoiceItem:
    return InvoiceItem(
        random.choice(_words("goods")), random.randint(1, 40), random.randint(300, 90_000) / 100
    )


def _total(letter: Letter) -> str:
    return f"Total: {sum(item.number * item.price for item in letter.items):.2f} EUR"


def _header(letter: Letter) -> list[str]:
    return [
        f"Reference: {letter.reference}",
        f"From: {letter.sender}",
        f"To: {letter.recipient}",
        f"Date: {letter.date:%Y-%m-%d}",
    ]


def _cells(item: InvoiceItem) -> tuple[str, str, str]:
    return item.label, str(item.number), f"{item.price:.2f}"


def _pdf(letter: Letter, pages: int) -> bytes:
    file = io.BytesIO()
    # `invariant` omits the creation time, so that the same seed gives the same bytes.
    canvas = _extra("reportlab.pdfgen.canvas").Canvas(file, pagesize=(595, 842), invariant=1)
    canvas.setTitle(f"{letter.heading} {letter.reference}")
    canvas.setAuthor(letter.sender)
    rows = ["   ".join(_cells(item)) for item in letter.items]
    body = [*_header(letter), "", *rows, _total(letter), "", *_wrapped(letter.paragraphs)]
    for page in range(1, pages + 1):
        _pdf_page(canvas, f"{letter.heading}, page {page} of {pages}", body)
        body = _wrapped(_paragraphs(Random(f"{letter.reference}/{page}"), 8))  # noqa: S311
    canvas.save()
    return file.getvalue()


def _pdf_page(canvas: Any, heading: str, lines: list[str]) -> None:
    canvas.setFont("Helvetica-Bold", 14)
    canvas.drawString(60, 780, heading)
    text = canvas.beginText(60, 750)
    text.setFont("Helvetica", 10, leading=14)
    for line in lines:
        text.textLine(line)
    canvas.drawText(text)
    canvas.showPage()


def _paragraphs(random: Random, number: int) -> list[str]:
    return [" ".join(random.sample(_words("sentences"), 4)) for _ in range(number)]


def _wrapped(paragraphs: list[str]) -> list[str]:
    """One line for each sentence, and an empty one after each paragraph."""
    return [
        line
        for paragraph in paragraphs
        for line in (*(f"{part.rstrip('.')}." for part in paragraph.split(". ")), "")
    ]


def _docx(letter: Letter, _pages: int) -> bytes:
    document = _extra("docx", library="python-docx").Document()
    document.core_properties.title = f"{letter.heading} {letter.reference}"
    document.core_properties.author = letter.sender
    document.add_heading(letter.heading, level=1)
    for line in _header(letter):
        document.add_paragraph(line)
    document.add_heading("Items", level=2)
    table = document.add_table(rows=0, cols=3)
    for item in letter.items:
        for cell, value in zip(table.add_row().cells, _cells(item), strict=True):
            cell.text = value
    document.add_paragraph(_total(letter))
    document.add_heading("Remarks", level=2)
    for paragraph in letter.paragraphs:
        document.add_paragraph(paragraph)
    file = io.BytesIO()
    document.save(file)
    return _undated(file.getvalue())


def _undated(archive: bytes) -> bytes:
    """The same archive without creation times: the same seed gives the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(zipfile.ZipInfo(name), old.read(name), zipfile.ZIP_DEFLATED, 1)
    return out.getvalue()


def _html(letter: Letter, _pages: int) -> bytes:
    etree = _extra("lxml.etree")
    page = etree.Element("html", lang="en")
    head, body = etree.SubElement(page, "head"), etree.SubElement(page, "body")
    etree.SubElement(head, "meta", charset="utf-8")
    etree.SubElement(head, "title").text = f"{letter.heading} {letter.reference}"
    etree.SubElement(body, "h1").text = letter.heading
    for line in _header(letter):
        etree.SubElement(body, "p").text = line
    table = etree.SubElement(body, "table")
    for item in letter.items:
        row = etree.SubElement(table, "tr")
        for cell in _cells(item):
            etree.SubElement(row, "td").text = cell
    for line in (_total(letter), *letter.paragraphs):
        etree.SubElement(body, "p").text = line
    return bytes(etree.tostring(page, method="html", encoding="utf-8", doctype="<!doctype html>"))


def _email(letter: Letter, _pages: int) -> bytes:
    message = EmailMessage()
    message["Subject"] = f"{letter.heading} {letter.reference}"
    message["From"] = "office@sender.example"
    message["To"] = "accounts@recipient.example"
    message["Date"] = letter.date
    message["Message-ID"] = f"<{letter.reference.lower()}@sender.example>"
    message.set_content("\n\n".join([*_header(letter), *letter.paragraphs, letter.sender]))
    rows = "\n".join(";".join(_cells(item)) for item in letter.items)
    message.add_attachment(f"item;number;price\n{rows}\n", subtype="csv", filename="items.csv")
    # The library's own boundary is random.
    message.set_boundary(f"=={letter.reference}==")
    return message.as_bytes()


def _text(letter: Letter, _pages: int) -> bytes:
    cells = map(_cells, letter.items)
    rows = [f"{label:<30}{number:>6}{price:>12}" for label, number, price in cells]
    lines = [letter.heading, *_header(letter), "", *rows, _total(letter), ""]
    return "\n".join([*lines, *_wrapped(letter.paragraphs)]).encode()


def _extra(module: str, library: str = "") -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(
            f"sample documents need {library or module.partition('.')[0]}, which is not installed; "
            f"install it: {install_command('demo')}"
        ) from None


_KINDS = (("pdf", _pdf), ("docx", _docx), ("html", _html), ("eml", _email), ("txt", _text))
