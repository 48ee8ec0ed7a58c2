"""Charts of Office documents, as tables of their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from fairlead.read.error_guard import CHARTS
from fairlead.read.package import Package
from fairlead.read.text_writer import TextWriter
from fairlead.read.xlsx import NumberFormats
from fairlead.read.xml import Attributes, XmlHandler, int_attribute, parse_xml

_ROLES = {
    "tx": "name", "cat": "categories", "xVal": "categories", "val": "values", "yVal": "values",
}  # fmt: skip
_MAX_SERIES = 255
_FORMATS = NumberFormats([], from_1904=False)


@dataclass(slots=True)
class _Series:
    """A name, and texts by the index of their point."""

    name: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)


def write_chart(package: Package, part: str, writer: TextWriter) -> None:
    """Write a chart's title, and a table with a row for each category."""
    with writer.draft.guard(CHARTS):
        _write_chart(package, part, writer)


def _write_chart(package: Package, part: str, writer: TextWriter) -> None:
    chart = _Chart(writer.draft.room)
    with writer.draft.guard(CHARTS):  # a damaged chart still shows what is before the damage
        parse_xml(package.chunks(part), chart)
    if chart.done:
        writer.draft.warn("a chart was cut: it is longer than the limit")
    writer.begin()
    writer.flow(chart.title)
    for _, group in groupby(chart.series[:_MAX_SERIES], key=lambda series: series.categories):
        writer.table(values=True)
        for row in _rows(list(group)):
            if not writer.values(row):
                break
        writer.end_table()


def _rows(group: list[_Series]) -> Iterator[list[str]]:
    """Yield the names of series that share their categories, then their values."""
    yield ["", *(" ".join(series.name.values()) for series in group)]
    categories = group[0].categories
    points = sorted({point for series in group for point in series.values} | categories.keys())
    for point in points:
        category = categories.get(point, "" if categories else str(point + 1))
        yield [category, *(series.values.get(point, "") for series in group)]


class _Chart(XmlHandler):
    """Collects the title and the series of a chart, up to so many characters."""

    skipped = frozenset([
        "catAx", "valAx", "dateAx", "serAx", "dLbls", "extLst", "legend", "trendline", "errBars",
    ])  # fmt: skip

    def __init__(self, limit: int) -> None:
        self.title = ""
        self.series: list[_Series] = []
        self._room = limit
        self._in_series = False
        self._in_numbers = False
        self._role = ""
        self._level = 0
        self._point = 0
        self._format = ""
        self._element = ""

    def on_start(self, name: str, attributes: Attributes) -> None:
        self._element = name
        if name == "ser":
            self._in_series, self._role = True, ""
            self.series.append(_Series())
        elif name in _ROLES:
            self._role, self._level, self._point, self._format = _ROLES[name], 0, 0, ""
        elif name == "lvl":
            self._level += 1
        elif name == "numCache":
            self._in_numbers = True
        elif name == "pt":
            self._point = int_attribute(attributes, "idx")

    def on_end(self, name: str) -> None:
        self._element = ""
        if name == "ser":
            self._in_series = False
        elif name == "numCache":
            self._in_numbers = False
        elif name == "v" and self._in_numbers:
            self._format_number()

    def _format_number(self) -> None:
        texts = self._texts()
        if self._point in texts:
            texts[self._point] = _shown(texts[self._point], self._format)

    def _texts(self) -> dict[int, str]:
        """The texts of the current role; further levels only group the categories."""
        if not self._in_series or not self._role or self._level > 1:
            return {}
        texts: dict[int, str] = getattr(self.series[-1], self._role)
        return texts

    def on_text(self, text: str) -> None:
        self._room -= len(text)
        if self._room < 0:
            self.done = True
        elif self._element == "formatCode":
            self._format += text
        elif self._element == "t" and not self._in_series:
            self.title += text
        elif self._element == "v":
            texts = self._texts()
            texts[self._point] = texts.get(self._point, "") + text


def _shown(raw: str, code: str) -> str:
    try:
        return _FORMATS.show(float(raw), code)
    except ValueError:
        return raw
