"""The text in the XML of an OpenDocument."""

from __future__ import annotations

from fairlead.work.extract.pen import PLAIN, Pen, Style, heading, item
from fairlead.work.extract.sheetvalues import spread
from fairlead.work.extract.xml import Attributes, Walk, attribute

_MAX_SPACES = 200
_ASIDE = ("note", "text-box")  # may stand in the middle of a sentence
_CELLS = ("table-cell", "covered-table-cell")


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
        self, pen: Pen, max_pages: int, *, within: str = "body", sheets: bool = False
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
        self.pages = 0
        self.cut = False

    def opened(self, name: str, attributes: Attributes) -> None:
        """Begin what the element stands for."""
        if name == self._within:
            self._inside += 1
        elif not self._inside:
            return
        elif name in ("p", "h"):
            self._begin(name, attributes)
        elif name in ("s", "tab", "line-break"):
            self._space(name, attributes)
        elif name == "list":
            self._lists += 1
        elif name in _ASIDE:
            self._begin_aside()
        elif name == "page":
            self._page(attributes)
        else:
            self._open_table(name, attributes)

    def closed(self, name: str) -> None:
        """End what the element stands for."""
        if name == self._within:
            self._inside -= 1
        elif not self._inside:
            return
        elif name in ("p", "h"):
            self._end()
        elif name == "list":
            self._lists = max(0, self._lists - 1)
        elif name in _ASIDE:
            self._end_aside()
        elif name == "table-row":
            self._pen.end_row()
        elif name == "table":
            self._pen.end_table()

    def said(self, text: str) -> None:
        """Write text that belongs to a paragraph."""
        if self._blocks:
            self._pen.flow(text)

    def _begin(self, name: str, attributes: Attributes) -> None:
        if name == "h":
            level = attribute(attributes, "outline-level", "1")
            style = heading(int(level) if level.isdecimal() else 1)
        else:
            style = item(self._lists - 1) if self._lists else PLAIN
        self._blocks.append(style)
        self._pen.begin(style)

    def _begin_aside(self) -> None:
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

    def _space(self, name: str, attributes: Attributes) -> None:
        if name == "line-break":
            self._pen.line()
        elif name == "tab":
            self._pen.write("\t")
        else:
            count = attribute(attributes, "c", "1")
            self._pen.write(" " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES))

    def _page(self, attributes: Attributes) -> None:
        self.pages += 1
        if self.pages > self._max_pages:
            self.cut = self.done = True
            return
        self._pen.page()
        self._pen.begin(heading(2))
        self._pen.flow(attribute(attributes, "name"))
        self._pen.begin()

    def _open_table(self, name: str, attributes: Attributes) -> None:
        if name == "table":
            self._table(attribute(attributes, "name"))
        elif name == "table-row":
            self._blank = 0
            self._pen.row()
        elif name in _CELLS:
            self._cell(attributes)

    def _table(self, name: str) -> None:
        if self._sheets:
            self._pen.part()
            self._pen.begin(heading(2))
            self._pen.flow(name)
        self._pen.table(values=self._sheets)

    def _cell(self, attributes: Attributes) -> None:
        repeated = attribute(attributes, "number-columns-repeated", "1")
        count = int(repeated) if repeated.isdecimal() else 1
        self._pen.cell(blank_before=spread(self._blank))
        self._blank = count - 1
