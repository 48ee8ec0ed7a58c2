"""HTML, parsed by lxml."""

from __future__ import annotations

import re

from lxml import etree

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, clean, library
from fairlead.read.decode import decode, decode_head
from fairlead.read.draft import Draft
from fairlead.read.error_guard import PROPERTIES
from fairlead.read.text_writer import CODE, PLAIN, Style, TextWriter, heading, item
from fairlead.read.xml import detect_memory_shortage

# Declarations and comments before the first tag.
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
_PREFORMATTED = frozenset(["pre", "textarea"])
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_MAX_SPAN = 64


def _recognises(source: Source) -> bool:
    """Recognise a page by its beginning, and a fragment by its beginning and its end."""
    text = decode_head(source.head)
    if text is None:
        return False
    preamble = _PREAMBLE.match(text)
    start = preamble.end() if preamble else 0
    if _PAGE.match(text, start):
        return True
    whole = source.size <= len(source.head)
    return bool(_FRAGMENT.match(text, start)) and whole and text.rstrip().endswith(">")


def _read(source: Source, task: Task) -> Extracted:
    data = source.read(source.size)
    decoded = decode(data, declared=declared_encoding(data))
    draft = Draft("html", library("lxml"), task.limits)
    if decoded.guessed:
        draft.warn(f"the encoding was guessed: {decoded.encoding}")
    writer = TextWriter(draft)
    write_markup(decoded.text, writer, titled=True)
    return writer.finish()


def declared_encoding(data: bytes) -> str | None:
    """Return the encoding that the page itself declares."""
    match = _DECLARED.search(data, 0, 4096)
    return match[1].decode("ascii", "replace") if match else None


def write_markup(markup: str, writer: TextWriter, *, titled: bool = False) -> None:
    """Write the visible text of markup; `titled` also writes and records the title."""
    parser = etree.HTMLParser(
        encoding="utf-8",
        remove_comments=True,
        remove_pis=True,
        no_network=True,
        huge_tree=True,  # a long page must not lose text; memory and time are bounded elsewhere
    )
    with detect_memory_shortage():
        # Without any element there is no tree, although the stubs say so.
        root: etree._Element | None = etree.fromstring(clean(markup).encode(), parser)
    # A fatal error stops the parser before the end of the page.
    if any(entry.level == etree.ErrorLevels.FATAL for entry in parser.error_log):
        writer.draft.warn("some text is missing: the page is nested too deeply")
    if root is None:
        return
    if titled:
        with writer.draft.guard(PROPERTIES):
            _add_facts(root, writer.draft)
    _HtmlWriter(writer, titled=titled).write(root)
    writer.begin()


def _add_facts(root: etree._Element, draft: Draft) -> None:
    title = root.find(".//title")
    draft.fact("title", title.text if title is not None else None)
    for meta in root.iterfind(".//meta[@name]"):
        if (meta.get("name") or "").lower() == "author":
            draft.fact("author", meta.get("content"))


class _HtmlWriter:
    """Writes a tree without recursion: pages can be nested deeply."""

    def __init__(self, writer: TextWriter, *, titled: bool) -> None:
        self._writer = writer
        self._preformatted = 0
        self._lists: list[str] = []
        self._skipped = _SKIPPED if titled else _SKIPPED | {"title"}

    def write(self, root: etree._Element) -> None:
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = str(element.tag)
            has_room = True
            if event == "start" and self._is_hidden(element, tag):
                walk.skip_subtree()
                continue
            try:
                has_room = (self._end if event == "end" else self._start)(element, tag)
            except Exception as error:
                self._writer.draft.guard.take(error)
            if not has_room:
                return

    def _is_hidden(self, element: etree._Element, tag: str) -> bool:
        return tag in self._skipped or bool(_HIDDEN.search(element.get("style") or ""))

    def _start(self, element: etree._Element, tag: str) -> bool:
        if tag in ("table", "tr"):
            (self._writer.table if tag == "table" else self._writer.row)()
        elif tag in _CELLS:
            self._writer.cell()
            span = element.get("colspan") or ""
            self._writer.span(min(int(span), _MAX_SPAN) - 1 if span.isdecimal() else 0)
        elif tag in _LISTS:
            self._lists.append(tag)
            self._writer.begin()
        elif tag == "br":
            self._writer.line()
        elif tag == "li" or tag in _BLOCKS or tag in _HEADINGS or tag in _PREFORMATTED:
            self._writer.begin(self._style(tag))
        self._preformatted += tag in _PREFORMATTED
        return self._text(element.text)

    def _end(self, element: etree._Element, tag: str) -> bool:
        if self._is_hidden(element, tag):
            return self._text(element.tail)
        self._preformatted -= tag in _PREFORMATTED
        if tag in ("table", "tr"):
            (self._writer.end_table if tag == "table" else self._writer.end_row)()
        elif tag in _LISTS:
            self._lists[-1:] = []
            self._writer.begin()
        elif tag == "li" or tag in _BLOCKS or tag in _HEADINGS or tag in _PREFORMATTED:
            self._writer.begin()
        return self._text(element.tail)

    def _style(self, tag: str) -> Style:
        if tag in _HEADINGS:
            return _HEADINGS[tag]
        if tag in _PREFORMATTED:
            return CODE
        if self._lists and tag in ("li", "p", "div"):
            return item(len(self._lists) - 1, numbered=self._lists[-1] == "ol")
        return item() if tag == "li" else PLAIN

    def _text(self, text: str | None) -> bool:
        if not text:
            return True
        return self._writer.write(text) if self._preformatted else self._writer.flow(text)


READER = Reader("html", Rank.STRUCTURE, _recognises, _read)
