"""Writes the pages of a document as Markdown: headings, paragraphs and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fairlead.read.draft import BoundedText
from fairlead.read.page_headings import Headings, Paragraph
from fairlead.read.page_layout import Block, Line, Table
from fairlead.read.text_writer import PLAIN, block_markdown, heading, table_markdown

_PARAGRAPH_GAP = 0.5  # of the height of a line, beyond the distance of lines
_SAME_SIZE = 1.08


class PageMarkdown:
    """Collects the blocks of all pages: headings are recognised in the whole document."""

    def __init__(self, limit: int) -> None:
        self._room = limit
        self._blocks: list[Paragraph | Table] = []

    def add_page(self, blocks: list[Block]) -> None:
        """Add the blocks of a page, as far as there is room."""
        for block in _paragraphs(blocks):
            if self._room <= 0:
                return
            self._blocks.append(block)
            self._room -= _length(block)

    def write(self, markdown: BoundedText, mend: Callable[[str], str] = str) -> None:
        """Write everything, unless there are no headings and no tables.

        `mend` is applied to each text.
        """
        headings = Headings([block for block in self._blocks if isinstance(block, Paragraph)])
        levels = [self._level(headings, index) for index in range(len(self._blocks))]
        if not any(levels) and not any(isinstance(block, Table) for block in self._blocks):
            return
        for block, level in zip(self._blocks, levels, strict=True):
            if isinstance(block, Table):
                piece = table_markdown([[mend(cell) for cell in row] for row in block.rows])
            else:
                piece = block_markdown(heading(level) if level else PLAIN, mend(block.text))
            if not markdown.add(f"\n\n{piece}" if markdown.length else piece):
                return

    def _level(self, headings: Headings, index: int) -> int:
        block = self._blocks[index]
        if isinstance(block, Table):
            return 0
        following = self._blocks[index + 1] if index + 1 < len(self._blocks) else None
        if isinstance(following, Table):
            following = Paragraph("", 0.0, bold=False)
        return headings.level(block, following)


def _length(block: Paragraph | Table) -> int:
    if isinstance(block, Paragraph):
        return len(block.text)
    return sum(len(cell) + 3 for row in block.rows for cell in row)


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
