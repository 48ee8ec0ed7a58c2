"""OCR of pictures by Tesseract, if it is installed."""

from __future__ import annotations

import importlib
import os
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from fairlead.read.base import Task
from fairlead.read.draft import Draft
from fairlead.read.language import language_of

_MIN_WIDTH = 1_200  # letters of narrower pictures are too small
_DPI = 300
_GOOD_CONFIDENCE = 65
_MIN_CONFIDENCE = 40
_MIN_CONTRAST = 24  # between the darkest and the brightest pixel
_MAX_FAILED_TURNS = 3  # pictures to turn in all directions without success
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


class _Recognised(NamedTuple):
    """The text in a picture, and the confidence from 0 to 100."""

    image: Image.Image
    text: str
    confidence: int


def tessdata() -> Path | None:
    """Return the folder with Tesseract's languages, if there is one."""
    named = os.environ.get("TESSDATA_PREFIX")
    folders = [Path(named), Path(named) / "tessdata"] if named else []
    for pattern in _USUAL_FOLDERS:
        folders += sorted(Path("/").glob(pattern[1:]))
    return next((folder for folder in folders if any(folder.glob("*.traineddata"))), None)


class Ocr:
    """Reads the pictures of one document; warns if the library or a language is missing."""

    def __init__(self, draft: Draft, task: Task) -> None:
        self.draft = draft
        self._wanted = task.limits.languages
        self._language = ""
        self._failed_turns = 0
        self._pages = 0

    def ready(self) -> bool:
        """Return whether pictures can be read here."""
        return bool(self._languages)

    def read(self, image: Image.Image) -> str:
        """Return the text in a picture, whatever its orientation; empty if there is none."""
        if not self.ready() or _is_blank(image):
            return ""
        self._pages += 1
        self.draft.fact("ocr_pages", self._pages)
        first = self._language or self._languages[0]
        result = _recognise(_prepare(image), first)
        if result.confidence < _GOOD_CONFIDENCE:
            result = self._turned(result, first)
        result = self._in_its_language(result, first)
        if result.confidence < _MIN_CONFIDENCE:
            if result.text:
                self.draft.warn("a picture shows no text that could be read with confidence")
            return ""
        return result.text

    @cached_property
    def _languages(self) -> tuple[str, ...]:
        """The languages that are wanted and installed."""
        need = "reading pictures of text needs"
        if _library() is None:
            self.draft.warn(f"{need} the extra ocr: pip install 'fairlead[ocr]'")
            return ()
        folder = tessdata()
        installed = [n for n in self._wanted if folder and (folder / f"{n}.traineddata").exists()]
        missing = [name.replace("_", "-") for name in self._wanted if name not in installed]
        if missing:
            packages = " ".join(f"tesseract-ocr-{name}" for name in missing)
            self.draft.warn(f"{need} the package(s) {packages}")
        if installed:
            self.draft.extractor += f", Tesseract {_library().tesseract_version().split()[1]}"
        return tuple(installed)

    def _turned(self, result: _Recognised, language: str) -> _Recognised:
        """Turn the picture to the orientation with the highest confidence."""
        degrees = _orientation(result.image)
        if degrees:
            better = _recognise(result.image.transpose(_TURNS[degrees]), language)
            if better.confidence > result.confidence:
                return better
        if result.confidence >= _MIN_CONFIDENCE or self._failed_turns >= _MAX_FAILED_TURNS:
            return result
        turned = [_recognise(result.image.transpose(turn), language) for turn in _TURNS.values()]
        best = max([result, *turned], key=lambda one: one.confidence)
        self._failed_turns += best.confidence < _GOOD_CONFIDENCE
        return best

    def _in_its_language(self, result: _Recognised, first: str) -> _Recognised:
        """Recognise again in the language of the text."""
        language = _CODES.get(language_of(result.text) or "", "")
        if language in self._languages:
            self._language = language
            better = _recognise(result.image, language) if language != first else result
        elif result.confidence < _GOOD_CONFIDENCE and result.text and len(self._languages) > 1:
            better = _recognise(result.image, "+".join(self._languages))
        else:
            return result
        return better if better.confidence >= result.confidence - 5 else result


@cache
def _library() -> Any:
    """Import tesserocr; None if it is not installed."""
    # For one page at a time, threads cost more than they save; read when the library loads.
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")
    try:
        return importlib.import_module("tesserocr")
    except ImportError:
        return None


@lru_cache(maxsize=4)
def _engine(folder: str, language: str, *, osd: bool) -> Any:
    """Load Tesseract with a language, which takes as long as reading a few lines."""
    tesserocr = _library()
    mode = tesserocr.PSM.OSD_ONLY if osd else tesserocr.PSM.AUTO
    engine = tesserocr.PyTessBaseAPI(path=f"{folder}/", lang=language, psm=mode)
    engine.SetVariable("debug_file", os.devnull)
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
        return _Recognised(image, text, int(engine.MeanTextConf()) if text else 0)
    finally:
        engine.Clear()


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
    grey = image if image.mode == "L" else image.convert("L")
    if grey.width >= _MIN_WIDTH:
        return grey
    return grey.resize((2 * grey.width, 2 * grey.height), Image.Resampling.LANCZOS)


def _is_blank(image: Image.Image) -> bool:
    low, high = image.convert("L").getextrema()
    return isinstance(low, int) and isinstance(high, int) and high - low < _MIN_CONTRAST
