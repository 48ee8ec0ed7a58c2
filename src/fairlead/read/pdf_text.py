"""The text of a PDF page in lines, with the boxes of its words, from PDFium."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from fairlead.read.page_layout import Line, Word
from fairlead.read.pdf_boxes import Box, Characters, PageView, Span
from fairlead.read.pdf_hyphens import LINE_HYPHEN

_LINE_BREAK = re.compile(rf"\r?\n|\r|(?<={LINE_HYPHEN})")
_WORD = re.compile(r"\S+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOUCHING = 0.15  # of the height: letters with a smaller distance belong to one word
_KERNING = 0.5  # of the height: by so much, letters of one word overlap
_SMALLER = 0.9  # raised letters have less than this share of the usual height
_SAME_LINE = 0.3  # of the height: what overlaps more is not a line further down
_MIN_SAMPLE = 3  # letters of a word that shows how wide letters are
_MAX_SAMPLES = 20
_WIDER = 1.04  # than its letters, with spaces: a line that may have gaps
_GAP = 0.5  # of the height, in addition
_MIN_RISES = 4  # of a line above and right of the one before; three columns have two
_NEIGHBOURS = 1  # lines before and after one with gaps may belong to the same table
_MAX_WORDS = 50_000  # whose boxes are held at once, about 20 MB
_MAX_HEADING_WORDS = 16


@dataclass(slots=True)
class _Piece:
    """A line of the page's text, its start in that text, and its place on the page."""

    text: str
    start: int
    first: Span  # the first word; its end is before its start if the line is blank
    whole: Span
    box: Box = (0.0, 0.0, 0.0, 0.0)
    words: list[Word] = field(default_factory=list)
    bold: bool = False

    @property
    def height(self) -> float:
        return self.box[3] - self.box[1]


def page_lines(
    page: Any, view: PageView, *, all_words: bool, has_fields: bool = False
) -> list[Line]:
    """Return the lines on the page, in the order in which the document draws them.

    Unless `all_words` is set, a line without wide gaps counts as one word: most lines are prose,
    and their words would take as long as the rest of the page. `has_fields`: the page has values of
    form fields, which PDFium writes into one line wherever they stand.
    """
    with closing(page.get_textpage()) as text_page:
        text = _page_text(text_page)
        pieces = list(_pieces(text))
        if len(pieces) > _MAX_WORDS:
            return _unplaced(pieces)
        characters = Characters(text_page, len(text), view)
        if has_fields:
            pieces = [part for piece in pieces for part in _level_pieces(piece, characters)]
        written = [piece for piece in pieces if piece.whole[0] <= piece.whole[1]]
        for piece, box in zip(written, characters.boxes([p.whole for p in written]), strict=True):
            piece.box = characters.font_box(piece.whole[0], box)
            piece.words = [Word(piece.text.strip(), *piece.box)]
            piece.bold = _is_short(piece) and characters.are_bold(piece.whole)
        if not (all_words or _has_wrapped_cells(written)):
            written = _with_gaps(written, characters)
        _split_words(written, characters)
    return _join_raised([_line(p) for p in pieces if not p.words or view.shows(p.box)])


def unplaced_lines(page: Any) -> list[Line]:
    """Return the lines on the page without their places."""
    with closing(page.get_textpage()) as text_page:
        return _unplaced(_pieces(_page_text(text_page)))


def _page_text(text_page: Any) -> str:
    return _utf16_units(text_page.get_text_range(errors="surrogatepass"))


def _unplaced(pieces: Iterable[_Piece]) -> list[Line]:
    return [Line(_whole_characters(piece.text), []) for piece in pieces]


def plain_text(lines: list[Line]) -> str:
    """Return the text of the page; hyphens at line ends stay marked until the document ends."""
    return "\n".join(line.text for line in lines).replace(f"{LINE_HYPHEN}\n", LINE_HYPHEN)


def _utf16_units(text: str) -> str:
    """Return one character for each UTF-16 unit, as PDFium counts."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(map(chr, units))


def _whole_characters(units: str) -> str:
    if units.isascii() or not _SURROGATE.search(units):
        return units
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def _pieces(text: str) -> Iterator[_Piece]:
    start = 0
    for line_break in _LINE_BREAK.finditer(text):
        yield _piece(text[start : line_break.start()], start)
        start = line_break.end()
    yield _piece(text[start:], start)


def _piece(text: str, start: int) -> _Piece:
    first = _WORD.search(text)
    if first is None:
        return _Piece(text, start, (0, -1), (0, -1))
    begin, end = start + first.start(), start + len(text.rstrip()) - 1
    return _Piece(text, start, (begin, start + first.end() - 1), (begin, end))


def _level_pieces(piece: _Piece, characters: Characters) -> list[_Piece]:
    """Split a line before words that do not stand beside the word before them."""
    spans = _word_spans(piece)
    boxes = characters.boxes(spans)
    if any(_runs_upwards(span, box) for span, box in zip(spans, boxes, strict=True)):
        return [piece]
    cuts = [
        span[0] - piece.start
        for span, box, before in zip(spans[1:], boxes[1:], boxes, strict=False)
        if box[1] >= before[3] or box[3] <= before[1]
    ]
    ends = [*cuts, len(piece.text)]
    return [
        _piece(piece.text[start:end].rstrip(), piece.start + start)
        for start, end in zip([0, *cuts], ends, strict=True)
    ]


def _runs_upwards(span: Span, box: Box) -> bool:
    return _length(span) >= _MIN_SAMPLE and box[3] - box[1] > box[2] - box[0]


def _is_short(piece: _Piece) -> bool:
    return piece.text.count(" ") < _MAX_HEADING_WORDS


def _has_wrapped_cells(pieces: list[_Piece]) -> bool:
    """Return whether text goes up to the right more often than from column to column.

    Then lines of cells with a small gap between them may be one line, no wider than others.
    """
    rises = sum(map(_rises, pieces, pieces[1:]))
    return rises >= _MIN_RISES


def _rises(piece: _Piece, following: _Piece) -> bool:
    is_higher = following.box[1] < piece.box[3] - piece.height / 2
    return is_higher and following.box[0] > piece.box[2]


def _with_gaps(pieces: list[_Piece], characters: Characters) -> list[_Piece]:
    """Return the lines that are wider than their letters, and their neighbours."""
    letter = _letter_width(pieces, characters)
    chosen_indexes: set[int] = set()
    for index, piece in enumerate(pieces):
        width = piece.box[2] - piece.box[0]
        if width > (_WIDER * letter * _length(piece.whole) + _GAP) * piece.height:
            chosen_indexes.update(range(index - _NEIGHBOURS, index + _NEIGHBOURS + 1))
    return [piece for index, piece in enumerate(pieces) if index in chosen_indexes]


def _letter_width(pieces: list[_Piece], characters: Characters) -> float:
    """Return the mean width of a letter in first words, as a share of the line's height."""
    samples = [p for p in pieces if _length(p.first) >= _MIN_SAMPLE and p.height > 0]
    samples = samples[:: 1 + len(samples) // _MAX_SAMPLES]
    boxes = characters.boxes([piece.first for piece in samples])
    width = sum((box[2] - box[0]) / p.height for p, box in zip(samples, boxes, strict=True))
    return width / max(1, sum(_length(piece.first) for piece in samples))


def _length(span: Span) -> int:
    return span[1] - span[0] + 1


def _split_words(pieces: list[_Piece], characters: Characters) -> None:
    words = [_WORD.findall(piece.text) for piece in pieces]
    if sum(map(len, words)) > _MAX_WORDS:
        return
    boxes = iter(characters.boxes([span for piece in pieces for span in _word_spans(piece)]))
    for piece, texts in zip(pieces, words, strict=True):
        _, top, _, bottom = piece.box
        # The texts come first, so that no box is taken beyond them.
        placed = [
            Word(_whole_characters(text), left, top, right, bottom)
            for text, (left, _, right, _) in zip(texts, boxes, strict=False)
        ]
        piece.words = [word for word in placed if word.text]


def _word_spans(piece: _Piece) -> list[Span]:
    start = piece.start
    return [(start + word.start(), start + word.end() - 1) for word in _WORD.finditer(piece.text)]


def _line(piece: _Piece) -> Line:
    return Line(_whole_characters(piece.text), piece.words, piece.bold)


def _join_raised(lines: list[Line]) -> list[Line]:
    """Join raised and lowered letters within a word, which are lines of their own in PDFium."""
    joined: list[Line] = []
    for line in lines:
        if joined and _continues(joined[-1], line):
            joined[-1] = _joined(joined[-1], line)
        else:
            joined.append(line)
    return joined


def _continues(line: Line, following: Line) -> bool:
    if not line.words or not following.words:
        return False
    last, first = line.words[-1], following.words[0]
    # Two numbers side by side are two numbers: cells of a table, or a power of ten.
    if last.text[-1].isdigit() and first.text[0].isdigit():
        return False
    height, following_height = last.bottom - last.top, first.bottom - first.top
    if len(line.words) == 1 and height < _SMALLER * following_height:
        return False  # the number of a footnote, before its text
    lower = min(height, following_height)
    overlap = min(last.bottom, first.bottom) - max(last.top, first.top)
    gap = first.left - last.right
    return overlap > _SAME_LINE * lower and -_KERNING * lower < gap < _TOUCHING * lower


def _joined(line: Line, following: Line) -> Line:
    last, first = line.words[-1], following.words[0]
    word = Word(
        last.text + first.text,
        last.left,
        min(last.top, first.top),
        first.right,
        max(last.bottom, first.bottom),
    )
    text = line.text.rstrip() + following.text.lstrip()
    return Line(text, [*line.words[:-1], word, *following.words[1:]], line.bold)
