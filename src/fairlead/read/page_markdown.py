"""Writes the pages of a document as Markdown: headings, paragraphs and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fairlead.read.draft import Draft
from fairlead.read.error_guard import HEADINGS, LAYOUT, PartName
from fairlead.read.page_headings import Headings, Paragraph
from fairlead.read.page_layout import Block, Line, PageContent, Table
from fairlead.read.text_writer import PLAIN, block_markdown, heading, rows_text, table_markdown

_PARAGRAPH_GAP = 0.5  # of the height of a line, beyond the distance of lines
_SAME_SIZE = 1.08


class PageMarkdown:
    """Collects the blocks of all pages: headings are recognised in the whole document.

    What fails at a block leaves its plain text. `mend` is applied to each text.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._guard = draft.guard
        self._room = draft.limits.characters
        self._blocks: list[Paragraph | Table] = []
        self._pages: list[int] = []  # of the blocks
        self.mend: Callable[[str], str] = str

    def add_page(self, number: int, page: PageContent) -> None:
        """Add the blocks of a page, as far as there is room."""
        blocks: list[Paragraph | Table] = [Paragraph(page.text, 0.0, bold=False)]
        with self._guard(LAYOUT, PartName("page", number)):
            blocks = list(_paragraphs(page.blocks))
        for block in blocks:
            if self._room <= 0:
                return
            self._blocks.append(block)
            self._pages.append(number)
            self._room -= len(_plain(block))

    def write(self) -> None:
        """Write everything, unless there are no headings and no tables."""
        with self._guard(LAYOUT) as part:
            self._write()
        if part.failed:
            self._draft.markdown.clear()

    def _write(self) -> None:
        levels = self._levels()
        if not any(levels) and not any(isinstance(block, Table) for block in self._blocks):
            return
        markdown = self._draft.markdown
        for block, level, page in zip(self._blocks, levels, self._pages, strict=True):
            piece = _plain(block)
            with self._guard(LAYOUT, PartName("page", page)):
                piece = self._markdown(block, level)
            if piece and not markdown.add(f"\n\n{piece}" if markdown.length else piece):
                return

    def _markdown(self, block: Paragraph | Table, level: int) -> str:
        if isinstance(block, Table):
            return table_markdown([[self.mend(cell) for cell in row] for row in block.rows])
        return block_markdown(heading(level) if level else PLAIN, self.mend(block.text))

    def _levels(self) -> list[int]:
        """Return the level of each block that is a heading, and 0 for others."""
        levels = [0] * len(self._blocks)
        with self._guard(HEADINGS):
            headings = Headings([block for block in self._blocks if isinstance(block, Paragraph)])
            for index, page in enumerate(self._pages):
                with self._guard(HEADINGS, PartName("page", page)):
                    levels[index] = self._level(headings, index)
        return levels

    def _level(self, headings: Headings, index: int) -> int:
        block = self._blocks[index]
        if isinstance(block, Table):
            return 0
        following = self._blocks[index + 1] if index + 1 < len(self._blocks) else None
        if isinstance(following, Table):
            following = Paragraph("", 0.0, bold=False)
        return headings.level(block, following)


def _plain(block: Paragraph | Table) -> str:
    return block.text if isinstance(block, Paragraph) else rows_text(block.rows)


def _paragraphs(blocks: list[Block]) -> Iterator[Paragraph | Table]:
    """Yield tables, and paragraphs made of lines that belong together."""
    lines: list[Line] = []
    for block in blocks:
        if isinstance(block, Table) or (lines and not _continues(lines[-1], block)):
            if lines:
                yield _paragraph(lines)
            lines = []
        if isinstance(block, Table):
            yield Table(block.rows)  # without the places of its lines
        elif block.text.strip():
            lines.append(block)
    if lines:
        yield _paragraph(lines)


def _paragraph(lines: list[Line]) -> Paragraph:
    text = "\n".join(line.text.strip() for line in lines)
    return Paragraph(text, _height(lines[0]), lines[0].bold)


def _continues(line: Line, following: Line) -> bool:
    if not following.text.strip():
        return False
    if not line.words or not following.words:
        return True
    if line.bold != following.bold:
        return False
    height, following_height = _height(line), _height(following)
    smaller, larger = sorted((height, following_height))
    gap = following.words[0].top - line.words[0].bottom
    # Upwards: the paragraph continues in the next column.
    return larger < _SAME_SIZE * smaller and gap < _PARAGRAPH_GAP * smaller


def _height(line: Line) -> float:
    return line.words[0].bottom - line.words[0].top if line.words else 0.0
