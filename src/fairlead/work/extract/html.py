"""HTML, by lxml."""

from __future__ import annotations

import re

from lxml import etree

from fairlead.work.extract.base import Draft, Extracted, Rank, Reader, Source, clean, library
from fairlead.work.extract.decode import decode, opening
from fairlead.work.extract.lines import Lines
from fairlead.work.extract.trees import is_whole, memory_shortage

# What may stand before the first tag.
_PREAMBLE = re.compile(r"\s*(?:(?:<\?.*?\?>|<!--.*?-->)\s*)*", re.DOTALL)
_PAGE = re.compile(r"<!doctype\s+html\b|<(?:html|head|body)(?=[\s>])", re.IGNORECASE)
_FRAGMENT = re.compile(
    r"<(?:title|meta|link|div|span|p|table|ul|ol|h[1-6]|a|br|font|center|section|article|main)"
    r"(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_DECLARED = re.compile(
    rb"<(?:meta\b[^>]*?charset|\?xml\b[^>]*?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE
)

_SKIPPED = frozenset(["script", "style", "template", "iframe", "object", "noframes"])
# fmt: off
_PARAGRAPHS = frozenset([
    "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "blockquote", "pre",
    "article", "section", "title",
])
_BLOCKS = frozenset([
    "html", "head", "body", "div", "li", "dt", "dd", "hr", "br", "caption", "header", "footer",
    "main", "nav", "aside", "address", "form", "fieldset", "legend", "figure", "figcaption",
    "option", "details", "summary", "center", "thead", "tbody", "tfoot",
])
# fmt: on
_CELLS = frozenset(["td", "th"])
_EXACT = frozenset(["pre", "textarea"])


def recognises(source: Source) -> bool:
    """Whether the document begins as a page does, or is a fragment from end to end.

    A text that only speaks of tags does neither.
    """
    text = opening(source.head)
    if text is None:
        return False
    preamble = _PREAMBLE.match(text)
    start = preamble.end() if preamble else 0
    if _PAGE.match(text, start):
        return True
    whole = source.size <= len(source.head)
    return bool(_FRAGMENT.match(text, start)) and whole and text.rstrip().endswith(">")


def read(source: Source, max_characters: int) -> Extracted:
    """The visible text; the title is also a fact."""
    data = source.read(source.size)
    declared = _DECLARED.search(data, 0, 4096)
    decoded = decode(data, declared=declared[1].decode("ascii", "replace") if declared else None)
    draft = Draft("html", library("lxml"), max_characters)
    if decoded.guessed:
        draft.warn(f"the encoding was guessed: {decoded.encoding}")
    add_markup(decoded.text, draft, titled=True)
    return draft.finish()


def add_markup(markup: str, draft: Draft, *, titled: bool) -> None:
    """Add the visible text of markup to a draft, and with `titled` its title as a fact."""
    parser = _parser()
    with memory_shortage():
        # A page without any element has no tree, whatever the stubs say.
        root: etree._Element | None = etree.fromstring(clean(markup).encode(), parser)
    if not is_whole(parser):
        draft.warn("some text is missing: the page is nested too deeply")
    if root is None:
        return
    title = root.find(".//title")
    if titled and title is not None:
        draft.fact("title", title.text or "")
    _Walk(Lines(draft.add)).run(root)


def _parser() -> etree.HTMLParser:
    return etree.HTMLParser(
        encoding="utf-8",
        remove_comments=True,
        remove_pis=True,
        no_network=True,
        huge_tree=True,  # a long page is no reason to lose text; memory and time are bounded
    )


class _Walk:
    """One walk over a tree, without recursion: pages can be nested deeply."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._exact = 0

    def run(self, root: etree._Element) -> None:
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = str(element.tag)
            if event == "end":
                going_on = self._end(element, tag)
            elif tag in _SKIPPED:
                walk.skip_subtree()
                going_on = True
            else:
                going_on = self._start(element, tag)
            if not going_on:
                return

    def _start(self, element: etree._Element, tag: str) -> bool:
        if tag == "tr":
            self._lines.row()
        elif tag in _CELLS and element.getprevious() is not None:
            self._lines.cell()
        else:
            self._block(tag)
        self._exact += tag in _EXACT
        return self._text(element.text)

    def _end(self, element: etree._Element, tag: str) -> bool:
        self._exact -= tag in _EXACT
        if tag == "tr":
            self._lines.end_row()
        else:
            self._block(tag)
        return self._text(element.tail)

    def _block(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._lines.block(2)
        elif tag in _BLOCKS:
            self._lines.block()

    def _text(self, text: str | None) -> bool:
        if not text:
            return True
        return self._lines.exact(text) if self._exact else self._lines.flowing(text)


READER = Reader("html", Rank.STRUCTURE, recognises, read)
