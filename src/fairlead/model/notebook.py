"""How values look in a shell and a notebook: one line, and small tables of HTML.

All texts are escaped there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from fairlead.model.json import Time, rfc3339

MOST_ROWS = 20


def fields_html(title: str, fields: Mapping[str, Any]) -> str:
    """A title, and a row for each field that has a value."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", (), {})}
    rows = "".join(
        f"<tr><th>{_text(name)}</th><td>{_text(shown[name])}</td></tr>" for name in shown
    )
    return f"<b>{_text(title)}</b><table>{rows}</table>"


def records_html(title: str, records: Sequence[Any]) -> str:
    """A title, and a row for each of the first records; `COLUMNS` of a record names the fields."""
    rows = [[getattr(record, name) for name in record.COLUMNS] for record in records[:MOST_ROWS]]
    heads = "".join(f"<th>{_text(name)}</th>" for name in records[0].COLUMNS) if records else ""
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    more = len(records) - len(rows)
    note = f"<p>and {more:,} more</p>" if more else ""
    return f"<b>{_text(title)}</b><table><tr>{heads}</tr>{body}</table>{note}"


def list_html(title: str, lines: Iterable[str]) -> str:
    """A title and a list of sentences."""
    return f"<b>{_text(title)}</b><ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"


def _cells(values: Iterable[Any]) -> str:
    return "".join(f"<td>{_text(value)}</td>" for value in values)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return escape(rfc3339(value) if isinstance(value, Time) else str(value))


def result_words(
    result: object, id_: str, files: Iterable[Any], *, has_text: bool, has_data: bool
) -> str:
    """What a document's result has, without its contents."""
    parts = ["text"] * has_text + ["data"] * has_data + [repr(file.name) for file in files]
    return f"<{type(result).__name__} of {id_}: {', '.join(parts) or 'nothing'}>"
