"""Old Excel sheets (xls)."""

from __future__ import annotations

import io
import re
from typing import Any

import xlrd

from fairlead.read.base import (
    CannotRead,
    Extracted,
    Rank,
    Reader,
    Source,
    Task,
    clean_line,
    library,
)
from fairlead.read.draft import Draft
from fairlead.read.error_guard import CONTENT
from fairlead.read.ole import decrypt_old_office, has_stream, open_ole
from fairlead.read.text_writer import TextWriter
from fairlead.read.xlsx import NumberFormats, plain_number, shown_blanks

_STREAMS = ("Workbook", "Book")
# A workbook of Excel 2 to 95 without a container: its first record names version and kind.
_BARE_BOOK = re.compile(
    rb"\x09(?:\x00\x04|[\x02\x04]\x06|\x08[\x06\x08\x10])\x00..(?:\x05\x00|\x10\x00|\x00\x01)", re.S
)


def _recognises(source: Source) -> bool:
    return any(has_stream(source, name) for name in _STREAMS) or _is_bare_book(source)


def _is_bare_book(source: Source) -> bool:
    return _BARE_BOOK.match(source.head) is not None


def _read(source: Source, task: Task) -> Extracted:
    """Each sheet under its name, one row per line; formulas as their last computed values."""
    draft = Draft("xls", library("xlrd"), task.limits)
    book = _open(source)
    if book is None:
        return _read(decrypt_old_office(source, task), task)
    if source.is_ole:
        with open_ole(source, task) as ole:
            ole.add_properties(draft)
    writer = TextWriter(draft)
    draft.fact("pages", book.nsheets)
    formats = NumberFormats([], from_1904=bool(book.datemode))
    for index in range(min(book.nsheets, task.limits.members)):
        name = book.sheet_names()[index]
        with draft.guard.page(clean_line(name), "sheet"):
            with draft.guard(CONTENT):
                writer.section(name)
            _write_sheet(book.sheet_by_index(index), formats, writer)
            book.unload_sheet(index)
        if draft.full:
            break
    return writer.finish()


def _write_sheet(sheet: Any, formats: NumberFormats, writer: TextWriter) -> None:
    for row in range(sheet.nrows):
        with writer.draft.guard(CONTENT):
            writer.values(_row(sheet.row(row), formats))
        if writer.draft.full:
            return


def _open(source: Source) -> Any:
    """Return the workbook; None if it is encrypted."""
    try:
        return xlrd.open_workbook(
            file_contents=source.read(source.size),
            logfile=io.StringIO(),
            on_demand=True,
            ragged_rows=True,  # rows keep their own lengths
        )
    except xlrd.XLRDError as error:
        if "encrypted" in str(error):
            return None
        raise CannotRead("damaged", "The sheet is damaged and could not be opened.") from error


def _row(cells: list[Any], formats: NumberFormats) -> list[str]:
    shown: list[str] = []
    blank = 0
    for cell in cells:
        if cell.ctype in (xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK):
            blank += 1
            continue
        shown.extend([""] * shown_blanks(blank))
        shown.append(_show(cell, formats))
        blank = 0
    return shown


def _show(cell: Any, formats: NumberFormats) -> str:
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    if cell.ctype == xlrd.XL_CELL_ERROR:
        return str(xlrd.error_text_from_code.get(cell.value, "#ERROR"))
    if cell.ctype == xlrd.XL_CELL_NUMBER:
        return plain_number(float(cell.value))
    if cell.ctype == xlrd.XL_CELL_DATE:
        days = float(cell.value)
        date_format = "yyyy-mm-dd" if days.is_integer() else "yyyy-mm-dd h:mm"
        return formats.show(days, "h:mm" if days < 1 else date_format)
    return str(cell.value)


READER = Reader("xls", Rank.SIGNATURE, _recognises, _read)
