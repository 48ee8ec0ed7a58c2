"""Documents of three parts, each with a word of its own, in each kind that has parts."""

from __future__ import annotations

import io
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path

import docx
import reportlab
from officekit import odf, packed, relations, types
from olefiles import presentation, word_document, workbook
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table

WORDS = ("alpha", "bravo", "charlie")
FONT = Path(reportlab.__file__).parent / "fonts" / "Vera.ttf"


def raw_pdf(pages: Sequence[bytes], *objects: bytes, catalog: bytes = b"") -> bytes:
    """A PDF as bytes. Each page is its attributes; its text is "page" and its number.

    `objects` begin with number 4; then each page has two.
    """
    first = 4 + len(objects)
    kids = b" ".join(b"%d 0 R" % (first + 2 * index) for index in range(len(pages)))
    all_objects = [
        b"<</Type/Catalog/Pages 2 0 R%s>>" % catalog,
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages)),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        *objects,
    ]
    for index, attributes in enumerate(pages):
        text = b"BT /F 12 Tf 72 700 Td (page %d) Tj ET" % (index + 1)
        all_objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R"
            b"/Resources<</Font<</F 3 0 R>>>>%s>>" % (first + 2 * index + 1, attributes)
        )
        all_objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(text), text))
    data = b"%PDF-1.7\n" + b"".join(
        b"%d 0 obj\n%s\nendobj\n" % (number, content)
        for number, content in enumerate(all_objects, start=1)
    )
    return data + b"trailer<</Root 1 0 R/Size %d>>\n%%%%EOF" % (len(all_objects) + 1)


def filled_form() -> bytes:
    """A form whose fields have values but no appearance, as many programs fill them."""
    field = b"<</Type/Annot/Subtype/Widget/T(%s)/DA(/Helv 12 Tf 0 g)/F 4/Rect[%s]%s>>"
    return raw_pdf(
        [b"/Annots[4 0 R 5 0 R]"],
        field % (b"name", b"150 640 350 660", b"/FT/Tx/V(Grace Hopper)"),
        field % (b"land", b"150 600 350 620", b"/FT/Ch/Ff 131072/V(Poland)/Opt[(Spain)(Poland)]"),
        catalog=b"/AcroForm<</Fields[4 0 R 5 0 R]/NeedAppearances true/DA(/Helv 0 Tf 0 g)"
        b"/DR<</Font<</Helv 3 0 R>>>>>>",
    )


def report() -> bytes:
    """A PDF with headings, prose, tables with and without ruling lines, and form fields."""
    styles, buffer = getSampleStyleSheet(), io.BytesIO()
    flow: list[Flowable] = []
    for word in WORDS:
        rows = [["Item", "Name", "Price"], ["1", f"chair {word}", "10.00"], ["2", "bed", "9.00"]]
        prose = f"The text of {word} is prose that fills more than one line of the page. " * 3
        flow += [
            Paragraph(f"Chapter {word}", styles["Heading1"]),
            Paragraph(prose, styles["Normal"]),
            Table(rows, style=[("GRID", (0, 0), (-1, -1), 1, "black")]),
            Paragraph("Text between two tables.", styles["Normal"]),
            Spacer(1, 20),
            Table([*rows, ["3", "lamp", "12.00"]]),
            _Field(word),
            PageBreak(),
        ]
    SimpleDocTemplate(buffer).build(flow)
    return buffer.getvalue()


class _Field(Flowable):  # type: ignore[misc] # reportlab has no types
    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word

    def draw(self) -> None:
        self.canv.acroForm.textfield(
            name=self._word, value=self._word, width=200, height=20, relative=True
        )


def scanned_page(word: str) -> Image.Image:
    """A picture of text and of a table."""
    image = Image.new("L", (1_240, 320), 255)
    font = ImageFont.truetype(str(FONT), 30)
    rows = [("Chair", "4", "120.50"), ("Table", "1", "99.00"), ("Lamp", "12", "9.90")]
    ImageDraw.Draw(image).text((60, 30), f"The page of {word} has a table.", font=font, fill=0)
    for number, row in enumerate(rows):
        for x, text in zip((60, 600, 900), row, strict=True):
            ImageDraw.Draw(image).text((x, 130 + 60 * number), text, font=font, fill=0)
    return image


def scan() -> bytes:
    """A PDF whose second page is a picture."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(595, 154))
    first, second, third = WORDS
    canvas.drawString(50, 100, f"The page of {first} is text.")
    canvas.showPage()
    canvas.drawImage(ImageReader(scanned_page(second)), 0, 0, 595, 154)
    canvas.showPage()
    canvas.drawString(50, 100, f"The page of {third} is text.")
    canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def tiff() -> bytes:
    buffer = io.BytesIO()
    first, *rest = map(scanned_page, WORDS)
    first.save(buffer, "TIFF", save_all=True, append_images=rest)
    return buffer.getvalue()


CHART = (
    "<c:chartSpace xmlns:c='c' xmlns:a='a'><c:chart><c:ser><c:tx><c:v>{0}</c:v></c:tx>"
    "<c:val><c:numCache><c:pt idx='0'><c:v>7</c:v></c:pt></c:numCache></c:val></c:ser></c:chart>"
    "</c:chartSpace>"
)


def slides(**changed: str) -> bytes:
    """A pptx whose slides have a title, a table, a chart and notes."""
    parts = {}
    for number, word in enumerate(WORDS):
        title = f"<p:sp><p:ph type='title'/><a:p><a:t>{word}</a:t></a:p></p:sp>"
        table = "<a:tbl><a:tr><a:tc><a:p><a:t>a</a:t></a:p></a:tc></a:tr></a:tbl>"
        parts[f"ppt/{number}.xml"] = f"<p:sld xmlns:p='p' xmlns:a='a'>{title}{table}</p:sld>"
        parts[f"ppt/_rels/{number}.xml.rels"] = relations(
            ("c", "chart", f"c{number}.xml"), ("n", "notesSlide", f"n{number}.xml")
        )
        parts[f"ppt/c{number}.xml"] = CHART.format(word)
        parts[f"ppt/n{number}.xml"] = f"<p:n xmlns:p='p' xmlns:a='a'>{title}</p:n>"
    listed = "".join(f"<sldId r:id='s{number}'/>" for number in range(len(WORDS)))
    targets = [(f"s{number}", "slide", f"{number}.xml") for number in range(len(WORDS))]
    return packed(
        {
            "[Content_Types].xml": types("presentationml.presentation"),
            "docProps/core.xml": "<a><title>Slides</title></a>",
            "ppt/presentation.xml": f"<p xmlns:r='urn:r'>{listed}</p>",
            "ppt/_rels/presentation.xml.rels": relations(*targets),
            **parts,
            **changed,
        }
    )


def sheets(**changed: str) -> bytes:
    """An xlsx whose sheets, called after their word, have texts, numbers and dates."""
    listed = "".join(f"<sheet name='{word}' r:id='{word}'/>" for word in WORDS)
    parts = {
        f"xl/{word}.xml": "<worksheet><sheetData><row><c r='A1' t='inlineStr'><is>"
        f"<t>about {word}</t></is></c><c r='B1'><v>7.5</v></c><c r='C1' s='0'><v>45352</v></c>"
        "<c r='D1' t='s'><v>0</v></c><c r='E1' t='b'><v>1</v></c></row></sheetData></worksheet>"
        for word in WORDS
    }
    targets = [(word, "worksheet", f"{word}.xml") for word in WORDS]
    more = [("s", "styles", "styles.xml"), ("t", "sharedStrings", "strings.xml")]
    return packed(
        {
            "[Content_Types].xml": types("spreadsheetml.sheet"),
            "docProps/core.xml": "<a><title>Sheets</title></a>",
            "xl/workbook.xml": f"<workbook xmlns:r='urn:r'><sheets>{listed}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": relations(*targets, *more),
            "xl/styles.xml": "<s><cellXfs><xf numFmtId='14'/></cellXfs></s>",
            "xl/strings.xml": "<s><si><t>shared</t></si></s>",
            **parts,
            **changed,
        }
    )


def odp() -> bytes:
    pages = "".join(
        "<draw:page><draw:frame presentation:class='title'><draw:text-box><text:p>"
        f"{word}</text:p></draw:text-box></draw:frame><draw:frame><draw:text-box><text:list>"
        f"<text:list-item><text:p>item</text:p></text:list-item></text:list></draw:text-box>"
        "</draw:frame></draw:page>"
        for word in WORDS
    )
    return odf("presentation", f"<office:presentation>{pages}</office:presentation>")


def ods() -> bytes:
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    tables = "".join(
        f"<table:table table:name='{word}'><table:table-row>{cell.format(f'about {word}')}"
        "<table:table-cell table:number-columns-repeated='2'><text:p>7</text:p></table:table-cell>"
        "</table:table-row></table:table>"
        for word in WORDS
    )
    return odf("spreadsheet", f"<office:spreadsheet>{tables}</office:spreadsheet>")


def book(**changed: str) -> bytes:
    listed = "".join(
        f"<item id='{word}' href='{word}.xhtml' media-type='application/xhtml+xml'/>"
        f"<itemref idref='{word}'/>"
        for word in WORDS
    )
    parts = {
        f"{word}.xhtml": f"<html><body><h1>{word}</h1><p>text of <b>{word}</b></p></body></html>"
        for word in WORDS
    }
    return packed(
        {
            "META-INF/container.xml": "<c><rootfile full-path='b.opf'/></c>",
            "b.opf": f"<package xmlns:dc='d'><dc:title>A book</dc:title>{listed}</package>",
            **parts,
            **changed,
        },
        "application/epub+zip",
    )


def old_slides() -> bytes:
    return presentation(*((word, f"text of {word}") for word in WORDS))


def word() -> bytes:
    """A docx with headings, a list, a table, a header and a footer."""
    document = docx.Document()
    document.core_properties.title = "Words"
    document.sections[0].header.paragraphs[0].text = "Letterhead"
    document.sections[0].footer.paragraphs[0].text = "Footline"
    for name in WORDS:
        document.add_heading(f"Chapter {name}")
        document.add_paragraph(f"text of {name}")
        document.add_paragraph("an item", style="List Bullet")
        document.add_table(rows=2, cols=2).cell(0, 0).text = f"cell of {name}"
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def odt() -> bytes:
    body = "".join(
        f"<text:h>Chapter {word}</text:h><text:p>text of {word}<text:tab/>end</text:p>"
        "<table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>"
        "</table:table-row></table:table>"
        for word in WORDS
    )
    return odf("text", f"<office:text>{body}</office:text>")


def page() -> bytes:
    body = "".join(
        f"<h1>Chapter {word}</h1><p>text of {word}</p><table><tr><td>a</td></tr></table>"
        for word in WORDS
    )
    return f"<html><head><title>Page</title></head><body>{body}</body></html>".encode()


def rich_text() -> bytes:
    body = "".join(
        rf"\pard\outlinelevel0 Chapter {word}\par\pard text of {word} \'e9\u322?\par"
        rf"\trowd\intbl a\cell b\cell\row"
        for word in WORDS
    )
    return (r"{\rtf1\ansi{\info{\title Letter}}" + body + r"\pard end\par}").encode()


def old_word() -> bytes:
    return word_document("".join(f"Chapter {word}\rtext of {word}\r" for word in WORDS))


def old_sheet() -> bytes:
    return workbook(*((f"about {word}", 7.5) for word in WORDS))


def mail() -> bytes:
    """A message with a paragraph and an attachment for each word."""
    message = EmailMessage()
    message["From"], message["Subject"] = "a@example.org", "Words"
    message["Date"] = "Tue, 02 Jan 2024 03:04:05 +0000"
    message.set_content("\n\n".join(f"text of {word}" for word in WORDS))
    for word in WORDS:
        message.add_attachment(f"file of {word}", filename=f"{word}.txt")
    return message.as_bytes()


PAGED = {
    "pdf": report, "pptx": slides, "xlsx": sheets, "epub": book, "ppt": old_slides,
}  # fmt: skip
SCANNED = {"pdf": scan, "tiff": tiff}
FLOWING = {
    "docx": word, "odt": odt, "ods": ods, "odp": odp, "html": page, "rtf": rich_text,
    "doc": old_word, "xls": old_sheet, "email": mail,
}  # fmt: skip
