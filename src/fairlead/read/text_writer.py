"""Writes headings, paragraphs, lists and tables as plain text and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from fairlead.read.base import Extracted
from fairlead.read.draft import Draft
from fairlead.read.error_guard import CONTENT, LAYOUT

_MAX_CELLS = 16_384  # of a row, as in the widest sheet
_MAX_COPIES = 1_048_576  # of rows that a document repeats, as many as the longest sheet has
_MAX_ROWS_HELD = 200  # of a Markdown table, whose width must be known before its first row
_LAYOUT_CHARACTERS = 800  # a cell with more, in several blocks, belongs to a page layout
_SPECIAL = re.compile(r"[\\`*<\[]|(?<![^\W_])_|_(?![^\W_])")
_LINE_START = re.compile(r"^(\s*)(#{1,6}(?=\s|$)|>|[-+](?=\s|$)|\d{1,9}(?=[.)](?:\s|$)))", re.M)
# Marks around the number of a note within a block. Readers never write these control characters,
# and BoundedText drops others.
_REFERENCE, _NOTE, _MARK_END = "\x01", "\x03", "\x02"
_NOTE_MARKS = re.compile(f"([{_REFERENCE}{_NOTE}])([^{_MARK_END}]*){_MARK_END}")
_LIST_MARK = re.compile(r"\d{1,9}[.)]")  # a label that Markdown itself knows
_LINE_BREAKS = re.compile(r"\s*\n\s*")


class Style(NamedTuple):
    """A block's prefix in Markdown; `close`: without a blank line between two such blocks.

    `label` is its number as the document shows it, such as 4.2 or (a).
    """

    mark: str = ""
    close: bool = False
    exact: bool = False
    label: str = ""


PLAIN = Style()
CODE = Style(exact=True)


def heading(level: int, label: str = "") -> Style:
    return Style("#" * max(1, min(level, 6)) + " ", label=label)


def item(depth: int = 0, *, numbered: bool = False, label: str = "") -> Style:
    return Style("   " * min(depth, 8) + ("1. " if numbered else "- "), close=True, label=label)


@dataclass(slots=True)
class _Table:
    """A table being read: the cells of its current row, each a list of blocks."""

    cells: list[list[tuple[Style, str]]] = field(default_factory=list)
    spans: int = 0  # empty cells that the current one covers
    in_row: bool = False
    layout: bool = False
    values: bool = False  # a sheet, never a layout


class TextWriter:
    """Writes blocks; empty ones are left out.

    `gap` is the number of line breaks between two paragraphs of the plain text. Methods that
    return a bool return False when the limit is reached.
    """

    def __init__(self, draft: Draft, *, gap: int = 2) -> None:
        self.draft = draft
        self._gap = gap
        self._style = PLAIN
        self._pieces: list[str] = []
        self._block_length = 0
        self._pending = 0  # characters of ended blocks that wait for their row or paragraph
        self._space = False
        self._asides: list[tuple[Style, list[str]]] = []
        self._later: list[tuple[Style, str]] = []
        self._tables: list[_Table] = []
        self._rows: list[list[str]] = []
        self._copies = _MAX_COPIES
        self._last: Style | None = None
        self._break = ""

    def write(self, text: str) -> bool:
        """Write text unchanged."""
        if self._space and self._pieces:
            if self._pieces[-1].startswith(_NOTE):
                # Documents have blanks and tabs of their own after the mark of a note.
                text = text.lstrip()
                if not text:
                    return not self.draft.full
            text = f" {text}"
        self._space = False
        room = self.draft.room - self._block_length - self._pending
        self._pieces.append(text[: max(0, room + 1)])
        self._block_length += len(text)
        if room < len(text):
            self.close()
        return not self.draft.full

    def flow(self, text: str) -> bool:
        """Write text in which any white space counts as one space."""
        words = text.split()
        if text[:1].isspace():
            self._space = True
        has_room = self.write(" ".join(words)) if words else not self.draft.full
        self._space = self._space or (bool(words) and text[-1:].isspace())
        return has_room

    def reference(self, label: str) -> None:
        """Write the mark of a note into the text: [1], in Markdown [^1]."""
        self._space = False
        self.write(f"{_REFERENCE}{label}{_MARK_END}")

    def note(self, label: str) -> None:
        """Write the mark of a note before the note itself: [1], in Markdown [^1]: ."""
        self.write(f"{_NOTE}{label}{_MARK_END}")
        self._space = True

    def line(self) -> None:
        self._space = False
        self.write("\n")

    def begin(self, style: Style = PLAIN) -> None:
        """End the current block and begin another one."""
        self._end_block()
        self._style = style

    def style(self, style: Style) -> None:
        """Change the style of the current block."""
        self._style = style

    def page(self) -> None:
        """Begin a page or slide, after a form feed."""
        self._end_block()
        self._flush_rows()
        if self.draft.text.length:
            self._break = "\n\f"

    def part(self) -> None:
        """Begin another part, such as the body after a header, after a blank line."""
        self._end_block()
        self._flush_rows()
        self._break = self._break or "\n\n"

    def section(self, title: str) -> None:
        """Begin a sheet under its name."""
        self.part()
        self.begin(heading(2))
        self.flow(title)
        self.begin()

    def aside(self) -> None:
        """Begin a note or a frame within a paragraph; it is written after the paragraph."""
        self._asides.append((self._style, self._pieces))
        self._style, self._pieces = PLAIN, []

    def end_aside(self) -> None:
        """Continue the paragraph around the note or frame."""
        self._end_block()
        if self._asides:
            self._style, self._pieces = self._asides.pop()

    def close(self) -> None:
        """Write everything that is still buffered."""
        while self._asides:
            self.end_aside()
        self._end_block()
        while self._tables:
            self.end_row()
            self._tables.pop()
        self._flush_rows()

    def finish(self) -> Extracted:
        with self.draft.guard(CONTENT):
            self.close()
        return self.draft.finish()

    def table(self, *, values: bool = False) -> None:
        """Begin a table. A table within a cell shows that the outer one is a page layout.

        `values` marks a sheet, whose rows are rows even if they have one cell.
        """
        self._end_block()
        if self._tables and self._tables[-1].in_row:
            outer = self._tables[-1]
            cells, outer.cells, outer.layout = outer.cells, [], True
            self._emit_blocks(cells)
        else:
            self._flush_rows()
        self._tables.append(_Table(values=values))

    def end_table(self) -> None:
        self.end_row()
        if self._tables:
            self._tables.pop()
        self._flush_rows()

    def row(self) -> None:
        if not self._tables:
            self.table()
        self.end_row()
        self._tables[-1].in_row = True

    def cell(self, *, blank_before: int = 0) -> None:
        if not self._tables or not self._tables[-1].in_row:
            self.row()
        self._end_block()
        table = self._tables[-1]
        blank_before, table.spans = blank_before + table.spans, 0
        room = _MAX_CELLS - len(table.cells)
        table.cells.extend([] for _ in range(min(blank_before + 1, room)))

    def span(self, blank: int) -> None:
        """Widen the current cell by so many empty ones."""
        if self._tables and self._tables[-1].in_row and blank > 0:
            self._tables[-1].spans += min(blank, _MAX_CELLS)

    def copy_cell(self, copies: int) -> bool:
        """Repeat the current cell; return False if it is empty."""
        self._end_block()
        table = self._tables[-1] if self._tables else None
        if table is None or not table.cells or not table.cells[-1]:
            return False
        cell = table.cells[-1]
        size = 1 + sum(len(text) for _, text in cell)
        # One copy more than fits shows that the text is cut.
        fitting = max(0, self.draft.room - self._pending) // size + 1
        copies = min(copies, fitting, _MAX_CELLS - len(table.cells))
        table.cells.extend([cell] * copies)
        self._pending += copies * size
        return True

    def end_row(self, *, repeat: int = 1) -> None:
        """End the current row, and write it as many times as the document repeats it."""
        self._end_block()
        if not self._tables or not self._tables[-1].in_row:
            return
        table = self._tables[-1]
        cells, table.cells, table.in_row, table.spans = table.cells, [], False, 0
        self._pending = 0
        if not table.values and _is_layout(cells):
            self._emit_blocks(cells)
        else:
            self._emit_rows(
                [" ".join(_labelled(*block) for block in cell) for cell in cells], repeat
            )
        table.layout = False

    def values(self, cells: list[str]) -> bool:
        """Write a whole row of a sheet."""
        room = self.draft.room
        for index, cell in enumerate(cells):
            room -= len(cell) + 1
            if room < 0:
                cells = [*cells[:index], cell[: max(0, room + len(cell) + 3)]]
                break
        self._emit_row([cell.strip() for cell in cells])
        return not self.draft.full

    def _end_block(self) -> None:
        text, self._pieces, self._block_length, self._space = "".join(self._pieces), [], 0, False
        style, self._style = self._style, PLAIN
        text = text.strip("\n") if style.exact else text.strip()
        if text.strip():
            self._place(style, text)
        if not self._asides:
            later, self._later = self._later, []
            for block in later:
                self._place(*block)

    def _place(self, style: Style, text: str) -> None:
        """Put a block after its paragraph, into its cell, or into the draft."""
        table = self._tables[-1] if self._tables else None
        if self._asides:
            self._later.append((style, text))
            self._pending += len(text) + len(style.label)
        elif table and table.in_row and not table.layout:
            if not table.cells:
                table.cells.append([])
            table.cells[-1].append((style, text))
            self._pending += len(text) + len(style.label)
        else:
            self._pending = 0
            self._emit(style, text)

    def _emit_blocks(self, cells: list[list[tuple[Style, str]]]) -> None:
        for cell in cells:
            for style, text in cell:
                self._emit(style, text)

    def _emit(self, style: Style, text: str) -> None:
        self._flush_rows()
        breaks = 1 if style.close and self._last is not None and self._last.close else 2
        self._add_text(_labelled(style, text), min(breaks, self._gap))
        self._add_markdown(
            partial(block_markdown, style, text), partial(_labelled, style, text), breaks
        )
        self._last = style

    def _emit_rows(self, cells: list[str], repeat: int) -> None:
        self._emit_row(cells)
        if repeat < 2 or not any(cells):
            return
        copies = min(repeat - 1, self._copies)
        self._copies -= copies
        for _ in range(copies):
            if self.draft.full:
                return
            self._emit_row(cells)
        if copies < repeat - 1:
            self.draft.warn(f"repeated rows were cut after {_MAX_COPIES}")

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

    def _add_text(self, text: str, breaks: int) -> None:
        gap = self._break or "\n" * breaks
        self._break = ""
        text = _NOTE_MARKS.sub(r"[\2]", text) if _MARK_END in text else text
        self.draft.add((gap if self.draft.text.length else "") + text)

    def _add_markdown(self, make: Callable[[], str], plain: Callable[[], str], breaks: int) -> None:
        """Add what is made; if that fails, the plain text."""
        try:
            markdown = make()
        except Exception as error:
            self.draft.guard.take(error, LAYOUT)
            markdown = plain()
        has_text = self.draft.markdown.length > 0
        markdown = _NOTE_MARKS.sub(_note_markdown, markdown) if _MARK_END in markdown else markdown
        self.draft.markdown.add(("\n" * breaks if has_text else "") + markdown)

    def _flush_rows(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._add_markdown(partial(table_markdown, rows), partial(rows_text, rows), 2)
            self._last = None


_ROW = Style(mark="|")


def _is_layout(cells: list[list[tuple[Style, str]]]) -> bool:
    """Return whether the cells of a row lay out a page instead of holding values."""
    if len(cells) == 1:
        return True
    return any(
        len(cell) > 3 and sum(len(text) for _, text in cell) > _LAYOUT_CHARACTERS for cell in cells
    )


def block_markdown(style: Style, text: str) -> str:
    """Return a block with its mark; text that would be Markdown by chance is escaped."""
    if style.exact:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        return f"{fence}\n{text}\n{fence}"
    escaped = _LINE_START.sub(_escape_line_start, _escape(text))
    if style.mark.startswith("#"):
        return style.mark + _escape(_labelled(style, "")) + _LINE_BREAKS.sub(" ", escaped)
    mark = style.mark
    if _LIST_MARK.fullmatch(style.label) and style.close:
        mark = mark[: len(mark) - len(mark.lstrip())] + style.label + " "
    elif style.label:
        escaped = f"{_escape(style.label)} {escaped}"
    return mark + escaped.replace("\n", "\n" + " " * len(mark))


def _labelled(style: Style, text: str) -> str:
    return f"{style.label} {text}" if style.label else text


def _note_markdown(match: re.Match[str]) -> str:
    return f"[^{match[2]}]" + (":" if match[1] == _NOTE else "")


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda match: "\\" + match[0], text)


def _escape_line_start(match: re.Match[str]) -> str:
    # After a number, the full stop makes a list.
    mark = match[2]
    return match[1] + (f"{mark}\\" if mark.isdigit() else f"\\{mark}")


def rows_text(rows: list[list[str]]) -> str:
    """Return rows as plain text, with a tab between two cells."""
    return "\n".join("\t".join(row) for row in rows)


def table_markdown(rows: list[list[str]]) -> str:
    """Return rows as a table whose first row is its header."""
    width = max(map(len, rows))
    lines = [_table_row(row, width) for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _table_row(cells: list[str], width: int) -> str:
    escaped = [c if c.isalnum() else _escape(c).replace("|", "\\|") for c in cells]
    line = "| " + " | ".join(escaped + [""] * (width - len(cells))) + " |"
    return _LINE_BREAKS.sub(" ", line) if "\n" in line else line
