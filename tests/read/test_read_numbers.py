"""Numbers of clauses and list items, and marks of notes, as a document shows them."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from officekit import NAMES, ODF, packed, relations, types
from olefiles import LISTS, word_document, word_list, word_styles

from fairlead.read import Extracted
from fairlead.read.numbering import Level, ListCounter, letters, roman

Read = Callable[..., Extracted]

LEVELS = "".join(
    f"<w:lvl w:ilvl='{number}'><w:start w:val='1'/><w:numFmt w:val='{shown}'/>{more}"
    f"<w:lvlText w:val='{text}'/></w:lvl>"
    for number, (shown, text, more) in enumerate(
        [
            ("decimal", "%1.", "<w:pStyle w:val='H1'/>"),
            ("decimal", "%1.%2", "<w:pStyle w:val='H2'/>"),
            ("lowerLetter", "(%3)", ""),
            ("bullet", "o", ""),
        ]
    )
)
NUMBERING = (
    f"<w:numbering xmlns:w='w'><w:abstractNum w:abstractNumId='7'>{LEVELS}</w:abstractNum>"
    "<w:abstractNum w:abstractNumId='8'><w:lvl w:ilvl='0'><w:start w:val='4'/>"
    "<w:numFmt w:val='upperRoman'/><w:lvlText w:val='Article %1'/></w:lvl></w:abstractNum>"
    "<w:num w:numId='1'><w:abstractNumId w:val='7'/></w:num>"
    "<w:num w:numId='2'><w:abstractNumId w:val='7'/><w:lvlOverride w:ilvl='0'>"
    "<w:startOverride w:val='9'/></w:lvlOverride></w:num>"
    "<w:num w:numId='3'><w:abstractNumId w:val='8'/></w:num></w:numbering>"
)
STYLES = (
    "<w:styles xmlns:w='w'>"
    "<w:style w:styleId='H1'><w:name w:val='heading 1'/><w:pPr><w:numPr><w:numId w:val='1'/>"
    "</w:numPr></w:pPr></w:style>"
    "<w:style w:styleId='H2'><w:name w:val='heading 2'/><w:basedOn w:val='H1'/><w:pPr><w:numPr>"
    "<w:ilvl w:val='1'/></w:numPr></w:pPr></w:style></w:styles>"
)


def paragraph(text: str, *, style: str = "", number: str = "", level: int = 0) -> str:
    properties = f"<w:pStyle w:val='{style}'/>" if style else ""
    if number:
        properties += f"<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{number}'/></w:numPr>"
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def word(*body: str, **parts: str) -> bytes:
    main = [("s", "styles", "styles.xml"), ("n", "numbering", "numbering.xml")]
    return packed(
        {
            "[Content_Types].xml": types("wordprocessingml.document"),
            "_rels/.rels": relations(("d", "officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": relations(
                *main, *((name, name, f"{name}.xml") for name in parts)
            ),
            "word/styles.xml": STYLES,
            "word/numbering.xml": NUMBERING,
            "word/document.xml": f"<w:document xmlns:w='w'><w:body>{''.join(body)}</w:body>"
            "</w:document>",
            **{f"word/{name}.xml": content for name, content in parts.items()},
        }
    )


def test_clauses_of_a_word_document_have_their_numbers(read: Read) -> None:
    extracted = read(
        word(
            paragraph("Parties", style="H1"),
            paragraph("Liability", style="H1"),
            paragraph("Cap", style="H2"),
            paragraph("loss", number="1", level=2),
            paragraph("damage", number="1", level=2),
            paragraph("point", number="1", level=3),
            paragraph("Exceptions", style="H2"),
            paragraph("theft", number="1", level=2),
            paragraph("no number", style="H2", number="0"),
            paragraph("Term", number="2"),
            paragraph("Law", number="3"),
        )
    )
    assert extracted.text.split("\n") == [
        "1. Parties", "2. Liability", "2.1 Cap", "(a) loss", "(b) damage", "point",
        "2.2 Exceptions", "(a) theft", "no number", "9. Term", "Article IV Law",
    ]  # fmt: skip
    assert extracted.markdown == (
        "# 1. Parties\n\n# 2. Liability\n\n## 2.1 Cap\n\n      - (a) loss\n      - (b) damage\n"
        "         - point\n\n## 2.2 Exceptions\n\n      - (a) theft\n\n## no number\n\n9. Term\n"
        "- Article IV Law"
    )


def test_numbers_in_the_cells_of_a_table(read: Read) -> None:
    cells = "".join(f"<w:tc>{paragraph(text, number='1')}</w:tc>" for text in ("first", "second"))
    assert read(word(f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>")).text == "1. first\t2. second"


def test_notes_of_a_word_document_have_their_marks(read: Read) -> None:
    def run(inner: str) -> str:
        return f"<w:r>{inner}</w:r>"

    def note(kind: str, key: str, text: str) -> str:
        inner = run(f"<w:{kind}Ref/>") + run(f"<w:tab/><w:t> {text}</w:t>")
        return f"<w:{kind} w:id='{key}'><w:p>{inner}</w:p></w:{kind}>"

    def reference(kind: str, key: str) -> str:
        return run(f"<w:{kind}Reference w:id='{key}'/>")

    body = (
        f"<w:p>{run('<w:t>price</w:t>')}{reference('footnote', '5')}"
        f"{run('<w:t> and [term]</w:t>')}{reference('endnote', '2')}"
        f"{reference('footnote', '4')}</w:p>"
    )
    feet = f"{note('footnote', '4', 'later')}{note('footnote', '5', 'net')}"
    data = word(
        body,
        footnotes=f"<w:footnotes xmlns:w='w'>{feet}</w:footnotes>",
        endnotes=f"<w:endnotes xmlns:w='w'>{note('endnote', '2', 'years')}</w:endnotes>",
    )
    extracted = read(data)
    assert extracted.text == "price[1] and [term][i][2]\n\n[2] later\n[1] net\n\n[i] years"
    assert extracted.markdown == (
        "price[^1] and \\[term][^i][^2]\n\n[^2]: later\n\n[^1]: net\n\n[^i]: years"
    )


@pytest.mark.parametrize(
    ("number", "shown", "figures"),
    [(1, "a", "i"), (26, "z", "xxvi"), (28, "bb", "xxviii"), (10**9, str(10**9), str(10**9))],
)
def test_letters_and_roman_figures(number: int, shown: str, figures: str) -> None:
    assert (letters(number), roman(number)) == (shown, figures)


def test_a_giant_label_is_cut() -> None:
    assert len(ListCounter().advance(0, {0: Level(text="%1" * 10_000, start=10**9)})) <= 60


def test_numbers_and_notes_of_rich_text(read: Read) -> None:
    extracted = read(
        rb"{\rtf1\ansi{\*\listtable{\list{\listlevel}}}"
        # As LibreOffice writes it, and as Word does: the label before or after the properties.
        rb"\pard\outlinelevel0{\listtext\pard\plain  4.\tab}\ls1 Liability\par"
        rb"{\listtext\pard\plain\b 4.1\tab}\pard\ls1\ilvl1\outlinelevel1 Cap\par"
        rb"{\listtext (a)\tab}\pard\ilvl2\ls1 loss{\super\chftn{\*\footnote\chftn\pard\tab net"
        rb"\par of tax}} of it\par{\listtext (b)\tab}\pard\ilvl2\ls1 theft"
        rb"{\super\chftn}{\footnote\ftnalt\pard{\super\chftn} at night}\par"
        rb"\pard{\pntext\f1 o\tab}point\par{\pntext\f1\'b7\tab}dot\par\pard end"
        rb"{\super\chftn{\footnote\chftn last}}\par"
        rb"\trowd\intbl{\listtext 1)\tab}\ls1 cell\cell\pard\intbl next\cell\row}"
    )
    assert extracted.text.split("\n") == [
        "4. Liability", "4.1 Cap", "(a) loss[1] of it", "[1] net", "of tax", "(b) theft[i]",
        "[i] at night", "point", "dot", "end[2]", "[2] last", "1) cell\tnext",
    ]  # fmt: skip
    assert extracted.markdown is not None
    assert extracted.markdown.startswith(
        "# 4. Liability\n\n## 4.1 Cap\n\n      - (a) loss[^1] of it\n\n[^1]: net\n\nof tax\n\n"
    )
    assert "- point\n- dot\n\nend[^2]\n\n[^2]: last" in extracted.markdown


OUTLINE = (
    f"<office:document-styles {NAMES} xmlns:style='s'><office:styles><text:outline-style>"
    "<text:outline-level-style text:level='1' style:num-format='I' style:num-suffix='.'/>"
    "<text:outline-level-style text:level='2' style:num-format='1' text:display-levels='2'/>"
    "<text:outline-level-style text:level='3' style:num-format=''/>"
    "</text:outline-style></office:styles></office:document-styles>"
)
LIST_STYLES = (
    "<office:automatic-styles><text:list-style style:name='L1'>"
    "<text:list-level-style-number text:level='1' style:num-format='a' style:num-prefix='('"
    " style:num-suffix=')'/><text:list-level-style-number text:level='2' style:num-format='1'"
    " style:num-suffix='.' text:start-value='5'/></text:list-style>"
    "<text:list-style style:name='L2'><text:list-level-style-bullet text:level='1'/>"
    "</text:list-style><style:style style:name='P1' style:family='paragraph'"
    " style:list-style-name=''/></office:automatic-styles>"
)


def odt(*body: str) -> bytes:
    content = (
        f"<office:document-content {NAMES} xmlns:style='s'>{LIST_STYLES}<office:body>"
        f"{''.join(body)}</office:body></office:document-content>"
    )
    return packed({"content.xml": content, "styles.xml": OUTLINE}, ODF + "text")


def title(level: int, text: str, more: str = "") -> str:
    return f"<text:h text:outline-level='{level}' {more}>{text}</text:h>"


def listed(style: str, *items: str, more: str = "") -> str:
    inner = "".join(f"<text:list-item>{inner}</text:list-item>" for inner in items)
    return f"<text:list text:style-name='{style}' {more}>{inner}</text:list>"


def test_clauses_of_an_opendocument_text_have_their_numbers(read: Read) -> None:
    def p(text: str) -> str:
        return f"<text:p>{text}</text:p>"

    extracted = read(
        odt(
            title(1, "Parties"),
            title(2, "Seller"),
            title(1, "no number", "text:style-name='P1'"),
            title(1, "Liability"),
            title(2, "Cap"),
            title(3, "Detail"),
            listed("L1", p("loss") + p("more of it"), p("theft"), more="xml:id='x'"),
            p("between"),
            listed(
                "L1",
                listed("", p("five"), p("six")),
                p("fire"),
                more="text:continue-list='x'",
            ),
            listed("L2", p("point")),
            listed("L1", p("anew")),
            title(2, "Exceptions"),
        )
    )
    assert extracted.text.split("\n") == [
        "I. Parties", "I.1 Seller", "no number", "II. Liability", "II.1 Cap", "Detail", "(a) loss",
        "more of it", "(b) theft", "between", "5. five", "6. six", "(c) fire", "point", "(a) anew",
        "II.2 Exceptions",
    ]  # fmt: skip
    assert extracted.markdown is not None
    assert extracted.markdown.startswith("# I. Parties\n\n## I.1 Seller\n\n# no number\n\n")
    assert "   5. five\n   6. six\n- (c) fire\n- point" in extracted.markdown


def paragraph_of(style: int, *properties: tuple[int, str, int]) -> bytes:
    content = [struct.pack(f"<H{size}", number, value) for number, size, value in properties]
    return struct.pack("<H", style) + b"".join(content)


LEVEL, LIST, OUTLINE_LEVEL, IN_TABLE, ENDS_ROW = 0x260A, 0x460B, 0x2640, 0x2416, 0x2417


def test_headings_lists_tables_and_notes_of_an_old_word_document(read: Read) -> None:
    listed = (LIST, "H", 1)
    numbered = struct.pack("<HH", LIST, 1)
    styles = word_styles(
        (0, 0xFFF, b""),
        (1, 0, numbered),
        (2, 1, struct.pack("<HB", LEVEL, 1)),
        (99, 2, b""),
    )
    levels = word_list(77, (0, "\0."), (1, "\0.\1"), (4, "(\2)"), (23, "o"))
    in_table = (IN_TABLE, "B", 1)
    main = (
        "Parties\rLiability\x02 \U0001f600\rCap\rloss\rtheft\rpoint\rNote\r"
        "a\rb\x07c\x07\x07d\x07e\x07\x07end\r"
    )
    text = main + "\x02 net\r"
    length = len(main) + 1  # the emoji has two units
    extracted = read(
        word_document(
            text,
            paragraphs=[
                paragraph_of(1),
                paragraph_of(1),
                paragraph_of(3),
                paragraph_of(0, (LEVEL, "B", 2), listed),
                paragraph_of(0, (LEVEL, "B", 2), listed),
                paragraph_of(0, (LEVEL, "B", 3), listed),
                paragraph_of(0, (OUTLINE_LEVEL, "B", 2)),
                *[paragraph_of(0, in_table)] * 3,
                paragraph_of(0, in_table, (ENDS_ROW, "B", 1)),
                *[paragraph_of(0, in_table)] * 2,
                paragraph_of(0, in_table, (ENDS_ROW, "B", 1)),
                paragraph_of(0),
                paragraph_of(0),
            ],
            tables={
                0xA2: styles,
                LISTS: levels,
                0x2EA: struct.pack("<Ii12xi", 1, 77, -1),
                0xAA: struct.pack("<IIH", main.index("\x02"), length, 1),
                0xB2: struct.pack("<II", 0, 6),
            },
            lengths=[length, 6],
        )
    )
    assert extracted.markdown == (
        "# 1. Parties\n\n# 2. Liability[^1] \U0001f600\n\n## 2.I Cap\n\n      - (a) loss\n"
        "      - (b) theft\n         - point\n\n### Note\n\n| a b | c |\n| --- | --- |\n"
        "| d | e |\n\nend\n\n[^1]: net"
    )
    assert extracted.text.endswith("a b\tc\nd\te\nend\n[1] net")
