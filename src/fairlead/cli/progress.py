"""Progress bars on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from fairlead.cli.output import safe
from fairlead.model.documents import Event, EventKind

if TYPE_CHECKING:
    from rich.progress import Progress


def progress_bar() -> Progress:
    """A progress bar on stderr; invisible unless stderr is a terminal."""
    from rich.console import Console  # noqa: PLC0415 (slow to import)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def page_progress(events: Iterable[Event]) -> dict[str, str]:
    """The progress of each document with events, as text; "" without progress or after its end."""
    texts: dict[str, str] = {}
    for event in events:
        if event.document and event.kind is EventKind.PROGRESS:
            texts[event.document] = f"page {event.data['pages_done']:,} of {event.data['pages']:,}"
        elif event.document:
            texts[event.document] = ""
    return texts


class ProgressLine:
    """The last line of a terminal, with the progress of long documents."""

    def __init__(self) -> None:
        self._shown = ""
        self._can_show = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line; an empty text removes it."""
        if self._can_show and text != self._shown:
            click.echo(f"\r{safe(text)}\x1b[K", nl=False, err=True)
            self._shown = text

    def line(self, text: str) -> None:
        """Write a permanent line above it."""
        self.show("")
        click.echo(text, err=True)
