"""Pictures and scans: text in any direction and language, and bounds on what is unpacked."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import reportlab
from needs import need_languages
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from fairlead.read import CannotRead, Extracted, ocr
from fairlead.read.draft import NO_TEXT
from fairlead.read.scan_rulings import ruled_picture

Read = Callable[..., Extracted]
Refuse = Callable[..., CannotRead]

FONT = Path(reportlab.__file__).parent / "fonts" / "Vera.ttf"
ENGLISH = "The invoice is due on the first of May.\nPlease pay it to the account below."
GERMAN = "Die Rechnung für die Lieferung ist bis zum\nersten Mai zu bezahlen. Wir grüßen Sie."


def picture(text: str = ENGLISH, size: int = 32, width: int = 1_240) -> Image.Image:
    image = Image.new("L", (width, 8 * size), 255)
    font = ImageFont.truetype(str(FONT), size)
    ImageDraw.Draw(image).multiline_text((size, size), text, font=font, fill=0, spacing=size // 2)
    return image


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def languages() -> None:
    need_languages("eng", "deu", "osd")


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF"])
def test_every_kind_of_picture(read: Read, kind: str) -> None:
    extracted = read(saved(picture(), kind))
    assert (extracted.kind, extracted.text) == (kind.lower(), ENGLISH)
    assert extracted.facts["pages"] == 1
    assert "Tesseract" in str(extracted.facts["extractor"])


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_picture_in_any_direction(read: Read, degrees: int) -> None:
    assert read(saved(picture().rotate(degrees, expand=True))).text == ENGLISH


@pytest.mark.usefixtures("languages")
def test_another_language_is_found(read: Read) -> None:
    extracted = read(saved(picture(GERMAN)))
    assert (extracted.text, extracted.facts["language"]) == (GERMAN, "de")


@pytest.mark.usefixtures("languages")
def test_small_letters(read: Read) -> None:
    assert " ".join(read(saved(picture(size=13, width=500))).text.split()) == ENGLISH.replace(
        "\n", " "
    )


@pytest.mark.usefixtures("languages")
def test_pages_of_one_picture_file(read: Read) -> None:
    pages = [picture().convert("1"), picture("Another page of words").convert("1")]
    data = saved(pages[0], "TIFF", compression="group4", save_all=True, append_images=pages[1:])
    extracted = read(data)
    assert extracted.text == f"{ENGLISH}\n\fAnother page of words"
    assert read(data, pages=1).facts["warnings"] == ["only the first 1 of 2 pages were read"]


@pytest.mark.usefixtures("languages")
def test_only_pages_without_text_are_read_as_pictures(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(72, 700, "a page with quite enough text of its own")
    canvas.showPage()
    canvas.drawImage(ImageReader(picture()), 50, 400, 500, 103)
    canvas.showPage()
    canvas.showPage()
    canvas.save()
    seen: list[object] = []
    honest = ocr.Ocr.read

    def counted(of: ocr.Ocr, image: Image.Image) -> ocr.OcrPage:
        seen.append(image)
        return honest(of, image)

    monkeypatch.setattr(ocr.Ocr, "read", counted)
    extracted = read(buffer.getvalue())
    assert extracted.text == f"a page with quite enough text of its own\n\f{ENGLISH}"
    assert len(seen) == 1


def typeset(*places: tuple[int, int, str], size: int = 32) -> Image.Image:
    """A page with texts at places."""
    image = Image.new("L", (1_600, 1_000), 255)
    draw = ImageDraw.Draw(image)
    for x, y, text in places:
        draw.text((x, y), text, font=ImageFont.truetype(str(FONT), size), fill=0)
    return image


@pytest.mark.usefixtures("languages")
def test_a_scanned_table_keeps_its_rows_and_single_digits(read: Read) -> None:
    rows = [
        ["Pos", "Description", "Qty", "Price"],
        *([str(n), f"Garden chair {n}0", str(9 - n), f"{n}15.50"] for n in range(1, 8)),
    ]
    cells = [
        (x, 200 + 60 * y, cell)
        for y, row in enumerate(rows)
        for x, cell in zip((80, 320, 900, 1_200), row, strict=True)
    ]
    extracted = read(saved(typeset((80, 60, "Your order of the third of May"), *cells)))
    assert [line.split() for line in extracted.text.split("\n")[2:]] == [
        " ".join(row).split() for row in rows
    ]
    lines = (extracted.markdown or "").split("\n")
    assert lines[2] == "| Pos | Description | Qty | Price |"
    assert lines[4:] == [f"| {' | '.join(row)} |" for row in rows[1:]]


ORDERED = [
    [["Pos"], ["Description"], ["Qty"], ["Price"]],
    [["1"], ["Garden chair of oak,", "oiled, with cushions"], ["4"], ["120.50"]],
    [["2"], ["Round table"], ["1"], ["1,399.00"]],
    [["3"], ["Delivery and removal", "of the packaging"], ["2"], ["45.00"]],
]


def ruled(skew: float) -> Image.Image:
    """A scanned table with ruling lines, not quite straight."""
    heights = [100 if len(row[1]) > 1 else 60 for row in ORDERED]
    tops = [200 + sum(heights[:row]) for row in range(len(heights) + 1)]
    edges = (60, 200, 800, 1_000, 1_400)
    cells = [
        (x + 16, top + 8 + 44 * number, text)
        for row, top in zip(ORDERED, tops, strict=False)
        for x, cell in zip(edges, row, strict=False)
        for number, text in enumerate(cell)
    ]
    image = typeset((60, 80, "Your order of the third of May"), *cells)
    draw = ImageDraw.Draw(image)
    for top in tops:
        draw.line((edges[0], top, edges[-1], top), fill=60, width=3)
    for x in edges:
        draw.line((x, tops[0], x, tops[-1]), fill=60, width=3)
    return image.rotate(skew, Image.Resampling.BICUBIC, fillcolor=255)


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize("skew", [0.0, 0.5])
def test_a_scanned_table_with_ruling_lines_keeps_its_cells(read: Read, skew: float) -> None:
    lines = (read(saved(ruled(skew))).markdown or "").split("\n")
    rows = [f"| {' | '.join(' '.join(cell) for cell in row)} |" for row in ORDERED]
    assert [line for line in lines if line.startswith("|") and "---" not in line] == rows


def test_ruling_lines_are_taken_off_a_picture_and_letters_and_areas_stay() -> None:
    ruled_page = ruled_picture(ruled(0.4))
    assert len(ruled_page.rulings) == 10
    clean = ruled(0.0)
    area = Image.new("L", (400, 60), 0)
    clean.paste(area, (700, 900))
    without = ruled_picture(clean).without
    assert without.crop((700, 900, 1_100, 960)).tobytes() == area.tobytes()
    letters = (230, 205, 560, 255)
    assert without.crop(letters).tobytes() == clean.crop(letters).tobytes()
    assert without.crop((300, 195, 700, 205)).getextrema() == (255, 255)
    assert ruled_picture(picture()).rulings == []


@pytest.mark.usefixtures("languages")
def test_scanned_columns_of_prose_stay_prose(read: Read) -> None:
    words = (ENGLISH + " " + ENGLISH).replace("\n", " ").split()
    column = [" ".join(words[at : at + 6]) for at in range(0, 30, 6)]
    places = [(x, 100 + 60 * row, text) for x in (60, 860) for row, text in enumerate(column)]
    extracted = read(saved(typeset(*places, size=26)))
    assert extracted.markdown is None
    assert " ".join(extracted.text.split()) == " ".join(words[:30] + words[:30])


@pytest.mark.usefixtures("languages")
def test_scanned_narrow_columns_of_prose_stay_prose(read: Read) -> None:
    words = 3 * ENGLISH.replace("\n", " ").split()
    column = [" ".join(words[at : at + 4]) for at in range(0, 48, 4)]
    places = [(x, 60 + 60 * row, text) for x in (60, 580, 1_100) for row, text in enumerate(column)]
    assert read(saved(typeset(*places, size=26))).markdown is None


@pytest.mark.usefixtures("languages")
def test_a_picture_beside_text_is_read_too(read: Read) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(72, 700, "a page with quite enough text of its own")
    canvas.drawImage(ImageReader(picture()), 50, 400, 500, 103)
    canvas.save()
    text = read(buffer.getvalue()).text
    assert text == f"a page with quite enough text of its own\n{ENGLISH}"


@pytest.mark.usefixtures("languages")
def test_a_picture_under_text_is_not_read_again(read: Read) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.drawImage(ImageReader(picture()), 50, 400, 500, 103)
    for row, line in enumerate(ENGLISH.split("\n")):
        canvas.drawString(72, 480 - 40 * row, line)
    canvas.save()
    assert read(buffer.getvalue()).text == ENGLISH


def test_an_empty_picture_is_a_warning(read: Read) -> None:
    assert NO_TEXT in str(read(saved(Image.new("RGB", (300, 300), "white"))).facts["warnings"])


def test_a_missing_library_or_language_is_named(
    read: Read, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "eng.traineddata").write_bytes(b"x")
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    blank = saved(Image.new("L", (300, 300), 255))
    monkeypatch.setattr(ocr, "_library", lambda: None)
    assert "fairlead[ocr]" in str(read(blank).facts["warnings"])
    need_languages("eng")
    monkeypatch.undo()
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    warnings = str(read(blank, languages=("eng", "pol")).facts["warnings"])
    assert "tesseract-ocr-pol" in warnings
    assert "tesseract-ocr-eng" not in warnings


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99)))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def test_a_giant_picture_is_refused_by_its_header(refuse: Refuse) -> None:
    error = refuse(png(60_000, 60_000))
    assert (error.code, error.kind) == ("too-large", "png")
    assert "60000 × 60000" in error.detail
