"""Office documents of all ages: text, Markdown and facts."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import docx
import msoffcrypto
import pytest
from officekit import ODF, odf, packed, relations, types
from olefiles import compound, presentation, word_document, workbook

from fairlead.read import CannotRead, Extracted, ReadLimits
from fairlead.read.draft import Draft
from fairlead.read.text_writer import TextWriter

Read = Callable[..., Extracted]
Refuse = Callable[..., CannotRead]


def sheet(cells: str, strings: str = "") -> bytes:
    return packed(
        {
            "[Content_Types].xml": types("spreadsheetml.sheet"),
            "_rels/.rels": relations(("r1", "officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": "<workbook xmlns:r='urn:r'><sheets>"
            "<sheet name='Prices' r:id='s1'/></sheets></workbook>",
            "xl/_rels/workbook.xml.rels": relations(
                ("s1", "worksheet", "/xl/sheet.xml"),
                ("s2", "sharedStrings", "strings.xml"),
                ("s3", "styles", "styles.xml"),
            ),
            "xl/strings.xml": f"<sst>{strings}</sst>",
            "xl/styles.xml": "<styleSheet><numFmts><numFmt numFmtId='165' formatCode='yyyy/mm/dd'/>"
            "</numFmts><cellXfs><xf numFmtId='0'/><xf numFmtId='165'/></cellXfs></styleSheet>",
            "xl/sheet.xml": f"<worksheet><sheetData>{cells}</sheetData></worksheet>",
        }
    )


def locked(data: bytes, password: str) -> bytes:
    buffer = io.BytesIO()
    msoffcrypto.OfficeFile(io.BytesIO(data)).encrypt(password, buffer)
    return buffer.getvalue()


def test_headings_lists_and_tables_of_a_word_document(read: Read) -> None:
    document = docx.Document()
    document.add_heading("Offer", 1)
    document.add_paragraph("first", style="List Bullet")
    document.add_paragraph("second", style="List Number")
    table = document.add_table(rows=2, cols=2)
    for number, cell in enumerate([*table.rows[0].cells, *table.rows[1].cells]):
        cell.text = f"a|{number}"
    document.add_paragraph("# no heading, 2 * 3 <b>")
    buffer = io.BytesIO()
    document.save(buffer)
    extracted = read(buffer.getvalue())
    assert extracted.markdown == (
        "# Offer\n\n- first\n1. second\n\n| a\\|0 | a\\|1 |\n| --- | --- |\n| a\\|2 | a\\|3 |\n\n"
        "\\# no heading, 2 \\* 3 \\<b>"
    )
    assert "a|0\ta|1\na|2\ta|3" in extracted.text


def test_values_of_a_sheet(read: Read) -> None:
    extracted = read(
        sheet(
            "<row><c r='A1' t='s'><v>0</v></c><c r='C1' s='1'><v>45352</v></c></row>"
            "<row><c r='A2'><v>0.30000000000000004</v></c><c r='B2' t='b'><v>1</v></c>"
            "<c r='C2' t='inlineStr'><is><t>in </t></is></c></row>",
            "<si><r><t>Ap</t></r><r><t>ples</t></r></si>",
        )
    )
    assert extracted.text == "Prices\n\nApples\t\t2024-03-01\n0.3\tTRUE\tin"
    assert extracted.markdown is not None
    assert "| Apples |  | 2024-03-01 |\n| --- | --- | --- |" in extracted.markdown


def test_cells_far_apart_stay_near(read: Read) -> None:
    cells = "<row><c r='A1'><v>1</v></c></row><row><c r='XFD1048576'><v>2</v></c></row>"
    assert read(sheet(cells)).text == "Prices\n\n1\n\t2"


@pytest.mark.parametrize("per_row", [1, 16_000])
def test_a_long_string_shared_by_many_cells_is_never_multiplied(read: Read, per_row: int) -> None:
    cell = "<c t='s'><v>0</v></c>"
    cells = f"<row>{cell * per_row}</row>" * (16_000 // per_row)
    data = sheet(cells, "<si><t>" + "".join(map(chr, range(97, 123))) * 300 + "</t></si>")
    extracted = read(data, ratio=10_000, characters=1_000_000)  # 125 million in all
    assert extracted.facts["warnings"] == ["the text was cut after 1000000 characters"]


@pytest.mark.parametrize("entity", ["&i;", "&f;"])
def test_entities_neither_grow_nor_fetch(read: Read, tmp_path: Path, entity: str) -> None:
    (tmp_path / "secret").write_text("the secret of the house")
    pairs = zip("abcdefgh", "bcdefghi", strict=True)
    laughs = "".join(f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in pairs)
    start = f"<!DOCTYPE x [<!ENTITY a 'ha'>{laughs}<!ENTITY f SYSTEM 'file://{tmp_path}/secret'>]>"
    flat = (
        f"<?xml version='1.0'?>{start}<office:document xmlns:office='o' xmlns:text='t' "
        "office:mimetype='application/vnd.oasis.opendocument.text'><office:body>"
        f"<text:p>x{entity}</text:p></office:body></office:document>"
    )
    with suppress(CannotRead):
        assert read(flat.encode()).text == "x"


def test_a_giant_row_is_cut_before_it_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []
    monkeypatch.setattr(
        TextWriter, "_emit_row", lambda _, cells: joined.append(sum(map(len, cells)))
    )
    TextWriter(Draft("x", "x", ReadLimits(characters=1_000))).values(["y" * 600] * 1_000)
    assert joined[0] < 1_100


def test_slides_with_titles_points_and_notes(read: Read) -> None:
    def shape(kind: str, *paragraphs: str) -> str:
        inner = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in paragraphs)
        return f"<p:sp><p:nvPr><p:ph type='{kind}'/></p:nvPr><p:txBody>{inner}</p:txBody></p:sp>"

    def slide(*shapes: str) -> str:
        return f"<p:sld xmlns:p='urn:p' xmlns:a='urn:a'>{''.join(shapes)}</p:sld>"

    data = packed(
        {
            "[Content_Types].xml": types("presentationml.presentation"),
            "ppt/presentation.xml": "<p xmlns:r='urn:r'><sldId id='9' r:id='b'/>"
            "<sldId id='8' r:id='a'/></p>",
            "ppt/_rels/presentation.xml.rels": relations(
                ("a", "slide", "slides/1.xml"), ("b", "slide", "slides/2.xml")
            ),
            "ppt/slides/1.xml": slide(shape("title", "Last"), shape("sldNum", "7")),
            "ppt/slides/2.xml": slide(shape("title", "First"), shape("body", "one", "two")),
            "ppt/slides/_rels/2.xml.rels": relations(("n", "notesSlide", "../notes/n.xml")),
            "ppt/notes/n.xml": slide(shape("body", "say hello")),
        }
    )
    extracted = read(data)
    assert extracted.text == "First\none\ntwo\nsay hello\n\fLast"
    assert extracted.markdown == "## First\n\n- one\n- two\n- say hello\n\n## Last"
    assert extracted.facts["pages"] == 2


def chart(*series: str, title: str = "") -> str:
    shown = f"<c:title><c:tx><a:t>{title}</a:t></c:tx></c:title>" if title else ""
    return (
        f"<c:chartSpace xmlns:c='c' xmlns:a='a'><c:chart>{shown}<c:plotArea><c:barChart>"
        f"{''.join(series)}</c:barChart><c:valAx><c:title><a:t>axis</a:t></c:title></c:valAx>"
        "</c:plotArea></c:chart></c:chartSpace>"
    )


def points(kind: str, texts: dict[int, str], code: str = "General") -> str:
    inner = "".join(f"<c:pt idx='{at}'><c:v>{text}</c:v></c:pt>" for at, text in texts.items())
    code = f"<c:formatCode>{code}</c:formatCode>" if kind == "num" else ""
    return f"<c:{kind}Ref><c:f>S!A1</c:f><c:{kind}Cache>{code}{inner}</c:{kind}Cache></c:{kind}Ref>"


def series(name: str, categories: str, values: str) -> str:
    return (
        f"<c:ser><c:tx>{points('str', {0: name})}</c:tx><c:cat>{categories}</c:cat>"
        f"<c:val>{values}</c:val></c:ser>"
    )


def with_charts(*charts: str) -> bytes:
    places = {f"c{number}": content for number, content in enumerate(charts)}
    return packed(
        {
            "[Content_Types].xml": types("presentationml.presentation"),
            "ppt/presentation.xml": "<p xmlns:r='urn:r'><sldId r:id='a'/></p>",
            "ppt/_rels/presentation.xml.rels": relations(("a", "slide", "1.xml")),
            "ppt/1.xml": "<p:sld xmlns:p='p' xmlns:a='a'><p:sp><a:p><a:t>Sales</a:t></a:p></p:sp>"
            "</p:sld>",
            "ppt/_rels/1.xml.rels": relations(*((name, "chart", f"{name}.xml") for name in places)),
            **{f"ppt/{name}.xml": content for name, content in places.items()},
        }
    )


def test_charts_of_a_presentation_are_tables(read: Read) -> None:
    quarters = points("str", {0: "Q1", 1: "Q2"})
    days = points("num", {0: "45352", 1: "45353"}, "yyyy/mm/dd")
    extracted = read(
        with_charts(
            chart(
                series("East", quarters, points("num", {0: "4.3", 1: "0.30000000000000004"})),
                series("West", quarters, points("num", {1: "7"})),
                title="By region",
            ),
            chart(series("Visits", days, points("num", {0: "5", 1: "6"}))),
        )
    )
    assert extracted.markdown == (
        "Sales\n\nBy region\n\n|  | East | West |\n| --- | --- | --- |\n| Q1 | 4.3 |  |\n"
        "| Q2 | 0.3 | 7 |\n\n|  | Visits |\n| --- | --- |\n| 2024-03-01 | 5 |\n"
        "| 2024-03-02 | 6 |"
    )
    assert extracted.text == (
        "Sales\nBy region\n\tEast\tWest\nQ1\t4.3\nQ2\t0.3\t7\n\tVisits\n2024-03-01\t5\n"
        "2024-03-02\t6"
    )


def test_a_chart_of_a_word_document_is_a_table_after_its_paragraph(read: Read) -> None:
    quarters = points("str", {0: "Q1", 1: "Q2"})
    values = points("num", {0: "4.3", 1: "7"})
    data = packed(
        {
            "[Content_Types].xml": types("wordprocessingml.document"),
            "word/document.xml": "<w:document xmlns:w='w' xmlns:c='c' xmlns:r='urn:r'><w:body>"
            "<w:p><w:r><w:t>See the chart:</w:t></w:r><w:r><c:chart r:id='x'/></w:r></w:p>"
            "<w:p><w:r><w:t>After it.</w:t></w:r></w:p></w:body></w:document>",
            "word/_rels/document.xml.rels": relations(("x", "chart", "charts/1.xml")),
            "word/charts/1.xml": chart(series("East", quarters, values), title="By region"),
        }
    )
    extracted = read(data)
    assert extracted.markdown == (
        "See the chart:\n\nBy region\n\n|  | East |\n| --- | --- |\n| Q1 | 4.3 |\n| Q2 | 7 |"
        "\n\nAfter it."
    )
    assert extracted.text == "See the chart:\nBy region\n\tEast\nQ1\t4.3\nQ2\t7\nAfter it."


def test_a_giant_chart_ends_at_the_limit(read: Read) -> None:
    values = points("num", {10**8 + number: "1" * 50 for number in range(5_000)})
    extracted = read(with_charts(chart(series("x", "", values))), ratio=10_000, characters=10_000)
    assert len(extracted.text) <= 10_000
    assert "a chart was cut: it is longer than the limit" in str(extracted.facts["warnings"])


def test_a_damaged_chart_costs_no_text(read: Read) -> None:
    extracted = read(with_charts("<c:chart"))
    assert (extracted.text, extracted.facts["warnings"]) == (
        "Sales",
        ["slide 1: a chart is damaged"],
    )


def test_an_opendocument_text(read: Read) -> None:
    extracted = read(
        odf(
            "text",
            "<text:h text:outline-level='2'>Head</text:h><text:p>a<text:s text:c='2'/>b"
            "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>the note"
            "</text:p></text:note-body></text:note> goes on</text:p>"
            "<text:list><text:list-item><text:p>item</text:p></text:list-item></text:list>",
        )
    )
    assert extracted.kind == "odt"
    assert extracted.text == "Head\na  b[1] goes on\n[1] the note\nitem"
    assert extracted.markdown == "## Head\n\na  b[^1] goes on\n\n[^1]: the note\n\n- item"


def test_an_opendocument_sheet_does_not_repeat_without_end(read: Read) -> None:
    extracted = read(
        odf(
            "spreadsheet",
            "<table:table table:name='S'><table:table-row><table:table-cell><text:p>1</text:p>"
            "</table:table-cell><table:table-cell table:number-columns-repeated='16000'/>"
            "<table:table-cell><text:p>2</text:p></table:table-cell></table:table-row>"
            "<table:table-row table:number-rows-repeated='1048574'><table:table-cell/>"
            "</table:table-row></table:table>",
        )
    )
    assert (extracted.kind, extracted.text) == ("ods", "S\n1\t\t\t2")


def test_an_opendocument_presentation(read: Read) -> None:
    page = (
        "<draw:page><draw:frame presentation:class='title'><draw:text-box><text:p>T</text:p>"
        "</draw:text-box></draw:frame><draw:frame><draw:text-box><text:p>b</text:p></draw:text-box>"
        "</draw:frame></draw:page>"
    )
    extracted = read(odf("presentation", page * 2))
    assert (extracted.kind, extracted.text) == ("odp", "T\nb\n\fT\nb")
    assert extracted.markdown == "## T\n\nb\n\n## T\n\nb"
    assert "only the first 1" in str(read(odf("presentation", page * 2), pages=1).facts["warnings"])


def test_a_locked_opendocument_is_encrypted(refuse: Refuse) -> None:
    data = packed(
        {"content.xml": "xx", "META-INF/manifest.xml": "<m><encryption-data/></m>"}, ODF + "text"
    )
    assert refuse(data).code == "encrypted"


def book(**more: str) -> bytes:
    return packed(
        {
            "META-INF/container.xml": "<c><rootfile full-path='O/b.opf'/></c>",
            "O/b.opf": "<package xmlns:dc='d'><dc:title>A book</dc:title>"
            "<item id='2' href='b.xhtml' media-type='application/xhtml+xml'/>"
            "<item id='1' href='a%20a.xhtml' media-type='application/xhtml+xml'/>"
            "<itemref idref='1'/><itemref idref='2'/></package>",
            "O/a a.xhtml": "<html><head><title>no</title></head><body><h1>One</h1>first</body>"
            "</html>",
            "O/b.xhtml": "<html><body><p>second</p></body></html>",
            **more,
        },
        "application/epub+zip",
    )


def test_an_e_book_in_the_order_of_its_spine(read: Read, refuse: Refuse) -> None:
    extracted = read(book())
    assert (extracted.kind, extracted.text) == ("epub", "One\n\nfirst\n\nsecond")
    assert (extracted.facts["title"], extracted.facts["pages"]) == ("A book", 2)
    drm = "<e><EncryptionMethod Algorithm='http://www.w3.org/2001/04/xmlenc#aes128-cbc'/></e>"
    assert refuse(book(**{"META-INF/encryption.xml": drm})).code == "encrypted"


def test_rich_text(read: Read) -> None:
    extracted = read(
        rb"{\rtf1\ansi\ansicpg1250{\fonttbl{\f0 Arial;}{\f1\fcharset204 Cyr;}}{\info{\title Brief}}"
        rb"{\*\unknown hidden}{\stylesheet{\s1 Heading;}}"
        rb"\pard Za\'bf\'f3\u322?\'e6 {\f1\'e6\'f3\'ea}"
        rb"\par {\listtext\pard -\tab}\ls1 item\par\pard\trowd\intbl a\cell b\cell\row"
        rb"\trowd\intbl c\cell d\cell\row\pard end {\field{\*\fldinst LINK}{\fldrslt shown}}"
        rb"{\pict\bin5 {{{{{}}\par}"
    )
    assert extracted.text == "Zażółć жук\nitem\na\tb\nc\td\nend shown"
    assert extracted.markdown is not None
    assert "- item\n\n| a | b |\n| --- | --- |\n| c | d |" in extracted.markdown
    assert extracted.facts["title"] == "Brief"


def test_an_old_word_document(read: Read, refuse: Refuse) -> None:
    text = "Zażółć\rone\x07\x07\x07two\x07x\x07\x07\x13 LINK \x14shown\x15 end\r"
    extracted = read(word_document(text))
    assert extracted.text == "Zażółć\none\ntwo\tx\nshown end"
    assert refuse(word_document(text, flags=0x300)).code == "encrypted"


def test_an_old_sheet(read: Read) -> None:
    extracted = read(workbook(("łódź", 1.5), (2.0, "x")))
    assert (extracted.kind, extracted.text) == ("xls", "Sales\n\nłódź\t1.5\n2\tx")


def test_an_old_presentation(read: Read) -> None:
    extracted = read(presentation(("First", "own ż"), ("Second", "more")))
    assert extracted.text == "First\nown ż\n\fSecond\nmore"
    assert extracted.markdown == "## First\n\nown ż\n\n## Second\n\nmore"
    assert extracted.facts["pages"] == 2


def outlook(subject: str, body: str, **more: object) -> dict[str, object]:
    def text(value: str) -> bytes:
        return value.encode("utf-16-le").ljust(4_096, b"\0")

    return {
        "__properties_version1.0": bytes(32)
        + struct.pack("<HHIQ", 0x40, 0x39, 6, 133_536_000 * 10**9),
        "__substg1.0_0037001F": text(subject),
        "__substg1.0_1000001F": text(body),
        "__substg1.0_0C1A001F": text("Ada"),
        **more,
    }


def test_an_outlook_message_with_a_file_and_a_message(read: Read) -> None:
    inner = outlook("inner subject", "inner body")
    file = {
        "__properties_version1.0": b"x",
        "__substg1.0_3707001F": "notes.txt".encode("utf-16-le").ljust(4_096, b"\0"),
        "__substg1.0_37010102": b"words " * 1_000,
    }
    nested = {"__properties_version1.0": b"x", "__substg1.0_3701000D": inner}
    extracted = read(
        compound(
            outlook(
                "Hello",
                "the body",
                **{"__attach_version1.0_#00000000": file, "__attach_version1.0_#00000001": nested},
            )  # type: ignore[arg-type]
        )
    )
    assert extracted.kind == "msg"
    assert extracted.text.startswith("Subject: Hello\nFrom: Ada\nDate: 2024-")
    assert extracted.text.endswith("\n\nthe body")
    assert [part.name for part in extracted.parts] == ["notes.txt", "message.eml"]
    again = read(extracted.parts[1].content)
    assert (again.facts["title"], "inner body" in again.text) == ("inner subject", True)


def test_a_password_unlocks_an_office_document(read: Read, refuse: Refuse, word: bytes) -> None:
    data = locked(word, "open sesame")
    assert refuse(data).code == "encrypted"
    assert refuse(data, password="wrong").code == "encrypted"
    extracted = read(data, password="open sesame")
    assert (extracted.kind, "before the table" in extracted.text) == ("docx", True)
