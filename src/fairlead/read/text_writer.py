"""Headings, paragraphs, lists and tables, written as text and as Markdown at once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from fairlead.read.draft import Draft

_MAX_CELLS = 16_384  # of a row: the widest sheet
_MAX_ROWS_HELD = 200  # of a Markdown table, whose width must be known before its first row
_LAYOUT_CHARACTERS = 800  # a cell with more, in several blocks, arranges a page
_SPECIAL = re.compile(r"[\\`*<\[]|(?<![^\W_])_|_(?![^\W_])")
_LINE_START = re.compile(r"^(\s*)(#{1,6}(?=\s|$)|>|[-+](?=\s|$)|\d{1,9}(?=[.)](?:\s|$)))", re.M)
_LINE_BREAKS = re.compile(r"\s*\n\s*")


class Style(NamedTuple):
    """What a block is: the mark before it in Markdown, and whether it stays close to its like."""

    mark: str = ""
    close: bool = False
    exact: bool = False


PLAIN = Style()
CODE = Style(exact=True)


def heading(level: int) -> Style:
    """A heading; deeper ones than Markdown has become its deepest."""
    return Style("#" * max(1, min(level, 6)) + " ")


def item(depth: int = 0, *, numbered: bool = False) -> Style:
    """An item of a list."""
    return Style("   " * min(depth, 8) + ("1. " if numbered else "- "), close=True)


@dataclass(slots=True)
class _Table:
    """A table being read: the cells of its present row, each a list of blocks."""

    cells: list[list[tuple[Style, str]]] = field(default_factory=list)
    spans: int = 0  # empty cells that the present one covers
    in_row: bool = False
    layout: bool = False
    values: bool = False  # surely no layout: a sheet


class TextWriter:
    """Writes blocks with no more breaks than the structure asks for.

    Empty blocks leave no trace. `gap` is the number of line breaks between two paragraphs of
    the plain text. Methods that write return False when the limit is reached.
    """

    def __init__(self, draft: Draft, *, gap: int = 2) -> None:
        self.draft = draft
        self._gap = gap
        self._style = PLAIN
        self._pieces: list[str] = []
        self._held = 0
        self._pending = 0  # characters of ended blocks that wait for their row or paragraph
        self._space = False
        self._asides: list[tuple[Style, list[str]]] = []
        self._later: list[tuple[Style, str]] = []
        self._tables: list[_Table] = []
        self._rows: list[list[str]] = []
        self._last: Style | None = None
        self._break = ""

    # Text

    def write(self, text: str) -> bool:
        """Write text as it stands."""
        if self._space and self._pieces:
            text = f" {text}"
        self._space = False
        room = self.draft.room - self._held - self._pending
        self._pieces.append(text[: max(0, room + 1)])
        self._held += len(text)
        if room < len(text):
            self.close()
        return not self.draft.full

    def flow(self, text: str) -> bool:
        """Write text in which any white space means one space."""
        words = text.split()
        if text[:1].isspace():
            self._space = True
        has_room = self.write(" ".join(words)) if words else not self.draft.full
        self._space = self._space or (bool(words) and text[-1:].isspace())
        return has_room

    def line(self) -> None:
        """Begin a new line within the block."""
        self._space = False
        self.write("\n")

    # Blocks

    def begin(self, style: Style = PLAIN) -> None:
        """End the present block; what follows is another one."""
        self._end_block()
        self._style = style

    def style(self, style: Style) -> None:
        """Say what the present block is, where that shows only after its beginning."""
        self._style = style

    def page(self) -> None:
        """A page or slide begins: the text has a form feed here."""
        self._end_block()
        self._flush_rows()
        if self.draft.text.length:
            self._break = "\n\f"

    def part(self) -> None:
        """Something else begins, such as the body after a header."""
        self._end_block()
        self._flush_rows()
        self._break = self._break or "\n\n"

    def aside(self) -> None:
        """A note or a frame begins within a paragraph; it is written after the paragraph."""
        self._asides.append((self._style, self._pieces))
        self._style, self._pieces = PLAIN, []

    def end_aside(self) -> None:
        """The paragraph goes on where it was left."""
        self._end_block()
        if self._asides:
            self._style, self._pieces = self._asides.pop()

    def close(self) -> None:
        """Write what is still held."""
        while self._asides:
            self.end_aside()
        self._end_block()
        while self._tables:
            self.end_row()
            self._tables.pop()
        self._flush_rows()

    # Tables

    def table(self, *, values: bool = False) -> None:
        """A table begins; one within a cell shows that the outer one only arranges the page.

        `values` says that it is a sheet, whose rows are rows even if they have one cell.
        """
        self._end_block()
        if self._tables and self._tables[-1].in_row:
            self._lay_out(self._tables[-1])
        else:
            self._flush_rows()
        self._tables.append(_Table(values=values))

    def end_table(self) -> None:
        """A table ends."""
        self.end_row()
        if self._tables:
            self._tables.pop()
        self._flush_rows()

    def row(self) -> None:
        """A row begins."""
        if not self._tables:
            self.table()
        self.end_row()
        self._tables[-1].in_row = True

    def cell(self, *, blank_before: int = 0) -> None:
        """A cell begins, after so many that are empty."""
        if not self._tables or not self._tables[-1].in_row:
            self.row()
        self._end_block()
        table = self._tables[-1]
        blank_before, table.spans = blank_before + table.spans, 0
        room = _MAX_CELLS - len(table.cells)
        table.cells.extend([] for _ in range(min(blank_before + 1, room)))

    def span(self, blank: int) -> None:
        """The present cell is as wide as so many more, which stay empty."""
        if self._tables and self._tables[-1].in_row and blank > 0:
            self._tables[-1].spans += min(blank, _MAX_CELLS)

    def end_row(self) -> None:
        """The row ends."""
        self._end_block()
        if not self._tables or not self._tables[-1].in_row:
            return
        table = self._tables[-1]
        cells, table.cells, table.in_row, table.spans = table.cells, [], False, 0
        self._pending = 0
        if not table.values and _arranges(cells):
            self._emit_all(cells)
        else:
            self._emit_row([" ".join(text for _, text in cell) for cell in cells])
        table.layout = False

    def values(self, cells: list[str]) -> bool:
        """Write a whole row of a sheet at once."""
        room = self.draft.room
        for index, cell in enumerate(cells):
            room -= len(cell) + 1
            if room < 0:
                cells = [*cells[:index], cell[: max(0, room + len(cell) + 3)]]
                break
        self._emit_row([cell.strip() for cell in cells])
        return not self.draft.full

    # Within

    def _end_block(self) -> None:
        text, self._pieces, self._held, self._space = "".join(self._pieces), [], 0, False
        style, self._style = self._style, PLAIN
        text = text.strip("\n") if style.exact else text.strip()
        if text.strip():
            self._place(style, text)
        if not self._asides:
            later, self._later = self._later, []
            for block in later:
                self._place(*block)

    def _place(self, style: Style, text: str) -> None:
        """Put a block where it belongs: after its paragraph, into its cell, or out."""
        table = self._tables[-1] if self._tables else None
        if self._asides:
            self._later.append((style, text))
            self._pending += len(text)
        elif table and table.in_row and not table.layout:
            if not table.cells:
                table.cells.append([])
            table.cells[-1].append((style, text))
            self._pending += len(text)
        else:
            self._pending = 0
            self._emit(style, text)

    def _lay_out(self, table: _Table) -> None:
        cells, table.cells, table.layout = table.cells, [], True
        self._emit_all(cells)

    def _emit_all(self, cells: list[list[tuple[Style, str]]]) -> None:
        for cell in cells:
            for style, text in cell:
                self._emit(style, text)

    def _emit(self, style: Style, text: str) -> None:
        self._flush_rows()
        near = style.close and self._last is not None and self._last.close
        self._add(text, _marked(style, text), 1 if near else 2)
        self._last = style

    def _emit_row(self, cells: list[str]) -> None:
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            return
        first = not self._rows and self._last is not _ROW
        line = "\t".join(cells)
        if "\n" in line:
            line = _LINE_BREAKS.sub(" ", line)
        self._add_text(line, self._gap if first else 1)
        self._last = _ROW
        self._rows.append(cells)
        if len(self._rows) >= _MAX_ROWS_HELD:
            self._flush_rows()
            self._last = _ROW

    def _add(self, text: str, markdown: str, near: int) -> None:
        self._add_text(text, min(near, self._gap))
        self._add_markdown(markdown, near)

    def _add_text(self, text: str, breaks: int) -> None:
        gap = self._break or "\n" * breaks
        self._break = ""
        self.draft.add((gap if self.draft.text.length else "") + text)

    def _add_markdown(self, markdown: str, breaks: int) -> None:
        begun = self.draft.markdown.length
        self.draft.markdown.add(("\n" * breaks if begun else "") + markdown)

    def _flush_rows(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._add_markdown(_table(rows), 2)
            self._last = None


_ROW = Style(mark="|")


def _arranges(cells: list[list[tuple[Style, str]]]) -> bool:
    """Whether the cells of a row arrange a page instead of holding values."""
    if len(cells) == 1:
        return True
    return any(
        len(cell) > 3 and sum(len(text) for _, text in cell) > _LAYOUT_CHARACTERS for cell in cells
    )


def _marked(style: Style, text: str) -> str:
    if style.exact:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        return f"{fence}\n{text}\n{fence}"
    escaped = escape(text)
    if style.mark.startswith("#"):
        return style.mark + _LINE_BREAKS.sub(" ", escaped)
    return style.mark + escaped.replace("\n", "\n" + " " * len(style.mark))


def escape(text: str) -> str:
    """The text as Markdown that means just this text."""
    escaped = _SPECIAL.sub(lambda found: "\\" + found[0], text)
    return _LINE_START.sub(_escape_start, escaped)


def _escape_start(found: re.Match[str]) -> str:
    # Of a number, the point behind it makes the list.
    mark = found[2]
    return found[1] + (f"{mark}\\" if mark.isdigit() else f"\\{mark}")


def _table(rows: list[list[str]]) -> str:
    width = max(map(len, rows))
    lines = [_table_line(row, width) for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _table_line(cells: list[str], width: int) -> str:
    shown = [_in_cell(cell) for cell in cells]
    line = "| " + " | ".join(shown + [""] * (width - len(cells))) + " |"
    return _LINE_BREAKS.sub(" ", line) if "\n" in line else line


def _in_cell(text: str) -> str:
    if text.isalnum():
        return text
    return _SPECIAL.sub(lambda found: "\\" + found[0], text).replace("|", "\\|")
