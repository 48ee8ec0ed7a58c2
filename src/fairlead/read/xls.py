"""Old Excel sheets (xls)."""

from __future__ import annotations

import io
from typing import Any

import xlrd

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.ole import decrypt_old_office, open_ole
from fairlead.read.text_writer import TextWriter, heading
from fairlead.read.xlsx import Formats, plain_number, shown_blanks

_OLD_BOOKS = (b"\x09\x08\x10\x00\x00\x06\x05\x00", b"\x09\x08\x08\x00\x00\x05\x05\x00")
_EMPTY = (xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK)


def recognises(source: Source) -> bool:
    """Whether it is a compound file with a workbook, or a workbook without a container."""
    names = ("Workbook", "Book", "WORKBOOK", "BOOK")
    return any(map(source.has_ole_stream, names)) or source.head.startswith(_OLD_BOOKS)


def read(source: Source, task: Task) -> Extracted:
    """Each sheet under its name, a row a line; formulas give the values last computed."""
    draft = Draft("xls", library("xlrd"), task.limits)
    book = _opened(source)
    if book is None:
        return read(decrypt_old_office(source, task), task)
    if source.is_ole:
        with open_ole(source, task) as ole:
            ole.add_properties(draft)
    writer = TextWriter(draft)
    draft.fact("pages", book.nsheets)
    formats = Formats([], from_1904=bool(book.datemode))
    for index in range(min(book.nsheets, task.limits.members)):
        _add_sheet(book, index, formats, writer)
        book.unload_sheet(index)
        if draft.full:
            break
    writer.close()
    return draft.finish()


def _opened(source: Source) -> Any:
    """The workbook; None where a password protects it."""
    try:
        return xlrd.open_workbook(
            file_contents=source.read(source.size),
            logfile=io.StringIO(),
            on_demand=True,
            ragged_rows=True,  # as many cells as a row has, not as the widest one
        )
    except xlrd.XLRDError as error:
        if "encrypted" in str(error):
            return None
        raise CannotRead("damaged", "The sheet is damaged and could not be opened.") from error


def _add_sheet(book: Any, index: int, formats: Formats, writer: TextWriter) -> None:
    sheet = book.sheet_by_index(index)
    writer.part()
    writer.begin(heading(2))
    writer.flow(sheet.name)
    writer.begin()
    for number in range(sheet.nrows):
        if not writer.values(_row(sheet.row(number), formats)):
            return


def _row(cells: list[Any], formats: Formats) -> list[str]:
    shown: list[str] = []
    blank = 0
    for cell in cells:
        if cell.ctype in _EMPTY:
            blank += 1
            continue
        shown.extend([""] * shown_blanks(blank))
        shown.append(_shown(cell, formats))
        blank = 0
    return shown


def _shown(cell: Any, formats: Formats) -> str:
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    if cell.ctype == xlrd.XL_CELL_ERROR:
        return str(xlrd.error_text_from_code.get(cell.value, "#ERROR"))
    if cell.ctype == xlrd.XL_CELL_NUMBER:
        return plain_number(float(cell.value))
    if cell.ctype == xlrd.XL_CELL_DATE:
        return formats.shown(float(cell.value), _code(float(cell.value)))
    return str(cell.value)


def _code(moment: float) -> str:
    """What a moment shows: a part of a day is a time, whole days are dates."""
    return "h:mm" if moment < 1 else "yyyy-mm-dd" if moment.is_integer() else "yyyy-mm-dd h:mm"


READER = Reader("xls", Rank.SIGNATURE, recognises, read)
