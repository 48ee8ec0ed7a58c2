"""Tables and headings of PDFs in Markdown; prose, lists and contents stay text."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    PageTemplate,
    Paragraph,
    SimpleDocTemplate,
)
from reportlab.platypus import Table as Rows

from fairlead.read import Extracted, extract

Read = Callable[..., Extracted]

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
ITEMS = [
    ["Item", "Description", "Quantity", "Price"],
    ["1", "Garden chair of oak, oiled", "4", "120.50"],
    ["2", "Table", "1", "1,399.00"],
    ["3", "Cushion (blue)", "12", "9.90"],
    ["", "Total", "", "2,000.80"],
]
PROSE = (
    "the contract party shall deliver goods within thirty days after receipt of an order unless "
    "both sides agree on another term in writing and no notice has been given before"
)


def markdown_rows(extracted: Extracted) -> list[list[str]]:
    lines = [line for line in (extracted.markdown or "").split("\n") if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if set("".join(row)) != {"-"}]


def table(rows: Sequence[Sequence[str]], *style: object) -> bytes:
    buffer = io.BytesIO()
    SimpleDocTemplate(buffer).build([Rows(rows, style=style or None)])
    return buffer.getvalue()


def written(*lines: tuple[float, float, str, str, float], size: tuple[float, float] = A4) -> bytes:
    """A page with texts: x, distance from the top, text, font, size."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=size)
    for x, y, text, font, height in lines:
        canvas.setFont(font, height)
        canvas.drawString(x, size[1] - y, text)
    canvas.save()
    return buffer.getvalue()


@pytest.mark.parametrize(
    "style",
    [
        [("GRID", (0, 0), (-1, -1), 0.5, "black")],
        [("INNERGRID", (0, 0), (-1, -1), 0.5, "black"), ("BOX", (0, 0), (-1, -1), 2, "black")],
        [("BOX", (0, 0), (-1, -1), 1, "black"), ("LINEBEFORE", (1, 0), (-1, -1), 1, "black")],
        [("LINEBELOW", (0, 0), (-1, 0), 1, "black")],
        [("ALIGN", (2, 0), (-1, -1), "RIGHT")],
    ],
    ids=["grid", "frame", "columns", "header", "borderless"],
)
def test_the_rows_of_a_table_are_rows_in_markdown(read: Read, style: list[object]) -> None:
    extracted = read(table(ITEMS, *style))
    assert markdown_rows(extracted) == ITEMS
    assert "|" not in extracted.text


def test_a_merged_cell_and_a_cell_of_several_lines(read: Read) -> None:
    rows = [["Year", "", "Note"], ["2024", "2025", "two\nlines"], ["1", "2", "short"]]
    grid = ("GRID", (0, 0), (-1, -1), 0.5, "black")
    extracted = read(table(rows, grid, ("SPAN", (0, 0), (1, 0))))
    rows[1][2] = "two lines"
    assert markdown_rows(extracted) == rows


def test_text_around_a_table_keeps_its_place(read: Read) -> None:
    cells = [
        (x, y, f"{name}{y}", "Helvetica", 10.0)
        for y in (120, 140, 160)
        for x, name in ((72, "A"), (200, "B"), (300, "C"))
    ]
    before, after = (
        (72, 80, "Before it.", "Helvetica", 10.0),
        (72, 240, "After it.", "Helvetica", 10.0),
    )
    extracted = read(written(before, *cells, after))
    assert extracted.text.split("\n")[0] == "Before it."
    assert extracted.markdown == (
        "Before it.\n\n| A120 | B120 | C120 |\n| --- | --- | --- |\n"
        "| A140 | B140 | C140 |\n| A160 | B160 | C160 |\n\nAfter it."
    )


SCHEDULE = [
    ["Service", "Description", "Service level", "Fee"],
    ["Help desk", PROSE[:120], "calls answered within thirty seconds on working days", "1,200.00"],
    ["Patches and updates", PROSE[20:90], "within a month", "850.00"],
    ["Reports", "monthly report", "by the fifth working day", "included"],
    ["Travel", PROSE, "as receipts show", "99.50"],
]


def wrapped(
    rows: Sequence[Sequence[str]], widths: Sequence[float], alignment: str, *before: Flowable
) -> bytes:
    """A table without ruling lines whose cells have several lines."""
    style = ParagraphStyle("p", fontSize=10, leading=12)
    cells = [[Paragraph(cell, style) for cell in row] for row in rows]
    buffer = io.BytesIO()
    aligned = ("VALIGN", (0, 0), (-1, -1), alignment)
    SimpleDocTemplate(buffer).build([*before, Rows(cells, widths, style=[aligned])])
    return buffer.getvalue()


@pytest.mark.parametrize("alignment", ["TOP", "MIDDLE", "BOTTOM"])
def test_cells_of_several_lines_are_one_row_without_ruling_lines(
    read: Read, alignment: str
) -> None:
    extracted = read(wrapped(SCHEDULE, [80, 170, 110, 70], alignment))
    assert markdown_rows(extracted) == [[cell.strip() for cell in row] for row in SCHEDULE]


def test_addresses_side_by_side_are_no_rows_of_the_table_below(read: Read) -> None:
    address = Paragraph("Acme<br/>1 Dock Road<br/>Springfield<br/>IL 62701")
    addresses = Rows([[address, address, address]], [120, 150, 150])
    extracted = read(wrapped(SCHEDULE, [80, 170, 110, 70], "TOP", addresses))
    assert markdown_rows(extracted)[0] == SCHEDULE[0]
    assert "Acme\n1 Dock Road" in (extracted.markdown or "")


def layouts() -> Iterator[tuple[Sequence[Sequence[str]], Sequence[float]]]:
    """Yield what looks like a table of wrapped cells, but has text or clauses in its columns."""
    source = random.Random(5)
    texts = [PROSE[start : start + source.randint(70, 160)] for start in range(12)]
    yield [texts[:3], texts[3:6], texts[6:9], texts[9:]], [150] * 3
    yield [texts[start : start + 2] for start in range(0, 12, 2)], [225] * 2
    yield [[f"4.{number}", text] for number, text in enumerate(texts)], [40, 400]
    clauses = [("" if number % 3 else "5.", f"({'abc'[number % 3]})") for number in range(12)]
    yield [[*marks, text] for marks, text in zip(clauses, texts, strict=True)], [40, 40, 370]


@pytest.mark.parametrize("layout", list(layouts()), ids=["cards", "languages", "clauses", "items"])
def test_prose_side_by_side_stays_prose(
    read: Read, layout: tuple[Sequence[Sequence[str]], Sequence[float]]
) -> None:
    assert markdown_rows(read(wrapped(*layout, "TOP"))) == []


def prose(columns: int, alignment: int, font: str, seed: int) -> bytes:
    """Two pages of paragraphs in columns."""
    source = random.Random(seed)
    style = ParagraphStyle("p", fontName=font, fontSize=10, leading=12, alignment=alignment)
    texts = [
        " ".join(source.choices(PROSE.split(), k=source.randint(30, 90)))
        for _ in range(14 * columns)
    ]
    buffer = io.BytesIO()
    document = BaseDocTemplate(buffer)
    width = document.width / columns
    frames = [
        Frame(document.leftMargin + index * width, document.bottomMargin, width, document.height)
        for index in range(columns)
    ]
    document.addPageTemplates([PageTemplate(frames=frames)])
    document.build([Paragraph(text, style) for text in texts])
    return buffer.getvalue()


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("alignment", [0, 4], ids=["ragged", "justified"])
@pytest.mark.parametrize("font", ["Times-Roman", "Helvetica", "Courier"])
def test_prose_stays_prose(read: Read, columns: int, alignment: int, font: str) -> None:
    for seed in range(2):
        assert markdown_rows(read(prose(columns, alignment, font, seed))) == []


def test_lists_and_contents_are_no_tables(read: Read) -> None:
    marks = [("1.", "first point"), ("2.", "second"), ("3.", "third point of it"), ("4.", "last")]
    listed = [
        (x, 100 + 14 * row, text, "Helvetica", 10.0)
        for row, (mark, text_of_it) in enumerate(marks)
        for x, text in ((72, mark), (100, text_of_it))
    ]
    contents = [
        (x, 300 + 14 * row, text, "Helvetica", 10.0)
        for row in range(5)
        for x, text in ((72, f"Chapter {row} " + "." * (60 + row)), (480, str(7 * row)))
    ]
    assert markdown_rows(read(written(*listed, *contents))) == []


def test_headings_by_size_and_weight(read: Read) -> None:
    body = "Words of a usual size that go on for most of the line and then some more of them."
    extracted = read(
        written(
            (72, 80, "Annual report", "Helvetica", 20),
            (72, 120, "Results", "Helvetica", 14),
            (72, 150, body, "Times-Roman", 10),
            (72, 162, body, "Times-Roman", 10),
            (72, 190, "Outlook", "Times-Bold", 10),
            (72, 204, body, "Times-Roman", 10),
            (72, 240, "Costs", "Helvetica", 14),
            (72, 260, body, "Times-Roman", 10),
        )
    )
    assert (extracted.markdown or "").split("\n\n") == [
        "# Annual report",
        "## Results",
        f"{body}\n{body}",
        "### Outlook",
        body,
        "## Costs",
        body,
    ]
    assert "#" not in extracted.text


def test_plain_pages_have_no_markdown_of_their_own(read: Read) -> None:
    lines = [
        (72.0, 80.0 + 12 * row, "*Just* a line of words", "Helvetica", 10.0) for row in range(9)
    ]
    assert read(written(*lines)).markdown is None


def test_a_running_title_is_no_heading(read: Read) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    for page in range(5):
        canvas.setFont("Helvetica", 16)
        canvas.drawString(72, 800, f"Terms of service {page}")
        canvas.setFont("Helvetica", 10)
        for row in range(8):
            canvas.drawString(72, 700 - 14 * row, f"clause {page} {row} says that all is well")
        canvas.showPage()
    canvas.save()
    assert read(buffer.getvalue()).markdown is None


def test_a_page_of_many_lines_is_read(read: Read) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    for number in range(3_000):
        canvas.line(number % 500, number % 700, number % 500 + 20, number % 700)
        canvas.line(number % 500, number % 700, number % 500, number % 700 + 20)
    canvas.drawString(72, 700, "words among lines")
    canvas.save()
    assert read(buffer.getvalue()).text == "words among lines"


@pytest.mark.skipif(not CORPUS.exists(), reason=f"no corpus at {CORPUS}")
@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("SPARSE-2024-INV-1234_borderless_table", ["SKU-4563", "D-22", "", "156", "", "CRITICAL"]),
        ("multicolumn", ["Belgium", "11.5", "30,689", "Brussels", "Dutch, French, German"]),
        ("EN16931_Einfach", ["Zahlbetrag", "529,87"]),
        (
            "EN16931_Einfach",
            [
                "2",
                "ARNR2 4000050986428 (GTIN)",
                "Joghurt Banane",
                "5,5000",
                "50 Stk",
                "7 %",
                "275,00",
            ],
        ),
        ("Facture_DOM_MINIMUM", ["TVA 0% export (vente)", "530,75 €", "0,00 €"]),
    ],
)
def test_tables_from_the_wild(name: str, row: list[str]) -> None:
    assert row in markdown_rows(extract(CORPUS / f"{name}.pdf"))


@pytest.mark.skipif(not CORPUS.exists(), reason=f"no corpus at {CORPUS}")
def test_every_state_of_a_ruled_table_has_its_row() -> None:
    rows = markdown_rows(extract(CORPUS / "nics-background-checks-2015-11.pdf"))
    states = {row[0]: row for row in rows}
    assert states["Alabama"][1:3] == ["18,870", "23,022"]
    assert len([row for row in rows if row[-1].replace(",", "").isdigit()]) >= 54


@pytest.mark.skipif(not CORPUS.exists(), reason=f"no corpus at {CORPUS}")
@pytest.mark.parametrize("name", ["habibi", "amt_handbook_sample", "pdflatex-4-pages"])
def test_prose_from_the_wild_has_no_rows(name: str) -> None:
    assert markdown_rows(extract(CORPUS / f"{name}.pdf")) == []
