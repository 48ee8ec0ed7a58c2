"""HTML, by lxml."""

from __future__ import annotations

import re

from lxml import etree

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, clean, library
from fairlead.read.decode import decode, decode_head
from fairlead.read.draft import Draft
from fairlead.read.text_writer import CODE, PLAIN, Style, TextWriter, heading, item
from fairlead.read.xml import is_whole, memory_shortage

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
_BLOCKS = frozenset([
    "p", "dl", "blockquote", "article", "section", "title", "html", "head", "body", "div", "dt",
    "dd", "hr", "caption", "header", "footer", "main", "nav", "aside", "address", "form",
    "fieldset", "legend", "figure", "figcaption", "option", "details", "summary", "center",
])
# fmt: on
_HEADINGS = {f"h{level}": heading(level) for level in range(1, 7)}
_LISTS = frozenset(["ul", "ol", "menu", "dir"])
_CELLS = frozenset(["td", "th"])
_EXACT = frozenset(["pre", "textarea"])
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_MAX_SPAN = 64


def recognises(source: Source) -> bool:
    """Whether the document begins as a page does, or is a fragment from end to end.

    A text that only speaks of tags does neither.
    """
    text = decode_head(source.head)
    if text is None:
        return False
    preamble = _PREAMBLE.match(text)
    start = preamble.end() if preamble else 0
    if _PAGE.match(text, start):
        return True
    whole = source.size <= len(source.head)
    return bool(_FRAGMENT.match(text, start)) and whole and text.rstrip().endswith(">")


def read(source: Source, task: Task) -> Extracted:
    """The visible text; the title is also a fact."""
    data = source.read(source.size)
    decoded = decode(data, declared=declared_in(data))
    draft = Draft("html", library("lxml"), task.limits)
    if decoded.guessed:
        draft.warn(f"the encoding was guessed: {decoded.encoding}")
    writer = TextWriter(draft)
    write_markup(decoded.text, writer, titled=draft)
    writer.close()
    return draft.finish()


def declared_in(data: bytes) -> str | None:
    """The encoding that the page itself names."""
    declared = _DECLARED.search(data, 0, 4096)
    return declared[1].decode("ascii", "replace") if declared else None


def write_markup(markup: str, writer: TextWriter, *, titled: Draft | None) -> None:
    """Write the visible text of markup; its title also becomes a fact of the draft `titled`."""
    parser = _parser()
    with memory_shortage():
        # A page without any element has no tree, whatever the stubs say.
        root: etree._Element | None = etree.fromstring(clean(markup).encode(), parser)
    if not is_whole(parser):
        writer.draft.warn("some text is missing: the page is nested too deeply")
    if root is None:
        return
    if titled is not None:
        _add_facts(root, titled)
    _Walk(writer, titled=titled is not None).run(root)
    writer.begin()


def _add_facts(root: etree._Element, draft: Draft) -> None:
    title = root.find(".//title")
    draft.fact("title", title.text if title is not None else None)
    for meta in root.iterfind(".//meta[@name]"):
        if (meta.get("name") or "").lower() == "author":
            draft.fact("author", meta.get("content"))


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

    def __init__(self, writer: TextWriter, *, titled: bool) -> None:
        self._writer = writer
        self._exact = 0
        self._lists: list[str] = []
        self._skipped = _SKIPPED if titled else _SKIPPED | {"title"}

    def run(self, root: etree._Element) -> None:
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = str(element.tag)
            if event == "end":
                has_room = self._end(element, tag)
            elif tag in self._skipped or _HIDDEN.search(element.get("style") or ""):
                walk.skip_subtree()
                has_room = True
            else:
                has_room = self._start(element, tag)
            if not has_room:
                return

    def _start(self, element: etree._Element, tag: str) -> bool:
        if tag in ("table", "tr"):
            (self._writer.table if tag == "table" else self._writer.row)()
        elif tag in _CELLS:
            self._writer.cell()
            self._span(element.get("colspan") or "")
        elif tag in _LISTS:
            self._lists.append(tag)
            self._writer.begin()
        elif tag == "br":
            self._writer.line()
        elif tag == "li" or tag in _BLOCKS or tag in _HEADINGS or tag in _EXACT:
            self._writer.begin(self._style(tag))
        self._exact += tag in _EXACT
        return self._text(element.text)

    def _end(self, element: etree._Element, tag: str) -> bool:
        if tag in self._skipped or _HIDDEN.search(element.get("style") or ""):
            return self._text(element.tail)
        self._exact -= tag in _EXACT
        if tag in ("table", "tr"):
            (self._writer.end_table if tag == "table" else self._writer.end_row)()
        elif tag in _LISTS:
            self._lists[-1:] = []
            self._writer.begin()
        elif tag == "li" or tag in _BLOCKS or tag in _HEADINGS or tag in _EXACT:
            self._writer.begin()
        return self._text(element.tail)

    def _style(self, tag: str) -> Style:
        if tag in _HEADINGS:
            return _HEADINGS[tag]
        if tag in _EXACT:
            return CODE
        if self._lists and tag in ("li", "p", "div"):
            return item(len(self._lists) - 1, numbered=self._lists[-1] == "ol")
        return item() if tag == "li" else PLAIN

    def _span(self, value: str) -> None:
        if value.isdecimal():
            self._writer.span(min(int(value), _MAX_SPAN) - 1)

    def _text(self, text: str | None) -> bool:
        if not text:
            return True
        return self._writer.write(text) if self._exact else self._writer.flow(text)


READER = Reader("html", Rank.STRUCTURE, recognises, read)
