"""Sheets whose files store less, or more, than a reader sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from officekit import odf
from olefiles import Tree, compound, sheet_of_excel_4, word_document_streams, workbook_stream

from fairlead.read import Extracted

Read = Callable[..., Extracted]


def row(*cells: str, repeat: int = 1) -> str:
    inner = "".join(cells)
    return f"<table:table-row table:number-rows-repeated='{repeat}'>{inner}</table:table-row>"


def cell(text: str = "", repeat: int = 1) -> str:
    shown = f"<text:p>{text}</text:p>" if text else ""
    return f"<table:table-cell table:number-columns-repeated='{repeat}'>{shown}</table:table-cell>"


def sheet(*rows: str) -> bytes:
    return odf("spreadsheet", f"<table:table table:name='S'>{''.join(rows)}</table:table>")


def test_repeated_cells_and_rows_are_written_as_often_as_they_are_shown(read: Read) -> None:
    extracted = read(
        sheet(
            row(cell("0", 3), cell(repeat=2), cell("x")),
            row(cell("a"), cell("b"), repeat=2),
            row(cell(repeat=5), repeat=1_000_000),
            row(cell("end")),
        )
    )
    assert extracted.text == "S\n0\t0\t0\t\t\tx\na\tb\na\tb\nend"
    assert extracted.markdown == (
        "## S\n\n| 0 | 0 | 0 |  |  | x |\n| --- | --- | --- | --- | --- | --- |\n"
        "| a | b |  |  |  |  |\n| a | b |  |  |  |  |\n| end |  |  |  |  |  |"
    )


@pytest.mark.parametrize(
    ("columns", "rows", "text"),
    [(1_000_000, 1, "x"), (1, 1_000_000, "x"), (10**9, 10**9, "x"), (10**9, 10**9, "x" * 5_000)],
)
def test_repeated_cells_end_at_the_limit(read: Read, columns: int, rows: int, text: str) -> None:
    extracted = read(sheet(row(cell(text, columns), repeat=rows), row(cell("y", rows))))
    assert len(extracted.text) <= 100_000
    assert extracted.text.startswith(f"S\n{text}")
    if rows > 1:
        assert extracted.facts["warnings"] == ["the text was cut after 100000 characters"]


def test_repeated_rows_end_even_if_they_fit(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.read.text_writer._MAX_COPIES", 10)
    extracted = read(sheet(row(cell("x"), repeat=8), row(cell("y"), repeat=8), row(cell("z"))))
    assert extracted.text.split("\n") == ["S", *"x" * 8, *"y" * 4, "z"]
    assert extracted.facts["warnings"] == ["repeated rows were cut after 10"]


def test_an_embedded_word_object_does_not_make_a_sheet_a_word_document(read: Read) -> None:
    letter = word_document_streams("a letter\r")
    data = compound({"MBD0001": letter, "Workbook": workbook_stream(("price", 2.0))})
    assert (read(data).kind, read(data).text) == ("xls", "Sales\n\nprice\t2")


def test_an_embedded_sheet_does_not_make_a_word_document_a_sheet(read: Read) -> None:
    pool: Tree = {"_1": {"Workbook": workbook_stream(("price", 2.0))}}
    data = compound({"ObjectPool": pool, **word_document_streams("a letter\r")})
    assert (read(data).kind, read(data).text) == ("doc", "a letter")


def test_a_sheet_of_excel_4(read: Read) -> None:
    extracted = read(sheet_of_excel_4("Käse", 2.5))
    assert extracted.kind == "xls"
    assert extracted.text.endswith("Käse\t2.5")
