"""Optional files of a document: pictures of its pages, and a searchable PDF."""

from __future__ import annotations

import ctypes
import io
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pypdfium2
import pypdfium2.raw as pdfium
import pytest
import reportlab
from needs import need_languages
from PIL import Image, ImageChops, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from fairlead.model.pipelines import OUTPUTS
from fairlead.read import Extracted, ReadLimits, extract, ocr
from fairlead.read import outputs as outputs_module
from fairlead.read.blank_font import blank_font
from fairlead.read.outputs import PAGES, SEARCHABLE_PDF, png
from fairlead.read.page_layout import Line, Word
from fairlead.read.text_layer import TextLayer, Transform

FONT = Path(reportlab.__file__).parent / "fonts" / "Vera.ttf"
ENGLISH = "The invoice is due on the first of May.\nPlease pay it to the account below."
CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


class Found:
    """What was read, and the outputs by name."""

    def __init__(self, extracted: Extracted, files: dict[str, bytes]) -> None:
        self.text = extracted.text
        self.warnings: list[str] = list(map(str, cast("list[str]", extracted.facts["warnings"])))
        self.files = files

    @property
    def pdf(self) -> pypdfium2.PdfDocument:
        return pypdfium2.PdfDocument(self.files["searchable.pdf"])

    @property
    def picture(self) -> Any:
        """The one of the first page; types of pixels depend on the mode of the picture."""
        return Image.open(io.BytesIO(self.files["page-001.png"]))


Make = Callable[..., Found]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Read bytes with both outputs, or with those that are named."""

    def run(
        data: bytes,
        outputs: tuple[str, ...] = OUTPUTS,
        password: str | None = None,
        **limits: Any,
    ) -> Found:
        path = tmp_path / "document"
        path.write_bytes(data)
        files: dict[str, bytes] = {}
        extracted = extract(
            path,
            limits=ReadLimits(**limits),
            password=password,
            outputs=outputs,
            on_file=files.__setitem__,
        )
        return Found(extracted, files)

    return run


@pytest.fixture
def languages() -> None:
    need_languages("eng", "osd")


def letter(width: int = 1_240, height: int = 500) -> Image.Image:
    image = Image.new("L", (width, height), 255)
    font = ImageFont.truetype(str(FONT), 32)
    ImageDraw.Draw(image).multiline_text((90, 120), ENGLISH, font=font, fill=0, spacing=16)
    return image


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def scanned(image: Image.Image, rotate: int = 0, margin: float = 0.0) -> bytes:
    """A PDF with a page of text and one that is a scan, which is turned and has cut margins."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(600, 300))
    canvas.drawString(72, 200, "a page with quite enough text of its own")
    canvas.showPage()
    canvas.drawImage(ImageReader(image), 20, 20, 560, 560 * image.height / image.width)
    canvas.showPage()
    canvas.save()
    with pypdfium2.PdfDocument(buffer.getvalue()) as document:
        page = document[1]
        page.set_rotation(rotate)
        if margin:
            page.set_mediabox(-margin, -2 * margin, 600 + margin, 300 + margin)
            page.set_cropbox(margin, margin, 600, 300)
        document.save(target := io.BytesIO())
    return target.getvalue()


def words(page: Any) -> str:
    return " ".join(page.get_textpage().get_text_range().split())


def share_of_letters_under_text(page: Any) -> float:
    """Of the dark pixels of a page, those that lie under its text."""
    scale = 2.0
    image = page.render(scale=scale, grayscale=True).to_pil().convert("L")
    dark = image.point(lambda value: 255 if value < 128 else 0)
    covered = Image.new("L", image.size, 0)
    draw = ImageDraw.Draw(covered)
    text_page = page.get_textpage()
    for index in range(text_page.count_chars()):
        left, bottom, right, top = text_page.get_charbox(index, loose=True)
        corners = [device(page, image.size, *corner) for corner in ((left, bottom), (right, top))]
        (x1, y1), (x2, y2) = corners
        draw.rectangle((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), fill=255)
    both = ImageChops.multiply(dark, covered)
    return float(both.histogram()[255] / dark.histogram()[255])


def device(page: Any, size: tuple[int, int], x: float, y: float) -> tuple[int, int]:
    across, down = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
    return across.value, down.value


def test_the_outputs_have_the_names_of_the_settings() -> None:
    assert {PAGES, SEARCHABLE_PDF} == set(OUTPUTS)


def test_without_outputs_nothing_is_made(make: Make, pdf: Callable[..., bytes]) -> None:
    assert make(pdf("a page"), ()).files == {}


@pytest.mark.parametrize("data", [b"plain words", b"a,b\n1,2\n", b"<html><p>words</p></html>"])
def test_kinds_without_pages_have_no_outputs(make: Make, data: bytes) -> None:
    outputs = make(data)
    assert (outputs.files, outputs.warnings) == ({}, [])


# --- pictures of pages ---


def test_each_page_of_a_pdf_becomes_a_picture(make: Make, pdf: Callable[..., bytes]) -> None:
    outputs = make(pdf("first", "second"), (PAGES,))
    assert list(outputs.files) == ["page-001.png", "page-002.png"]
    assert outputs.picture.size == (1_241, 1_754)  # A4 with 150 dpi
    assert outputs.picture.mode == "L"  # it has no colours
    assert outputs.picture.getextrema() == (0, 255)
    assert outputs.warnings == []


def test_a_picture_shows_the_fields_of_a_form_and_colours(make: Make) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(300, 300))
    canvas.setFillColorRGB(1, 0, 0)
    canvas.rect(0, 0, 50, 50, fill=1, stroke=0)
    canvas.acroForm.textfield(name="a", value="MMMMMMMM", x=100, y=100, width=180, height=40)
    canvas.save()
    picture = make(buffer.getvalue(), (PAGES,)).picture
    assert picture.mode == "RGB"
    assert picture.getpixel((10, picture.height - 10)) == (255, 0, 0)
    field = picture.crop((220, 340, 560, 410)).convert("L")
    assert field.getextrema()[0] < 100


def test_frames_of_a_tiff_are_pages_and_those_of_an_animation_are_not(make: Make) -> None:
    frames = [Image.new("1", (80, 60), colour) for colour in (0, 1, 0)]
    tiff = saved(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    assert list(make(tiff, (PAGES,), languages=()).files) == [
        "page-001.png",
        "page-002.png",
        "page-003.png",
    ]
    animation = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert list(make(animation, (PAGES,), languages=()).files) == ["page-001.png"]


def test_a_large_picture_is_made_smaller_and_turned_upright(make: Make) -> None:
    image = Image.new("RGB", (2_400, 1_200), "white")
    image.paste("red", (0, 0, 1_200, 1_200))  # the left half, which is the upper one when upright
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = make(saved(image, "JPEG", exif=exif), (PAGES,), languages=()).picture
    assert picture.width < picture.height
    assert picture.width * picture.height <= outputs_module.MAX_PICTURE_PIXELS
    assert picture.getpixel((picture.width // 2, 20))[1] < 50


def test_a_huge_page_is_made_a_small_picture(make: Make) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(14_400, 14_400))
    canvas.rect(0, 0, 7_200, 14_400, fill=1)
    canvas.save()
    picture = make(buffer.getvalue(), (PAGES,)).picture
    assert picture.width * picture.height <= 1.01 * outputs_module.MAX_PICTURE_PIXELS
    beyond = buffer.getvalue().replace(b"14400 14400", b"9999999 9999999")
    outputs = make(beyond, (PAGES,))
    assert outputs.files == {}
    assert "page 1 could not be made a picture" in outputs.warnings


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"page_pictures": 2}, "only 2 of 3 pages have a picture: the limit is 2"),
        ({"output_seconds": -1}, "only 0 of 3 pages have a picture: reading took most of the time"),
        ({"output_bytes": 100}, "only 0 of 3 pages have a picture: together they are too large"),
    ],
)
def test_a_limit_on_pictures_gives_a_warning(
    make: Make, pdf: Callable[..., bytes], limits: dict[str, Any], expected: str
) -> None:
    outputs = make(pdf("a", "b", "c"), (PAGES,), **limits)
    assert len(outputs.files) == limits.get("page_pictures", 0)
    assert len(outputs.warnings) == 1
    assert outputs.warnings[0].startswith(expected)
    assert outputs.text == "a\n\fb\n\fc"


def test_grey_colours_make_a_grey_picture() -> None:
    colours = Image.new("RGB", (4, 4), (7, 7, 7))
    assert Image.open(io.BytesIO(png(colours))).mode == "L"
    colours.putpixel((0, 0), (7, 7, 8))
    assert Image.open(io.BytesIO(png(colours))).mode == "RGB"


# --- searchable PDFs ---


def test_a_pdf_with_text_stays_as_it_is(make: Make, pdf: Callable[..., bytes]) -> None:
    data = pdf("a page with quite enough text of its own")
    assert make(data, (SEARCHABLE_PDF,)).files == {"searchable.pdf": data}


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize(("rotate", "margin"), [(0, 0), (90, 10), (180, 10), (270, 0)])
def test_only_scanned_pages_of_a_pdf_get_text(make: Make, rotate: int, margin: float) -> None:
    outputs = make(scanned(letter(), rotate, margin), (SEARCHABLE_PDF,))
    assert ENGLISH in outputs.text
    with outputs.pdf as searchable:
        assert words(searchable[0]) == "a page with quite enough text of its own"
        assert sorted(words(searchable[1]).split()) == sorted(ENGLISH.split())
        assert share_of_letters_under_text(searchable[1]) > 0.97
    assert outputs.warnings == []


@pytest.mark.usefixtures("languages")
def test_a_page_with_new_text_looks_as_before(make: Make) -> None:
    data = scanned(letter())
    with make(data).pdf as searchable, pypdfium2.PdfDocument(data) as original:
        for after, before in zip(searchable, original, strict=True):
            pictures = [page.render().to_pil().tobytes() for page in (after, before)]
            assert pictures[0] == pictures[1]


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize(
    ("kind", "degrees"), [("JPEG", 0), ("PNG", 0), ("PNG", 90), ("PNG", 180), ("PNG", 270)]
)
def test_the_text_of_a_picture_lies_over_its_letters(make: Make, kind: str, degrees: int) -> None:
    outputs = make(saved(letter().rotate(degrees, expand=True), kind), (SEARCHABLE_PDF,))
    with outputs.pdf as searchable:
        assert sorted(words(searchable[0]).split()) == sorted(ENGLISH.split())
        assert share_of_letters_under_text(searchable[0]) > 0.97


def test_a_word_before_a_wide_gap_is_as_wide_as_its_letters() -> None:
    line = Line("Total 99", [Word("Total", 0, 0, 50, 12), Word("99", 400, 0, 420, 12)])
    content = TextLayer([line], 500, 12).content(Transform(500, 0, 0, 12, 0, 0)).decode()
    shown = [operator.split() for operator in content.splitlines()[1:-1]]
    ends = [round(float(one[4]) + float(one[0]) * len(one[7].strip("<>")) / 4) for one in shown]
    assert ends == [50, 400, 420]


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize("orientation", [3, 6, 8, 5])
def test_a_photo_is_kept_as_it_was_taken_and_shown_upright(make: Make, orientation: int) -> None:
    turned = {3: 180, 6: 90, 8: 270}.get(orientation, 0)
    image = letter().rotate(turned, expand=True)
    if orientation == 5:  # mirrored
        image = letter().transpose(Image.Transpose.TRANSPOSE)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(image, "JPEG", exif=exif)
    outputs = make(data, (SEARCHABLE_PDF,))
    assert (data in outputs.files["searchable.pdf"]) == (orientation != 5)
    with outputs.pdf as searchable:
        page = searchable[0]
        assert page.get_width() > page.get_height()
        assert words(page) == ENGLISH.replace("\n", " ")
        assert share_of_letters_under_text(page) > 0.97


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "P", "RGBA", "LA", "I", "CMYK"])
def test_every_mode_of_a_picture_is_drawn(make: Make, mode: str) -> None:
    image = Image.new("L", (300, 200), 255)
    image.paste(0, (0, 0, 150, 200))
    image = image.convert(mode).point(lambda value: value * 257) if mode == "I" else image
    data = saved(image.convert(mode), {"CMYK": "JPEG", "I": "TIFF"}.get(mode, "PNG"))
    outputs = make(data, (SEARCHABLE_PDF,), languages=())
    with outputs.pdf as searchable:
        shown = searchable[0].render(grayscale=True).to_pil().convert("L")
    assert shown.crop((20, 20, 40, 40)).getextrema()[1] < 10
    assert shown.crop((shown.width - 40, 20, shown.width - 20, 40)).getextrema()[0] > 245


@pytest.mark.usefixtures("languages")
def test_pages_of_a_scanned_tiff_keep_the_size_of_their_paper(make: Make) -> None:
    page = letter(2_480, 3_508).convert("1")
    tiff = saved(page, "TIFF", save_all=True, append_images=[page], dpi=(300, 300))
    outputs = make(tiff, (SEARCHABLE_PDF,))
    with outputs.pdf as searchable:
        assert len(searchable) == 2
        for number in range(2):
            width, height = searchable[number].get_size()
            assert math.isclose(width, 595.2, abs_tol=0.1)
            assert math.isclose(height, 841.92, abs_tol=0.1)
            assert words(searchable[number]) == ENGLISH.replace("\n", " ")
    assert len(outputs.files["searchable.pdf"]) < 40_000


@pytest.mark.usefixtures("languages")
def test_ocr_reads_a_page_once_for_text_and_outputs(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    honest = ocr.Ocr.read

    def counted(of: ocr.Ocr, image: Image.Image) -> ocr.OcrPage:
        seen.append(image)
        return honest(of, image)

    monkeypatch.setattr(ocr.Ocr, "read", counted)
    make(scanned(letter()))
    assert len(seen) == 1


@pytest.mark.parametrize("limits", [{"output_bytes": 200}, {"output_seconds": -1}])
@pytest.mark.parametrize("kind", ["PDF", "JPEG", "TIFF"])
def test_a_searchable_pdf_beyond_a_limit_gives_a_warning(
    make: Make, pdf: Callable[..., bytes], kind: str, limits: dict[str, Any]
) -> None:
    data = pdf("a page with words") if kind == "PDF" else saved(letter(), kind)
    outputs = make(data, (SEARCHABLE_PDF,), languages=(), **limits)
    assert outputs.files == {}
    assert any("searchable.pdf was left out" in warning for warning in outputs.warnings)


@pytest.mark.usefixtures("languages")
def test_a_searchable_copy_beyond_a_limit_gives_a_warning(make: Make) -> None:
    data = scanned(letter())
    outputs = make(data, (SEARCHABLE_PDF,), output_bytes=len(data) // 2)
    assert outputs.files == {}
    assert outputs.warnings == ["searchable.pdf was left out: it is too large"]


def test_ten_thousand_pages_end_within_the_limits(make: Make, pdf: Callable[..., bytes]) -> None:
    kids = b" ".join([b"3 0 R"] * 10_000)
    data = (
        b"%PDF-1.4\n1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj\n"
        b"2 0 obj <</Type /Pages /Count 10000 /Kids [" + kids + b"]>> endobj\n"
        b"3 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 99 99]>> endobj\n"
        b"trailer <</Root 1 0 R>>\n"
    )
    began = time.process_time()
    outputs = make(data, page_pictures=20, pages=100)
    assert time.process_time() - began < 60
    assert len(outputs.files) == 21
    assert "only 20 of 10000 pages have a picture: the limit is 20" in outputs.warnings


def test_the_font_has_the_tables_that_a_pdf_needs() -> None:
    font = ImageFont.truetype(io.BytesIO(blank_font()), 100)
    assert font.getlength("aß漢") == 300


@pytest.mark.skipif(not CORPUS.exists(), reason=f"no corpus at {CORPUS}")
@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize("name", ["ocr_test.pdf", "testOCR.png"])
def test_real_scans_become_searchable(make: Make, name: str) -> None:
    outputs = make((CORPUS / name).read_bytes())
    assert outputs.text.split()
    with outputs.pdf as searchable:
        assert sorted(words(searchable[0]).split()) == sorted(outputs.text.split())
