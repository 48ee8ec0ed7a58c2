"""The text in the XML of an OpenDocument."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from fairlead.read.sheetvalues import spread
from fairlead.read.text_writer import PLAIN, Style, TextWriter, heading, item
from fairlead.read.xml import Attributes, Walk, attribute

_MAX_SPACES = 200


class OdfText(Walk):
    """Writes what stands within one element, the body unless told otherwise."""

    # fmt: off
    skipped = frozenset([
        "tracked-changes", "annotation", "annotation-end", "note-citation", "ruby-text", "script",
        "forms", "sequence-decls", "binary-data", "settings", "desc", "title", "style-name",
        "page-number", "date-style", "time-style",
    ])
    # fmt: on

    def __init__(
        self, pen: TextWriter, max_pages: int, *, within: str = "body", sheets: bool = False
    ) -> None:
        super().__init__()
        self._pen = pen
        self._within = within
        self._sheets = sheets
        self._max_pages = max_pages
        self._inside = 0
        self._blocks: list[Style] = []
        self._lists = 0
        self._outer: list[tuple[list[Style], int]] = []
        self._blank = 0
        self._titled = False
        self.pages = 0
        self.cut = False

    def opened(self, name: str, attributes: Attributes) -> None:
        """Begin what the element stands for."""
        if name == self._within:
            self._inside += 1
        elif self._inside and name in self._openings:
            self._openings[name](self, attributes)

    def closed(self, name: str) -> None:
        """End what the element stands for."""
        if name == self._within:
            self._inside -= 1
        elif self._inside and name in self._endings:
            self._endings[name](self)

    def said(self, text: str) -> None:
        """Write text that belongs to a paragraph."""
        if self._blocks:
            self._pen.flow(text)

    def _heading(self, attributes: Attributes) -> None:
        level = attribute(attributes, "outline-level", "1")
        self._begin(heading(int(level) if level.isdecimal() else 1))

    def _paragraph(self, _: Attributes) -> None:
        if self._titled:
            self._begin(heading(2))
        else:
            self._begin(item(self._lists - 1) if self._lists else PLAIN)

    def _begin(self, style: Style) -> None:
        self._blocks.append(style)
        self._pen.begin(style)

    def _begin_aside(self, _: Attributes) -> None:
        self._outer.append((self._blocks, self._lists))
        if self._blocks:
            self._pen.aside()
        self._blocks, self._lists = [], 0

    def _end_aside(self) -> None:
        self._blocks, self._lists = self._outer.pop()
        if self._blocks:
            self._pen.end_aside()

    def _end(self) -> None:
        if self._blocks:
            self._blocks.pop()
        # A paragraph around a frame or a note goes on after it.
        self._pen.begin(self._blocks[-1] if self._blocks else PLAIN)

    def _spaces(self, attributes: Attributes) -> None:
        count = attribute(attributes, "c", "1")
        self._pen.write(" " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES))

    def _tab(self, _: Attributes) -> None:
        self._pen.write("\t")

    def _line(self, _: Attributes) -> None:
        self._pen.line()

    def _list(self, _: Attributes) -> None:
        self._lists += 1

    def _end_list(self) -> None:
        self._lists = max(0, self._lists - 1)

    def _frame(self, attributes: Attributes) -> None:
        self._titled = attribute(attributes, "class") == "title"

    def _end_frame(self) -> None:
        self._titled = False

    def _page(self, _: Attributes) -> None:
        self.pages += 1
        if self.pages > self._max_pages:
            self.cut = self.done = True
            return
        self._pen.page()

    def _table(self, attributes: Attributes) -> None:
        if self._sheets:
            self.pages += 1
            self._pen.part()
            self._pen.begin(heading(2))
            self._pen.flow(attribute(attributes, "name"))
        self._pen.table(values=self._sheets)

    def _end_table(self) -> None:
        self._pen.end_table()

    def _row(self, _: Attributes) -> None:
        self._blank = 0
        self._pen.row()

    def _end_row(self) -> None:
        self._pen.end_row()

    def _cell(self, attributes: Attributes) -> None:
        repeated = attribute(attributes, "number-columns-repeated", "1")
        count = int(repeated) if repeated.isdecimal() else 1
        self._pen.cell(blank_before=spread(self._blank))
        self._blank = count - 1

    _openings: ClassVar[dict[str, Callable[[OdfText, Attributes], None]]] = {
        "h": _heading,
        "p": _paragraph,
        "s": _spaces,
        "tab": _tab,
        "tab-stop": _tab,
        "line-break": _line,
        "list": _list,
        "ordered-list": _list,
        "unordered-list": _list,
        "note": _begin_aside,
        "footnote": _begin_aside,
        "text-box": _begin_aside,
        "frame": _frame,
        "page": _page,
        "table": _table,
        "table-row": _row,
        "table-cell": _cell,
        "covered-table-cell": _cell,
    }
    _endings: ClassVar[dict[str, Callable[[OdfText], None]]] = {
        "h": _end,
        "p": _end,
        "list": _end_list,
        "ordered-list": _end_list,
        "unordered-list": _end_list,
        "note": _end_aside,
        "footnote": _end_aside,
        "text-box": _end_aside,
        "frame": _end_frame,
        "table": _end_table,
        "table-row": _end_row,
    }
