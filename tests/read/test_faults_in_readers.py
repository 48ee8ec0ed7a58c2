"""A fault in any function of a reader costs at most the part that is being read.

The functions are those that run for a document, so that a new one is included.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import cast

import pytest
from faultkit import Faults, name_of
from needs import need_languages
from partkit import FLOWING, PAGED, SCANNED, WORDS

from fairlead.read import CannotRead, Extracted, ReadLimits, aligned_tables, extract
from fairlead.read.error_guard import PartName

# A page stays whole, as plain text, where one of these rules fails.
RULES = frozenset([
    "aligned_tables", "ruled_tables", "table_rows", "pdf_drawings", "page_headings",
    "page_markdown", "pdf_hyphens", "scan_rulings", "chart", "language", "invoice", "dates",
])  # fmt: skip
# The frame of all readers: it opens the document, holds what was read, and calls the rest.
FRAME_MODULES = frozenset([
    "base", "draft", "kinds", "zip", "package", "ole", "xml", "unsupported", "decode", "outputs",
    "pdf_forms", "searchable_pdf", "doc_text", "doc_formatting",
])  # fmt: skip
FRAME = frozenset([
    "_read", "_recognises", "_has_signature", "_is_bmp", "_is_webp", "_is_packed", "_is_package",
    "_is_flat", "_is_bare_book", "_header_names", "_guesses", "__init__", "finish", "_open",
    "pdf._add_pages", "pdf._add_outputs", "page_markdown.PageMarkdown.add_page",
    "page_markdown.PageMarkdown.write", "page_markdown._plain", "text_writer.rows_text",
    "xlsx._Workbook.on_start", "xlsx._read_strings", "xlsx._Strings.on_start",
    "xlsx._Strings.on_text", "xlsx._Strings.on_end", "pptx._slides", "pptx._SlideOrder.on_start",
    "epub._refuse_encrypted", "epub._Root.on_start", "epub._EpubPackage.on_start",
    "epub._EpubPackage.pages", "epub._add_pages", "odf._read_package", "odf._read_text",
    "docx_styles.read_styles", "docx._Body.reset", "docx._targets", "docx._write_part",
    "html.declared_encoding", "html.write_markup", "html._HtmlWriter.write", "rtf.write_rtf",
    "rtf._Parser.run", "rtf._Parser._brace", "doc._shown", "doc._write", "xls._write_sheet",
    "mail._leaves", "mail.write_message", "mail._write_plain",
])  # fmt: skip


Reading = Callable[[bytes], Callable[[], Extracted]]


@pytest.fixture(autouse=True)
def without_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no tracebacks of hundreds of faults."""
    monkeypatch.setattr(logging.getLogger("fairlead.read.error_guard"), "disabled", True)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    def make(data: bytes) -> Callable[[], Extracted]:
        path = tmp_path / "document"
        path.write_bytes(data)
        return lambda: extract(path, limits=ReadLimits(languages=("eng",)))

    return make


def is_frame(function: FunctionType) -> bool:
    module = function.__module__.rpartition(".")[2]
    return module in FRAME_MODULES or not FRAME.isdisjoint([function.__name__, name_of(function)])


def is_rule(function: FunctionType) -> bool:
    return function.__module__.rpartition(".")[2] in RULES


def is_second(place: PartName | None) -> bool:
    return place is not None and place.name in (2, WORDS[1])


def lost(extracted: Extracted) -> list[str]:
    return [word for word in WORDS if word not in extracted.text]


def names(extracted: Extracted, place: PartName) -> bool:
    """Whether a warning names the place."""
    warnings = extracted.facts["warnings"]
    assert isinstance(warnings, list)
    return any(str(warning).startswith(f"{place.unit} {place.name}: ") for warning in warnings)


def faults_on_second_page(
    faults: Faults, read: Callable[[], Extracted], modules: frozenset[str] | None = None
) -> list[str]:
    """Return what is wrong when functions fail on the second page, one after the other."""
    calls = faults.running(read)
    (place,) = filter(is_second, calls)
    assert place is not None
    wrong = []
    for function in calls[place]:
        module = function.__module__.rpartition(".")[2]
        if name_of(function).startswith("xml.XmlHandler") or (modules and module not in modules):
            continue  # lxml looks at the parameters of the methods that it calls
        with faults.failing(function, lambda: faults.present == place):
            try:
                extracted = read()
            except CannotRead as error:
                wrong.append(f"{name_of(function)} costs the document: {error}")
                continue
        if not set(lost(extracted)) <= (set() if is_rule(function) else {WORDS[1]}):
            wrong.append(f"{name_of(function)} costs {lost(extracted)}")
        if not names(extracted, place):
            wrong.append(f"{name_of(function)} gives no warning: {extracted.facts['warnings']}")
    return wrong


@pytest.mark.parametrize("kind", PAGED)
def test_a_fault_on_a_page_costs_at_most_that_page(
    faults: Faults, reading: Reading, kind: str
) -> None:
    wrong = faults_on_second_page(faults, reading(PAGED[kind]()))
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "modules"),
    [
        ("pdf", frozenset(["scan_tables", "scan_rulings"])),
        pytest.param("pdf", frozenset(["ocr"]), marks=pytest.mark.full),
        ("tiff", frozenset(["images", "upright", "outputs", "picture_outputs"])),
    ],
)
def test_a_fault_on_a_scanned_page_costs_at_most_that_page(
    faults: Faults, reading: Reading, kind: str, modules: frozenset[str]
) -> None:
    need_languages("eng", "osd")
    wrong = faults_on_second_page(faults, reading(SCANNED[kind]()), modules)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", PAGED)
def test_a_fault_in_a_rule_for_the_whole_document_costs_no_text(
    faults: Faults, reading: Reading, kind: str
) -> None:
    read = reading(PAGED[kind]())
    wrong = []
    for function in faults.running(read)[None]:
        if is_frame(function):
            continue
        with faults.failing(function, lambda: faults.present is None):
            try:
                extracted = read()
            except CannotRead as error:
                wrong.append(f"{name_of(function)} costs the document: {error}")
                continue
        if lost(extracted) or not extracted.facts["warnings"]:
            wrong.append(f"{name_of(function)} costs {lost(extracted)}: {extracted.facts}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", FLOWING)
def test_a_fault_at_one_element_costs_no_other(faults: Faults, reading: Reading, kind: str) -> None:
    """A function fails once, in the middle of its calls."""
    read = reading(FLOWING[kind]())
    calls: dict[FunctionType, int] = {}
    for counts in faults.running(read).values():
        for function, count in counts.items():
            calls[function] = calls.get(function, 0) + count
    wrong = []
    for function, count in calls.items():
        if is_frame(function):
            continue
        # A generator is also called to continue.
        at = 0 if inspect.isgeneratorfunction(function) else count // 2
        turns = map(at.__eq__, range(count))
        with faults.failing(function, partial(next, turns, False)):
            try:
                extracted = read()
            except CannotRead as error:
                wrong.append(f"{name_of(function)} costs the document: {error}")
                continue
        if len(lost(extracted)) > 1 or not extracted.facts["warnings"]:
            wrong.append(f"{name_of(function)} costs {lost(extracted)}: {extracted.facts}")
    assert not wrong, "\n".join(wrong)


def test_what_ends_a_document_is_not_taken(faults: Faults, reading: Reading) -> None:
    read = reading(PAGED["pdf"]())
    for error in (MemoryError(), CannotRead("too-large", "It is too large.")):

        def fail(error: Exception = error) -> bool:
            raise error

        with (
            faults.failing(cast("FunctionType", aligned_tables.take_aligned_tables), fail),
            pytest.raises(type(error)),
        ):
            read()
