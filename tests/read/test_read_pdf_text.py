"""The words of PDFs: numbers, hyphens at line ends, raised letters, text beside the page."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from reportlab.pdfgen.canvas import Canvas

from fairlead.read import Extracted

Read = Callable[..., Extracted]
PartName = tuple[float, float, str]


def placed(*places: PartName, rotation: int = 0) -> bytes:
    """A page with texts at x and y."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(400, 400))
    canvas.setPageRotation(rotation)
    canvas.setFont("Helvetica", 10)
    for x, y, text in places:
        canvas.drawString(x, y, text)
    canvas.save()
    return buffer.getvalue()


def lines(*texts: str) -> bytes:
    return placed(*((50, 350 - 14 * row, text) for row, text in enumerate(texts)))


def test_numbers_of_neighbouring_cells_stay_apart(read: Read) -> None:
    first, second = [(72, 300, "400.01"), (104, 300, "3")], [(72, 286, "400.02"), (104, 286, "4")]
    third = [(72, 272, "400.03"), (300, 274, "5")]
    words = read(placed(*first, *second, *third)).text.split()
    assert words == ["400.01", "3", "400.02", "4", "400.03", "5"]


def test_a_raised_letter_belongs_to_its_word(read: Read) -> None:
    base = "an area in km"
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    for y, height, shown in ((700, 10, base), (707, 5, "2"), (680, 10, "below")):
        canvas.setFont("Helvetica", height)
        x = 72 + (canvas.stringWidth(base, "Helvetica", 10) if y == 707 else 0)
        canvas.drawString(x, y, shown)
    canvas.save()
    assert read(buffer.getvalue()).text == "an area in km2\nbelow"


def test_the_number_of_a_footnote_is_not_part_of_its_first_word(read: Read) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.setFont("Helvetica", 5)
    canvas.drawString(72, 706, "2")
    canvas.setFont("Helvetica", 10)
    canvas.drawString(75, 700, "Terms apply")
    canvas.save()
    assert read(buffer.getvalue()).text.split() == ["2", "Terms", "apply"]


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        ("informa-", "tion", "information"),
        ("the Rhein-", "Main region", "the Rhein-Main region"),
        ("COVID-", "19 tests", "COVID-19 tests"),
        ("a self-", "locking nut", "a self-locking nut"),
        ("SERVICE INFOR-", "MATION", "SERVICE INFORMATION"),
    ],
)
def test_a_hyphen_at_a_line_end(read: Read, left: str, right: str, joined: str) -> None:
    text = read(lines("Self-locking and Information", left, right)).text
    assert text == f"Self-locking and Information\n{joined}"


def test_text_beside_the_page_is_not_read(read: Read) -> None:
    assert read(placed((72, 300, "on it"), (900, 280, "beside it"))).text == "on it"


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_turned_page_is_read_whole(read: Read, rotation: int) -> None:
    corners = placed((2, 390, "one"), (370, 390, "two"), (2, 2, "three"), rotation=rotation)
    assert sorted(read(corners).text.split()) == ["one", "three", "two"]


def test_characters_of_two_utf16_units(read: Read) -> None:
    cmap = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def "
        b"1 begincodespacerange <00> <FF> endcodespacerange "
        b"1 beginbfchar <41> <D83DDE00> endbfchar endcmap end end"
    )
    shown = b"BT /F 20 Tf 50 50 Td (xAx yA zz) Tj ET"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(shown), shown),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(cmap), cmap),
    ]
    data = b"%PDF-1.4\n"
    for number, content in enumerate(objects, start=1):
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    data += b"trailer<</Root 1 0 R/Size 7>>\n%%EOF"
    assert read(data).text == "x\U0001f600x y\U0001f600 zz"
