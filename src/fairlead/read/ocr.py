"""Text in pictures, by Tesseract where it is installed."""

from __future__ import annotations

import importlib
import os
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from fairlead.read.base import Task
from fairlead.read.draft import Draft
from fairlead.read.language import language_of

_NARROW = 1_200  # pictures of fewer points have letters too small to be told apart
_DPI = 300
_SURE = 65
_NONSENSE = 40
_FLAT = 24  # between the darkest and the brightest point of a page without anything on it
_MOST_TURNED = 3  # pictures that are tried in all directions in vain
_TURNS = {
    90: Image.Transpose.ROTATE_90,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_270,
}
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


class _Seen(NamedTuple):
    """What was read in a picture: the text, and how sure that is, from 0 to 100."""

    text: str
    confidence: int


def tessdata() -> Path | None:
    """The folder with Tesseract's languages; None where there is none."""
    named = os.environ.get("TESSDATA_PREFIX")
    asked = [Path(named), Path(named) / "tessdata"] if named else []
    root = Path("/")
    usual = [found for folder in _USUAL_FOLDERS for found in sorted(root.glob(folder[1:]))]
    return next((f for f in [*asked, *usual] if any(f.glob("*.traineddata"))), None)


class Ocr:
    """Reads the pictures of one document; what is missing for that becomes a warning, once."""

    def __init__(self, draft: Draft, task: Task) -> None:
        self.draft = draft
        self._wanted = task.limits.languages
        self._installed: tuple[str, ...] | None = None
        self._language = ""
        self._turned_in_vain = 0

    def ready(self) -> bool:
        """Whether pictures can be read here."""
        if self._installed is None:
            self._installed = self._find()
            if self._installed:
                self.draft.extractor += f", Tesseract {_library().tesseract_version().split()[1]}"
        return bool(self._installed)

    def read(self, image: Image.Image) -> str:
        """The text in a picture, in whatever direction it lies; empty where there is none."""
        if not self.ready() or _is_blank(image):
            return ""
        image = _prepared(image)
        first = self._language or self._languages()[0]
        seen = _recognise(image, first)
        if seen.confidence < _SURE:
            image, seen = self._turned(image, first, seen)
        seen = self._in_its_language(image, first, seen)
        if seen.confidence < _NONSENSE:
            if seen.text:
                self.draft.warn("a picture shows no text that could be read with confidence")
            return ""
        return seen.text

    def _find(self) -> tuple[str, ...]:
        folder = tessdata()
        if _library() is None:
            self._warn_missing("the extra ocr: pip install 'fairlead[ocr]'")
            return ()
        there = [n for n in self._wanted if folder and (folder / f"{n}.traineddata").exists()]
        missing = [n for n in self._wanted if n not in there]
        if missing:
            packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in missing)
            self._warn_missing(f"the package(s) {packages}")
        return tuple(there)

    def _warn_missing(self, what: str) -> None:
        self.draft.warn(f"reading pictures of text needs {what}")

    def _languages(self) -> tuple[str, ...]:
        return self._installed or ()

    def _turned(self, image: Image.Image, language: str, seen: _Seen) -> tuple[Image.Image, _Seen]:
        """The picture in the direction in which its text is surest."""
        degrees = _direction(image)
        if degrees:
            turned = image.transpose(_TURNS[degrees])
            found = _recognise(turned, language)
            if found.confidence > seen.confidence:
                return turned, found
        if seen.confidence >= _NONSENSE or self._turned_in_vain >= _MOST_TURNED:
            return image, seen
        tried = [(t, _recognise(t, language)) for t in map(image.transpose, _TURNS.values())]
        best = max([(image, seen), *tried], key=lambda pair: pair[1].confidence)
        self._turned_in_vain += best[1].confidence < _SURE
        return best

    def _in_its_language(self, image: Image.Image, first: str, seen: _Seen) -> _Seen:
        """Read again with the language that the text turned out to be in."""
        told = _CODES.get(language_of(seen.text) or "", "")
        if told in self._languages():
            self._language = told
            better = _recognise(image, told) if told != first else seen
        elif seen.confidence < _SURE and seen.text and len(self._languages()) > 1:
            better = _recognise(image, "+".join(self._languages()))
        else:
            return seen
        return better if better.confidence >= seen.confidence - 5 else seen


@cache
def _library() -> Any:
    """Tesseract; None where it is not installed."""
    # One page at a time: its threads cost more than they bring, and must be told so early.
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")
    try:
        return importlib.import_module("tesserocr")
    except ImportError:
        return None


@lru_cache(maxsize=4)
def _engine(folder: str, language: str, *, direction: bool) -> Any:
    """Tesseract with a language loaded; loading takes as long as reading a few lines."""
    tesserocr = _library()
    mode = tesserocr.PSM.OSD_ONLY if direction else tesserocr.PSM.AUTO
    engine = tesserocr.PyTessBaseAPI(path=f"{folder}/", lang=language, psm=mode)
    engine.SetVariable("debug_file", os.devnull)
    return engine


def _loaded(image: Image.Image, language: str, *, direction: bool = False) -> Any:
    engine = _engine(str(tessdata()), language, direction=direction)
    engine.SetImageBytes(image.tobytes(), image.width, image.height, 1, image.width)
    engine.SetSourceResolution(_DPI)
    return engine


def _recognise(image: Image.Image, language: str) -> _Seen:
    engine = _loaded(image, language)
    try:
        text = str(engine.GetUTF8Text()).strip()
        return _Seen(text, int(engine.MeanTextConf()) if text else 0)
    finally:
        engine.Clear()


def _direction(image: Image.Image) -> int:
    """By how many degrees the picture must be turned left; 0 where nobody can tell."""
    folder = tessdata()
    if folder is None or not (folder / "osd.traineddata").exists():
        return 0
    engine = _loaded(image, "osd", direction=True)
    try:
        found = engine.DetectOrientationScript()
    finally:
        engine.Clear()
    degrees = int(found["orient_deg"]) if found else 0
    return degrees if degrees in _TURNS else 0


def _prepared(image: Image.Image) -> Image.Image:
    """Grey, and large enough."""
    grey = image if image.mode == "L" else image.convert("L")
    if grey.width >= _NARROW:
        return grey
    return grey.resize((2 * grey.width, 2 * grey.height), Image.Resampling.LANCZOS)


def _is_blank(image: Image.Image) -> bool:
    low, high = image.convert("L").getextrema()
    return isinstance(low, int) and isinstance(high, int) and high - low < _FLAT
