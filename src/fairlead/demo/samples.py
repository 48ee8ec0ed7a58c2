"""Sample documents: real files of the kinds that offices send, made up on the spot.

PDF, DOCX, HTML, e-mail and plain text take turns. The same seed gives the same bytes, and each
document holds its own reference number, by which its text can be told from all others.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from random import Random
from typing import Any, NamedTuple

from fairlead.errors import MissingExtra


class Sample(NamedTuple):
    """A document; its reference number stands in its text, and in that of no other sample."""

    name: str
    content: bytes
    reference: str


class Item(NamedTuple):
    """A line of an invoice."""

    label: str
    number: int
    price: float


class Letter(NamedTuple):
    """What a sample says, whatever kind of file it becomes."""

    reference: str
    heading: str
    sender: str
    recipient: str
    date: datetime
    items: list[Item]
    paragraphs: list[str]


PAGES = (1, 12)

_COMPANIES = (
    "Harbour & Quay Ltd",
    "Müller Feinmechanik GmbH",
    "Panadería del Puerto S.L.",
    "Northfield Dental Group",
    "Oficina Três Irmãos Lda",
    "Blackwater Joinery",
    "Kestrel Freight",
    "Lindqvist Optics AB",
    "Orchard Street Pharmacy",
    "Tanaka Print Works",
)
_HEADINGS = (
    "Invoice for services",
    "Quarterly report",
    "Delivery note",
    "Letter of confirmation",
    "Minutes of the review",
    "Statement of account",
)
_GOODS = (
    "Pallet, standard",
    "Bearing 6204",
    "Printer paper, 500 sheets",
    "Site visit, half day",
    "Translation, per page",
    "Oak board, 2 m",
    "Storage, per week",
    "Lens, 50 mm",
    "Flour, 25 kg",
    "Calibration",
)
_SENTENCES = (
    "Thank you for the order that reached us last week.",
    "The goods left our warehouse complete and in good condition.",
    "Two positions were delivered later than agreed, for which we apologise.",
    "Please transfer the amount within thirty days and quote the reference above.",
    "Turnover grew in the second half, mostly because of returning customers.",
    "The cost of transport rose again and can no longer be absorbed by savings elsewhere.",
    "We suggest a call before the end of the month to settle the open points.",
    "All measurements were repeated after the repair and stayed within tolerance.",
    "The workshop will be closed for stocktaking on the last Friday of the quarter.",
    "A revised offer is attached; prices hold for six weeks.",
    "Complaints fell by a third after the packaging was changed.",
    "The auditors asked for copies of the delivery notes, which we have sent to them.",
    "Should any item be missing, tell us within eight days of receipt.",
    "Training for the new equipment took place on two afternoons.",
    "We have noted your new billing address and will use it from now on.",
    "The committee approved the budget without changes.",
)


def samples(count: int, *, seed: int, pages: tuple[int, int] = PAGES) -> Iterator[Sample]:
    """Make this many documents, kind after kind.

    The document at one place depends on `seed`, its place and `pages` alone, not on `count`.

    Args:
        count: How many.
        seed: The same seed gives the same documents, byte for byte.
        pages: The fewest and the most pages of a PDF.

    Raises:
        MissingExtra: A library that writes one of the kinds is not installed.
    """
    for place in range(count):
        # Random() takes any string alike on every machine; nothing secret hangs on it.
        random = Random(f"{seed}/{place}")  # noqa: S311
        suffix, make = _KINDS[place % len(_KINDS)]
        letter = _letter(random, place)
        content = make(letter, random.randint(*pages))
        yield Sample(f"{letter.reference.lower()}.{suffix}", content, letter.reference)


def _letter(random: Random, place: int) -> Letter:
    sender, recipient = random.sample(_COMPANIES, 2)
    return Letter(
        reference=f"REF-{random.randrange(10_000):04d}-{place:06d}",
        heading=random.choice(_HEADINGS),
        sender=sender,
        recipient=recipient,
        date=datetime(2024, 1, 1, 9, tzinfo=UTC) + timedelta(hours=random.randrange(9_000)),
        items=[_item(random) for _ in range(random.randint(2, 6))],
        paragraphs=_paragraphs(random, 3),
    )


def _item(random: Random) -> Item:
    return Item(random.choice(_GOODS), random.randint(1, 40), random.randint(300, 90_000) / 100)


def _total(letter: Letter) -> str:
    return f"Total: {sum(item.number * item.price for item in letter.items):.2f} EUR"


def _lines(letter: Letter) -> list[str]:
    """The head of the letter, line by line."""
    return [
        f"Reference: {letter.reference}",
        f"From: {letter.sender}",
        f"To: {letter.recipient}",
        f"Date: {letter.date:%Y-%m-%d}",
    ]


def _cells(item: Item) -> tuple[str, str, str]:
    return item.label, str(item.number), f"{item.price:.2f}"


def _pdf(letter: Letter, pages: int) -> bytes:
    try:
        from reportlab.pdfgen.canvas import Canvas  # noqa: PLC0415 (an extra)
    except ImportError:
        raise _missing("reportlab") from None
    file = io.BytesIO()
    # `invariant` leaves the time of making out, so that the same seed gives the same bytes.
    canvas = Canvas(file, pagesize=(595, 842), invariant=1)
    canvas.setTitle(f"{letter.heading} {letter.reference}")
    canvas.setAuthor(letter.sender)
    rows = ["   ".join(_cells(item)) for item in letter.items]
    body = [*_lines(letter), "", *rows, _total(letter), "", *_wrapped(letter.paragraphs)]
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
    return [" ".join(random.sample(_SENTENCES, 4)) for _ in range(number)]


def _wrapped(paragraphs: list[str]) -> list[str]:
    """One line for each sentence, and an empty one after each paragraph."""
    return [
        line
        for paragraph in paragraphs
        for line in (*(f"{part.rstrip('.')}." for part in paragraph.split(". ")), "")
    ]


def _docx(letter: Letter, _pages: int) -> bytes:
    try:
        from docx import Document  # noqa: PLC0415 (an extra)
    except ImportError:
        raise _missing("python-docx") from None
    document = Document()
    document.core_properties.title = f"{letter.heading} {letter.reference}"
    document.core_properties.author = letter.sender
    document.add_heading(letter.heading, level=1)
    for line in _lines(letter):
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
    """The same archive without the time of making: the same seed gives the same bytes."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as old,
        zipfile.ZipFile(out, "w") as new,
    ):
        for name in old.namelist():
            new.writestr(zipfile.ZipInfo(name), old.read(name), zipfile.ZIP_DEFLATED, 1)
    return out.getvalue()


def _html(letter: Letter, _pages: int) -> bytes:
    try:
        from lxml import etree  # noqa: PLC0415 (an extra)
    except ImportError:
        raise _missing("lxml") from None
    page = etree.Element("html", lang="en")
    head, body = etree.SubElement(page, "head"), etree.SubElement(page, "body")
    etree.SubElement(head, "meta", charset="utf-8")
    etree.SubElement(head, "title").text = f"{letter.heading} {letter.reference}"
    etree.SubElement(body, "h1").text = letter.heading
    for line in _lines(letter):
        etree.SubElement(body, "p").text = line
    table = etree.SubElement(body, "table")
    for item in letter.items:
        row = etree.SubElement(table, "tr")
        for cell in _cells(item):
            etree.SubElement(row, "td").text = cell
    for line in (_total(letter), *letter.paragraphs):
        etree.SubElement(body, "p").text = line
    return etree.tostring(page, method="html", encoding="utf-8", doctype="<!doctype html>")


def _email(letter: Letter, _pages: int) -> bytes:
    message = EmailMessage()
    message["Subject"] = f"{letter.heading} {letter.reference}"
    message["From"] = "office@sender.example"
    message["To"] = "accounts@recipient.example"
    message["Date"] = letter.date
    message["Message-ID"] = f"<{letter.reference.lower()}@sender.example>"
    message.set_content("\n\n".join([*_lines(letter), *letter.paragraphs, letter.sender]))
    rows = "\n".join(";".join(_cells(item)) for item in letter.items)
    message.add_attachment(f"item;number;price\n{rows}\n", subtype="csv", filename="items.csv")
    # Left alone, the library would draw a boundary by chance.
    message.set_boundary(f"=={letter.reference}==")
    return message.as_bytes()


def _text(letter: Letter, _pages: int) -> bytes:
    rows = [
        f"{label:<30}{number:>6}{price:>12}" for label, number, price in map(_cells, letter.items)
    ]
    parts = [
        letter.heading,
        *_lines(letter),
        "",
        *rows,
        _total(letter),
        "",
        *_wrapped(letter.paragraphs),
    ]
    return "\n".join(parts).encode()


def _missing(library: str) -> MissingExtra:
    return MissingExtra(
        f"sample documents need {library}, which is not installed; "
        "install it with: pip install 'fairlead[demo]'"
    )


_KINDS = (("pdf", _pdf), ("docx", _docx), ("html", _html), ("eml", _email), ("txt", _text))
