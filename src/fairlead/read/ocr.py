"""OCR of pictures by Tesseract, an optional library."""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from PIL import Image

from fairlead.read.base import Task
from fairlead.read.draft import Draft
from fairlead.read.error_guard import LANGUAGE, TABLES, TURNS
from fairlead.read.language import language_of
from fairlead.read.page_layout import Line, PageContent, Word
from fairlead.read.scan_rulings import ruled_picture
from fairlead.read.scan_tables import Area, page_with_tables, without_places
from fairlead.read.text_layer import EMPTY_LAYER, TextLayer

_MIN_WIDTH = 1_200  # letters of narrower pictures are too small
_MAX_SIDE = 32_000  # Tesseract refuses more
_DPI = 300
_GOOD_CONFIDENCE = 65
_MIN_CONFIDENCE = 40
_MIN_CONTRAST = 24  # between the darkest and the brightest pixel
_FONT_HEIGHT = 1.4  # times the height of usual letters
_RULES = "|[]_~—"
_MAX_FAILED_TURNS = 3  # pictures to turn in all directions without success
_TURNS = {
    90: Image.Transpose.ROTATE_90,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_270,
}
_DOWNWARDS = 90  # degrees to turn text left that runs from top to bottom
_CODES = {
    "en": "eng", "es": "spa", "pt": "por", "pl": "pol", "de": "deu", "fr": "fra", "it": "ita",
    "nl": "nld", "ru": "rus", "uk": "ukr", "el": "ell", "ar": "ara", "he": "heb", "zh": "chi_sim",
    "ja": "jpn", "ko": "kor", "th": "tha", "hi": "hin",
}  # fmt: skip
_USUAL_FOLDERS = (
    "/usr/share/tesseract-ocr/*/tessdata",
    "/usr/share/tesseract-ocr/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
)


class OcrPage(NamedTuple):
    """The content of a picture, and the places of its words."""

    content: PageContent
    layer: TextLayer = EMPTY_LAYER


_NOTHING = OcrPage(PageContent("", []))


class _Recognised(NamedTuple):
    """The text in a picture, the confidence from 0 to 100, and the lines with their places.

    The picture was turned left by so many degrees.
    """

    image: Image.Image
    language: str
    text: str
    confidence: int
    lines: list[Line]
    turned: int = 0


def tessdata() -> Path | None:
    """Return the folder with Tesseract's languages, if there is one."""
    configured = os.environ.get("TESSDATA_PREFIX")
    folders = [Path(configured), Path(configured) / "tessdata"] if configured else []
    for pattern in _USUAL_FOLDERS:
        folders += sorted(Path("/").glob(pattern[1:]))
    return next((folder for folder in folders if any(folder.glob("*.traineddata"))), None)


class OcrSetup(NamedTuple):
    """Tesseract's version, its languages that are installed, and a sentence on what is missing."""

    version: str | None
    languages: tuple[str, ...]
    missing: str | None


def ocr_setup(wanted: Sequence[str]) -> OcrSetup:
    """What this machine has of the library and the wanted languages."""
    need = "reading pictures of text needs"
    library, folder = _library(), tessdata()
    if library is None:
        return OcrSetup(None, (), f"{need} the extra fairlead[ocr]")
    installed = tuple(n for n in wanted if folder and (folder / f"{n}.traineddata").exists())
    missing = [name.replace("_", "-") for name in wanted if name not in installed]
    packages = " ".join(f"tesseract-ocr-{name}" for name in missing)
    version = library.tesseract_version().split()[1]
    return OcrSetup(version, installed, f"{need} the package(s) {packages}" if missing else None)


def broken_languages(languages: Iterable[str]) -> list[str]:
    """The installed languages that Tesseract cannot load."""
    with _without_stderr():
        return [name for name in languages if not _can_load(name)]


def _can_load(language: str) -> bool:
    try:
        _library().PyTessBaseAPI(path=f"{tessdata()}/", lang=language).End()
    except RuntimeError:
        return False
    return True


class Ocr:
    """Reads the pictures of one document; warns if the library or a language is missing."""

    def __init__(self, draft: Draft, task: Task) -> None:
        self.draft = draft
        self._wanted = task.limits.languages
        self._language = ""
        self._failed_turns = 0
        self.pages = 0  # pictures read

    def ready(self) -> bool:
        """Return whether pictures can be read here."""
        return bool(self._languages)

    def read(self, image: Image.Image) -> OcrPage:
        """Return the content of a picture in any orientation; empty if it has no text."""
        if not self.ready() or _is_blank(image):
            return _NOTHING
        with _without_stderr():
            return self._read(image)

    def _read(self, image: Image.Image) -> OcrPage:
        self.pages += 1
        self.draft.fact("ocr_pages", self.pages)
        first = self._language or self._languages[0]
        result = _recognise(_prepare(image), first)
        with self.draft.guard(TURNS):
            if result.confidence < _GOOD_CONFIDENCE:
                result = self._turned(result, first)
        with self.draft.guard(LANGUAGE):
            result = self._in_its_language(result, first)
        if result.confidence < _MIN_CONFIDENCE:
            if result.text:
                self.draft.warn("a picture shows no text that could be read with confidence")
            return _NOTHING
        content = PageContent(result.text, without_places(result.lines))
        lines = result.lines
        with self.draft.guard(TABLES):
            rulings, without = ruled_picture(result.image)
            read_rows = partial(_read_rows, without, result.language)
            content, lines = page_with_tables(lines, result.text, rulings, read_rows)
        return OcrPage(content, TextLayer(lines, *result.image.size, result.turned))

    @cached_property
    def _languages(self) -> tuple[str, ...]:
        """The wanted languages that are installed."""
        setup = ocr_setup(self._wanted)
        if setup.missing:
            self.draft.warn(setup.missing)
        if setup.languages:
            self.draft.extractor += f", Tesseract {setup.version}"
        return setup.languages

    def _turned(self, result: _Recognised, language: str) -> _Recognised:
        """Turn the picture to the orientation with the highest confidence."""
        degrees = _orientation(result.image)
        if degrees:
            better = _again(result, language, degrees)
            if better.confidence > result.confidence:
                return better
        if result.confidence >= _MIN_CONFIDENCE or self._failed_turns >= _MAX_FAILED_TURNS:
            return result
        turned = [_again(result, language, degrees) for degrees in _TURNS]
        best = max([result, *turned], key=lambda candidate: candidate.confidence)
        self._failed_turns += best.confidence < _GOOD_CONFIDENCE
        return best

    def _in_its_language(self, result: _Recognised, first: str) -> _Recognised:
        """Recognise again in the language of the text."""
        language = _CODES.get(language_of(result.text) or "", "")
        if language in self._languages:
            self._language = language
            better = _again(result, language) if language != first else result
        elif result.confidence < _GOOD_CONFIDENCE and result.text and len(self._languages) > 1:
            better = _again(result, "+".join(self._languages))
        else:
            return result
        return better if better.confidence >= result.confidence - 5 else result


@cache
def _library() -> Any:
    """Import tesserocr; None if it is not installed."""
    # For one page at a time, threads cost more than they save. The library reads this at its start.
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")
    try:
        return importlib.import_module("tesserocr")
    except ImportError:
        return None


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Drop what Tesseract prints."""
    sys.stderr.flush()
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(nowhere)
        os.close(stderr)


@lru_cache(maxsize=4)
def _engine(folder: str, language: str, *, osd: bool) -> Any:
    """Load Tesseract with a language, which takes as long as reading a few lines."""
    tesserocr = _library()
    mode = tesserocr.PSM.OSD_ONLY if osd else tesserocr.PSM.AUTO
    engine = tesserocr.PyTessBaseAPI(path=f"{folder}/", lang=language, psm=mode)
    # The library sets /dev/null. Tesseract crashes if it cannot open that for writing, which the
    # sandbox refuses.
    engine.SetVariable("debug_file", "")
    return engine


def _loaded(image: Image.Image, language: str, *, osd: bool = False) -> Any:
    engine = _engine(str(tessdata()), language, osd=osd)
    engine.SetImageBytes(image.tobytes(), image.width, image.height, 1, image.width)
    engine.SetSourceResolution(_DPI)
    return engine


def _recognise(image: Image.Image, language: str) -> _Recognised:
    engine = _loaded(image, language)
    try:
        text = str(engine.GetUTF8Text()).strip()
        if not text:
            return _Recognised(image, language, "", 0, [])
        confidence = int(engine.MeanTextConf())
        if not _runs_downwards(engine):
            return _Recognised(image, language, text, confidence, list(_lines(engine)))
        lines = list(_lines(engine, turned_from=image.width))
        turned = image.transpose(_TURNS[_DOWNWARDS])
        return _Recognised(turned, language, text, confidence, lines, _DOWNWARDS)
    finally:
        engine.Clear()


def _again(result: _Recognised, language: str, degrees: int = 0) -> _Recognised:
    """Recognise the same picture, turned left by so many degrees more."""
    image = result.image.transpose(_TURNS[degrees]) if degrees else result.image
    again = _recognise(image, language)
    return again._replace(turned=(result.turned + degrees + again.turned) % 360)


def _read_rows(image: Image.Image, language: str, area: Area) -> list[Line]:
    """Return the lines in an area from top to bottom, without looking for columns."""
    mode = _library().PSM
    engine = _loaded(image.crop(area), language)
    try:
        engine.SetPageSegMode(mode.SINGLE_BLOCK)
        engine.Recognize()
        lines = [_moved(line, area.left, area.top) for line in _lines(engine) if line.words]
        return [_without_rules(line) for line in lines]
    finally:
        engine.SetPageSegMode(mode.AUTO)
        engine.Clear()


def _runs_downwards(engine: Any) -> bool:
    """Return whether most text runs from top to bottom, which Tesseract reads without turning."""
    level, downwards = _library().RIL, _library().WritingDirection.TOP_TO_BOTTOM
    areas = Counter[bool]()
    for place in _library().iterate_level(engine.GetIterator(), level.BLOCK):
        if not place.Empty(level.WORD):
            left, top, right, bottom = place.BoundingBox(level.BLOCK)
            areas[place.Orientation()[1] == downwards] += (right - left) * (bottom - top)
    return areas[True] > areas[False]


def _lines(engine: Any, turned_from: int | None = None) -> Iterator[Line]:
    """Yield the lines; a line without words separates paragraphs.

    With `turned_from`, the width of the picture, boxes are as if the text ran to the right.
    """
    level = _library().RIL
    words: list[Word] = []
    for place in _library().iterate_level(engine.GetIterator(), level.WORD):
        if place.Empty(level.WORD):
            continue
        if words and place.IsAtBeginningOf(level.TEXTLINE):
            yield _line(words)
            words = []
            if place.IsAtBeginningOf(level.PARA):
                yield Line("", [])
        left, top, right, bottom = place.BoundingBox(level.WORD)
        if turned_from is not None:
            left, top, right, bottom = top, turned_from - right, bottom, turned_from - left
        words.append(Word(str(place.GetUTF8Text(level.WORD)), left, top, right, bottom))
    if words:
        yield _line(words)


def _line(words: list[Word]) -> Line:
    """Return a line whose words have one height, about that of the font.

    The box of the whole line may contain a ruling line beside it.
    """
    middle = median((word.top + word.bottom) / 2 for word in words)
    half = _FONT_HEIGHT / 2 * median(word.bottom - word.top for word in words)
    placed = [word._replace(top=middle - half, bottom=middle + half) for word in words]
    return Line(" ".join(word.text for word in words), placed)


def _moved(line: Line, right: int, down: int) -> Line:
    """Return a line of a part of the picture with its places in the whole picture."""
    words = [
        Word(word.text, word.left + right, word.top + down, word.right + right, word.bottom + down)
        for word in line.words
    ]
    return Line(line.text, words)


def _without_rules(line: Line) -> Line:
    """Return a line of a table without ruling lines that were taken for letters."""
    cleaned = [word._replace(text=word.text.strip(_RULES)) for word in line.words]
    words = [word for word in cleaned if word.text]
    return Line(" ".join(word.text for word in words), words)


def _orientation(image: Image.Image) -> int:
    """Return by how many degrees to turn the picture left; 0 if that is unknown."""
    folder = tessdata()
    if folder is None or not (folder / "osd.traineddata").exists():
        return 0
    engine = _loaded(image, "osd", osd=True)
    try:
        detected = engine.DetectOrientationScript()
    finally:
        engine.Clear()
    degrees = int(detected["orient_deg"]) if detected else 0
    return degrees if degrees in _TURNS else 0


def _prepare(image: Image.Image) -> Image.Image:
    """Return the picture in grey, in a size that Tesseract reads well."""
    grey = image if image.mode == "L" else image.convert("L")
    scale = min(1 if grey.width >= _MIN_WIDTH else 2, _MAX_SIDE / max(grey.size))
    if scale == 1:
        return grey
    size = max(1, int(scale * grey.width)), max(1, int(scale * grey.height))
    return grey.resize(size, Image.Resampling.LANCZOS)


def _is_blank(image: Image.Image) -> bool:
    low, high = image.convert("L").getextrema()
    return isinstance(low, int) and isinstance(high, int) and high - low < _MIN_CONTRAST
