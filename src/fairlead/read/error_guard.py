"""Keeps what fails in one part of a document from costing the rest."""

from __future__ import annotations

import logging
from typing import NamedTuple

from fairlead.read.base import FINAL_ERRORS

_MAX_SHOWN = 12  # places or ranges of places, in one warning
_MAX_CHARACTERS = 200  # of their names
_log = logging.getLogger(__name__)

# What a failure costs, as the warnings say it.
CONTENT = "not everything could be read"
UNREAD = "could not be read"
MEMBERS = "some members are missing: the archive is damaged"
REST = "what follows could not be read"
LAYOUT = "headings and tables could not be recognised"
TABLES = "tables could not be recognised"
HEADINGS = "headings could not be recognised"
NOTES = "marks of notes could not be read"
FORMS = "form fields could not be read"
PICTURES = "pictures could not be read"
CHARTS = "a chart is damaged"
PROPERTIES = "the document's properties are damaged"
ATTACHMENTS = "attachments could not be read"
INVOICE = "the fields of an invoice could not be read"
PAGE_PICTURE = "the picture of the page could not be made"
TEXT_LAYER = "the searchable PDF lacks recognised text"
SEARCHABLE = "searchable.pdf could not be made"
NOT_SEARCHABLE = "missing in searchable.pdf"
FORMATS = "dates and times may be shown as numbers"
TURNS = "the orientation of a picture could not be recognised"
LANGUAGE = "the language could not be recognised"


class PartName(NamedTuple):
    """A page, a slide, a sheet or another part that can fail alone, by its number or name."""

    unit: str
    name: int | str


class ErrorGuard:
    """The guard of one document: it turns what fails in a part into a warning with the place.

    What ends a document passes: limits, a missing password, a lack of memory.
    """

    def __init__(self) -> None:
        self.place: PartName | None = None
        self._lost: dict[tuple[str, str], set[int | str]] = {}  # by loss and unit
        self._pages = self._lost_pages = 0

    def __call__(self, loss: str, place: PartName | None = None) -> GuardedPart:
        """ErrorGuard a rule or a part, by default of the present place."""
        return GuardedPart(self, loss, place or self.place)

    def page(self, number: int | str, unit: str = "page") -> GuardedPart:
        """ErrorGuard a page, which is the present place until it ends."""
        self._pages += 1
        self.place = PartName(unit, number)
        return GuardedPart(self, CONTENT, self.place, is_page=True)

    def take(
        self, error: BaseException, loss: str = CONTENT, place: PartName | None = None
    ) -> None:
        """Record what an error costs at the place, by default the present one.

        Loops over the elements of a document call it, where a guard for each would take too long.

        Raises:
            BaseException: the error itself, if it ends the document.
        """
        if _is_final(error):
            raise error
        unit, name = place or self.place or PartName("", "")
        names = self._lost.setdefault((loss, unit), set())
        if not names:  # once for each loss: a document may have thousands of broken pages
            _log.warning("%s", _sentence(loss, unit, {name}), exc_info=error)
        names.add(name)

    def end_page(self, *, lost: bool) -> None:
        """End the present place."""
        self.place = None
        self._lost_pages += lost

    @property
    def has_lost_all(self) -> bool:
        """Whether there were pages, and none of them could be read."""
        return 0 < self._pages == self._lost_pages

    def warnings(self) -> list[str]:
        """Return a sentence for each loss, with all its places."""
        return [_sentence(loss, unit, names) for (loss, unit), names in self._lost.items()]


class GuardedPart:
    """A part that is being read; `failed` tells whether it failed."""

    __slots__ = ("_guard", "_is_page", "_loss", "_place", "failed")

    def __init__(
        self, guard: ErrorGuard, loss: str, place: PartName | None, *, is_page: bool = False
    ) -> None:
        self._guard = guard
        self._loss = loss
        self._place = place
        self._is_page = is_page
        self.failed = False

    def __enter__(self) -> GuardedPart:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        self.failed = error is not None
        if self._is_page:
            self._guard.end_page(lost=self.failed)
        if error is None or _is_final(error):
            return False
        self._guard.take(error, self._loss, self._place)
        return True


def _is_final(error: BaseException) -> bool:
    return not isinstance(error, Exception) or isinstance(error, FINAL_ERRORS)


def _sentence(loss: str, unit: str, names: set[int | str]) -> str:
    if not unit:
        return loss
    numbers = sorted(name for name in names if isinstance(name, int))
    shown = [*_ranges(numbers), *sorted(name for name in names if isinstance(name, str))]
    listed = ", ".join(shown[:_MAX_SHOWN])[:_MAX_CHARACTERS]
    more = " and others" if len(shown) > _MAX_SHOWN else ""
    return f"{unit}{'s' * (len(names) > 1)} {listed}{more}: {loss}"


def _ranges(numbers: list[int]) -> list[str]:
    """Return numbers that follow each other as one range, such as 7–9."""
    starts = [n for index, n in enumerate(numbers) if index == 0 or numbers[index - 1] != n - 1]
    ends = [n for index, n in enumerate(numbers) if numbers[index + 1 : index + 2] != [n + 1]]
    return [
        str(first) if first == last else f"{first}–{last}"
        for first, last in zip(starts, ends, strict=True)
    ]
