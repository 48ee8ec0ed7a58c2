"""Documents of which one part is damaged: the others are read, and a warning names the part."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest
from needs import need_languages
from partkit import (
    FONT,
    PAGED,
    WORDS,
    book,
    filled_form,
    odp,
    raw_pdf,
    scanned_page,
    sheets,
    slides,
    word,
)
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from fairlead.read import CannotRead, Extracted, ocr
from fairlead.read.aligned_tables import take_aligned_tables
from fairlead.read.error_guard import ErrorGuard, PartName
from fairlead.read.page_layout import Line, Word

Read = Callable[..., Extracted]
Refuse = Callable[..., CannotRead]
MISSING = "not everything could be read"


def with_cells(*rows: tuple[str, ...]) -> list[Line]:
    """Lines with words far from each other."""
    return [
        Line(
            " ".join(cells),
            [
                Word(text, 200.0 * column, 20.0 * row, 200.0 * column + 60, 20.0 * row + 12)
                for column, text in enumerate(cells)
            ],
        )
        for row, cells in enumerate(rows)
    ]


def test_a_cell_of_white_space_is_no_mark_of_a_list() -> None:
    """The first word of such a cell was taken: IndexError, and the document was damaged."""
    rows = [("1.", " ", "4.50"), ("2.", " ", "9.90"), ("3.", " ", "120.00")]
    (table,) = take_aligned_tables(list(with_cells(*rows)))
    assert table.rows == [list(row) for row in rows]  # type: ignore[union-attr]


def test_a_scan_with_struck_out_rows_is_read(read: Read) -> None:
    """Tesseract takes such lines for words of white space, which became cells."""
    need_languages("eng", "osd")
    image = Image.new("L", (1_300, 730), 255)
    draw, font = ImageDraw.Draw(image), ImageFont.truetype(str(FONT), 26)
    names = ("Garden chair", "Oak table", "Cushion", "Lamp")
    for row in range(7):
        y = 60 + 90 * row
        draw.line((60, y + 15, 540, y + 15), fill=0, width=5)
        for x, text in ((300, names[row % 4]), (700, str(4 + row)), (1_000, f"{120 + row}.50")):
            draw.text((x, y), text, font=font, fill=0)
    assert "126.50" in read(png(image)).text


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def test_a_page_whose_crop_box_is_outside_is_shown_whole(read: Read) -> None:
    extracted = read(raw_pdf([b"", b"/CropBox[700 900 800 1000]", b""]))
    assert extracted.text == "page 1\n\fpage 2\n\fpage 3"
    assert extracted.facts["warnings"] == []


def test_a_strip_that_is_too_long_for_tesseract_is_read(read: Read) -> None:
    need_languages("eng", "osd")
    image = Image.new("L", (600, 24_398), 255)
    font = ImageFont.truetype(str(FONT), 30)
    ImageDraw.Draw(image).text((40, 24_000), "The end of the strip.", font=font, fill=0)
    assert read(png(image)).text == "The end of the strip."


def test_values_of_form_fields_without_a_picture_are_read(read: Read) -> None:
    extracted = read(filled_form())
    assert extracted.text == "page 1\nGrace Hopper\nPoland"
    assert extracted.markdown is None


def test_a_picture_that_ocr_cannot_read_costs_no_other(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_languages("eng", "osd")
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(
        50, 800, "A page with enough text of its own, and with two pictures below it."
    )
    for y, name in ((500, WORDS[0]), (200, WORDS[1])):
        canvas.drawImage(ImageReader(scanned_page(name)), 50, y, 500, 130)
    canvas.save()
    honest, seen = ocr._recognise, list[int]()

    def fail_at_first(image: Image.Image, language: str) -> object:
        seen.append(image.width)
        if len(seen) == 1:
            raise RuntimeError("Failed to recognize. No image set?")
        return honest(image, language)

    monkeypatch.setattr(ocr, "_recognise", fail_at_first)
    extracted = read(buffer.getvalue())
    assert WORDS[0] not in extracted.text
    assert WORDS[1] in extracted.text
    assert extracted.facts["warnings"] == ["page 1: pictures could not be read"]


def test_broken_pages_are_named(read: Read) -> None:
    """All pages of one warning: a page is named even if hundreds are broken."""
    broken = (3, 7, 8, 9)
    data = raw_pdf([b""] * 12)
    for number in broken:
        # The object of such a page is missing.
        data = data.replace(b"%d 0 obj" % (2 + 2 * number), b"% 0 obj")
    extracted = read(data)
    pages = extracted.text.split("\f")
    assert [page.strip() for page in pages] == [
        "" if number in broken else f"page {number}" for number in range(1, 13)
    ]
    assert extracted.facts["warnings"] == [f"pages 3, 7–9: {MISSING}"]


def test_a_document_without_a_readable_page_is_damaged(refuse: Refuse) -> None:
    data = raw_pdf([b"", b""]).replace(b"4 0 obj", b"% 0 obj").replace(b"6 0 obj", b"% 0 obj")
    errors = [
        refuse(data),
        refuse(slides(**{f"ppt/{number}.xml": "<p" for number in range(3)})),
        refuse(sheets(**{f"xl/{name}.xml": "<p" for name in WORDS})),
    ]
    assert {error.code for error in errors} == {"damaged"}


@pytest.mark.parametrize(
    ("data", "warning"),
    [
        (slides(**{"ppt/1.xml": "<p"}), f"slide 2: {MISSING}"),
        (slides(**{"ppt/c1.xml": "<c"}), "slide 2: a chart is damaged"),
        (slides(**{"ppt/n1.xml": "<c"}), f"slide 2: {MISSING}"),
        (sheets(**{"xl/bravo.xml": "<p"}), f"sheet bravo: {MISSING}"),
        (sheets(**{"xl/styles.xml": "<p"}), "dates and times may be shown as numbers"),
        (slides(**{"docProps/core.xml": "<p"}), "the document's properties are damaged"),
    ],
)
def test_a_damaged_part_of_a_package_costs_no_other(read: Read, data: bytes, warning: str) -> None:
    extracted = read(data)
    assert extracted.facts["warnings"] == [warning]
    assert all(word in extracted.text for word in (WORDS[0], WORDS[2]))


def test_a_cell_that_is_no_number_costs_no_other(read: Read) -> None:
    cells = "<c t='str'><v>7</v></c><c t='s'><v>x</v></c><c t='str'><v>9</v></c>"
    sheet = f"<worksheet><sheetData><row>{cells}</row></sheetData></worksheet>"
    extracted = read(sheets(**{"xl/bravo.xml": sheet}))
    assert "bravo\n\n7\t\t9\n\ncharlie" in extracted.text
    assert extracted.facts["warnings"] == [f"sheet bravo: {MISSING}"]


def damaged(data: bytes, name: str) -> bytes:
    """The archive with other bytes in the packed content of a member."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = archive.getinfo(name)
    start = info.header_offset + 30 + len(name)
    return data[:start] + bytes(info.compress_size) + data[start + info.compress_size :]


@pytest.mark.parametrize(
    ("data", "member", "warning"),
    [
        (slides(), "ppt/1.xml", f"slide 2: {MISSING}"),
        (sheets(), "xl/bravo.xml", f"sheet bravo: {MISSING}"),
        (book(), "bravo.xhtml", f"page 2: {MISSING}"),
    ],
)
def test_flipped_bytes_in_a_part_cost_no_other(
    read: Read, data: bytes, member: str, warning: str
) -> None:
    extracted = read(damaged(data, member))
    assert extracted.facts["warnings"] == [warning]
    assert all(word in extracted.text for word in (WORDS[0], WORDS[2]))


def test_a_damaged_footer_costs_no_text(read: Read) -> None:
    extracted = read(damaged(word(), "word/footer1.xml"))
    assert extracted.text.endswith("cell of charlie")
    assert extracted.facts["warnings"] == [f"part footer: {MISSING}"]


def test_damaged_styles_cost_headings_only(read: Read) -> None:
    extracted = read(damaged(word(), "word/styles.xml"))
    assert "Chapter alpha" in extracted.text
    assert extracted.facts["warnings"] == ["headings could not be recognised"]


def test_slides_before_a_break_in_one_stream_are_read(read: Read) -> None:
    with zipfile.ZipFile(io.BytesIO(odp())) as archive:
        content = archive.read("content.xml")
    broken = content.replace(b"charlie", b"<charlie")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.presentation")
        archive.writestr("content.xml", broken)
    extracted = read(buffer.getvalue())
    assert extracted.text.startswith("alpha\nitem\n\fbravo\nitem")
    assert extracted.facts["warnings"] == ["slide 3: what follows could not be read"]


def test_a_damaged_page_of_a_tiff_costs_no_other(read: Read) -> None:
    need_languages("eng", "osd")
    first, *rest = map(scanned_page, WORDS)
    buffer = io.BytesIO()
    options = {"compression": "tiff_adobe_deflate", "save_all": True, "append_images": rest}
    first.save(buffer, "TIFF", **options)
    data = buffer.getvalue()
    with Image.open(buffer) as image:
        start, size = image.tag_v2[273][0], image.tag_v2[279][0]  # type: ignore[attr-defined]
    extracted = read(data[:start] + bytes(size) + data[start + size :])
    assert "bravo" in extracted.text
    assert "charlie" in extracted.text
    assert extracted.facts["warnings"] == [f"page 1: {MISSING}"]


@pytest.mark.parametrize("kind", PAGED)
def test_a_whole_document_has_no_warnings(read: Read, kind: str) -> None:
    assert read(PAGED[kind]()).facts["warnings"] == []


def test_warnings_name_many_places_shortly() -> None:
    guard = ErrorGuard()
    for number in (2, 1, 3, 5, 2):
        guard.take(KeyError(), "lost", PartName("page", number))
    for number in range(1, 101, 2):
        with guard.page(number, "slide"):
            raise KeyError
    guard.take(KeyError(), "lost")
    pages, many, unnamed = guard.warnings()
    assert (pages, unnamed) == ("pages 1–3, 5: lost", "lost")
    assert many.startswith("slides 1, 3, 5, ")
    assert many.endswith(" and others: not everything could be read")
    assert guard.has_lost_all
