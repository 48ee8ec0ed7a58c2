"""The texts that other programs read in the same documents: LibreOffice, pdftotext for PDFs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from lxml import html

from bench.readers.scoring import Row, rows, words

TEXTS_AND_SHEETS = {"docx", "doc", "odt", "rtf", "xlsx", "xls", "ods", "html", "htm"}
SLIDES = {"pptx", "ppt", "odp"}
WIDE_SPACE = re.compile(r"\s{2,}")
PACKAGES = {
    "soffice": "libreoffice-writer-nogui libreoffice-calc-nogui libreoffice-impress-nogui",
    "pdftotext": "poppler-utils",
}
AT_ONCE = 50
SECONDS = 60.0
"""How long LibreOffice may take for a document."""


class Reference(NamedTuple):
    words: Counter[str]
    rows: list[Row] | None  # None: not known


def missing() -> dict[str, str]:
    """Return the programs that are not installed, with their Debian packages."""
    return {name: package for name, package in PACKAGES.items() if shutil.which(name) is None}


def references(paths: Sequence[Path], work: Path) -> dict[Path, Reference]:
    """Return the reference of each document that these programs can read.

    The rows of a PDF are those of the document of the same name beside it, from which it was made;
    without one, they are lines of at least three cells, two or more below each other.
    """
    lacking = missing()
    by_path: dict[Path, Reference] = {}
    if "soffice" not in lacking:
        for path, page in _converted(_having(paths, TEXTS_AND_SHEETS), "html", work):
            by_path[path] = _of_html(page)
    if "pdftotext" in lacking:
        return by_path
    if "soffice" not in lacking:
        for path, pdf in _converted(_having(paths, SLIDES), "pdf", work):
            by_path[path] = Reference(words(_pdf_text(pdf)), None)
    sources = {path.stem: path for path in by_path}
    for path in _having(paths, {"pdf"}):
        source = by_path[sources[path.stem]] if path.stem in sources else None
        known = source.rows if source else _aligned_rows(_pdf_text(path, "-layout"))
        by_path[path] = Reference(words(_pdf_text(path)), known)
    return by_path


def _having(paths: Iterable[Path], suffixes: set[str]) -> list[Path]:
    return [path for path in paths if path.suffix.lower().lstrip(".") in suffixes]


def _converted(paths: list[Path], kind: str, work: Path) -> Iterator[tuple[Path, Path]]:
    """Yield what LibreOffice could convert; each suffix by itself, for names may repeat."""
    for suffix, group in groupby(sorted(paths, key=_suffix), key=_suffix):
        alike = list(group)
        folder = work / f"{kind}{suffix}"
        for start in range(0, len(alike), AT_ONCE):
            names = list(map(str, alike[start : start + AT_ONCE]))
            profile = f"-env:UserInstallation={(work / 'profile').as_uri()}"
            command = [
                "soffice",
                "--headless",
                profile,
                "--convert-to",
                kind,
                "--outdir",
                str(folder),
            ]
            if not _ends([*command, *names], SECONDS + len(names)):
                for name in names:  # a bomb among them must not cost the others their reference
                    _ends([*command, name], SECONDS)
        for path in alike:
            converted = folder / f"{path.stem}.{kind}"
            if converted.exists():
                yield path, converted


def _ends(command: list[str], seconds: float) -> bool:
    """Run a command; return whether it ended in time. It never outlives the call, nor Ctrl-C."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=nowhere, stderr=nowhere, start_new_session=True) as run:
        try:
            run.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
    return True


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def _of_html(path: Path) -> Reference:
    body = html.fromstring(path.read_bytes()).find("body")
    if body is None:
        return Reference(Counter(), [])
    tables = ([_text(cell) for cell in line.iterchildren("td", "th")] for line in body.iter("tr"))
    return Reference(words("\n".join(map(str, body.itertext()))), rows(tables))


def _text(element: Any) -> str:
    return " ".join(map(str, element.itertext()))


def _pdf_text(path: Path, *options: str) -> str:
    command = ["pdftotext", "-enc", "UTF-8", *options, str(path), "-"]
    return subprocess.run(command, check=False, capture_output=True).stdout.decode(
        "utf-8", "replace"
    )


def _aligned_rows(text: str) -> list[Row]:
    """Return lines of at least three cells, two or more below each other."""
    lines = [WIDE_SPACE.split(line.strip()) for line in text.split("\n") if line.strip()]
    aligned: list[Row] = []
    for wide, group in groupby(lines, key=lambda cells: len(cells) > 2):
        together = rows(group) if wide else []
        aligned += together if len(together) > 1 else []
    return aligned
