"""Lines of text from the blocks, rows and cells of a tree."""

from __future__ import annotations

from collections.abc import Callable


class Lines:
    """Writes text with no more breaks than the structure asks for.

    Breaks, tabs and spaces are only noted; they are written before the next visible text, so
    that empty blocks leave no trace and a line never ends in a space.
    """

    def __init__(self, add: Callable[[str], bool]) -> None:
        self._add = add
        self._begun = False
        self._breaks = 0
        self._tabs = 0
        self._space = False
        self._row_begins = False

    def flowing(self, text: str) -> bool:
        """Write text in which any white space means one space; False: stop, enough."""
        words = text.split()
        if text[:1].isspace():
            self._space = True
        if not words:
            return True
        going_on = self.exact(" ".join(words))
        self._space = text[-1:].isspace()
        return going_on

    def exact(self, text: str) -> bool:
        """Write text as it stands; False: stop, enough."""
        return not text or self._add(self._gap() + text)

    def block(self, breaks: int = 1) -> None:
        """A block begins or ends here: the next text is on a new line."""
        # A block that fills a cell must not tear its row apart.
        if not self._tabs and not self._row_begins:
            self._breaks = max(self._breaks, breaks)

    def row(self) -> None:
        """A row of a table begins."""
        self._breaks = max(self._breaks, 1)
        self._tabs = 0
        self._row_begins = True

    def end_row(self) -> None:
        """A row of a table ends."""
        # Paragraphs in the last cell must not part this row from the next one.
        self._breaks = max(self._breaks, 1) if self._row_begins else 1
        self._tabs = 0
        self._row_begins = False

    def cell(self) -> None:
        """The second or a later cell of a row begins."""
        if not self._row_begins:
            self._breaks = 0
        self._tabs += 1

    def _gap(self) -> str:
        gap = ("\n" * self._breaks if self._begun else "") + "\t" * self._tabs
        if not gap and self._space and self._begun:
            gap = " "
        self._begun = True
        self._breaks = self._tabs = 0
        self._space = self._row_begins = False
        return gap
