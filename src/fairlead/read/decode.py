"""Decodes bytes of an unknown encoding."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

import charset_normalizer

_SAMPLE_BYTES = 32_768
_BOMS: tuple[tuple[bytes, str], ...] = (
    # UTF-32 first: its little-endian mark begins with the one of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# UTF-16 without a mark is detected by its high bytes: most belong to the scripts from Latin to
# Arabic, and some are 0, for blanks and digits.
_UTF16 = ((1, "utf-16-le"), (0, "utf-16-be"))
_SCRIPTS = bytes(range(7))
_SCRIPT_SHARE = 0.7
_MIN_UTF16_BYTES = 8
_UTF16_SAMPLE_BYTES = 4_096
# Web pages that declare these encodings mean cp1252.
_READ_AS = {"iso8859-1": "cp1252", "ascii": "cp1252"}
_CONTROLS = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_CONTROL_SHARE = 0.005


class Decoded(NamedTuple):
    """A text, its encoding, and whether the encoding had to be guessed."""

    text: str
    encoding: str
    guessed: bool = False


def decode(data: bytes, *, declared: str | None = None, cut: bool = False) -> Decoded:
    """Decode by the byte order mark, as UTF-16 without one, as declared, as UTF-8, or by a guess.

    `cut` allows the data to end within a character. Never raises.
    """
    mark, encoding = _mark(data)
    encoding = encoding or _unmarked_utf16(data)
    if encoding:
        return Decoded(_decode(data[len(mark) :], encoding, "replace", cut=cut), encoding)
    for name in (_usable(declared), "utf-8"):
        text = _strictly(data, name, cut=cut) if name else None
        if name and text is not None:
            return Decoded(text, name)
    guess = _guess(data, cut=cut) or "cp1252"
    return Decoded(_decode(data, guess, "replace", cut=cut), guess, guessed=True)


def decode_head(head: bytes) -> str | None:
    """Decode the beginning of a document; None if it is not text."""
    mark, encoding = _mark(head)
    encoding = encoding or _unmarked_utf16(head)
    if encoding:
        text = _strictly(head[len(mark) :], encoding, cut=True)
        return None if text is None or _is_binary(text) else text
    if _is_binary(head.decode("latin-1")):
        return None
    text = _strictly(head, "utf-8", cut=True)
    if text is not None:
        return text
    guess = _guess(head, cut=True)
    return _decode(head, guess, "replace", cut=True) if guess else None


def _mark(data: bytes) -> tuple[bytes, str | None]:
    return next(((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", None))


def _unmarked_utf16(data: bytes) -> str | None:
    sample = data[:_UTF16_SAMPLE_BYTES]
    if len(sample) < _MIN_UTF16_BYTES or b"\0" not in sample:
        return None
    for parity, encoding in _UTF16:
        high = sample[parity::2]
        known = len(high) - len(high.translate(None, _SCRIPTS))
        if 0 not in high or known < _SCRIPT_SHARE * len(high):
            continue
        text = _strictly(sample, encoding, cut=True)
        if text is not None and not _is_binary(text):
            return encoding
    return None


def _is_binary(text: str) -> bool:
    if "\x00" in text:
        return True
    return len(_CONTROLS.findall(text)) > max(1, _CONTROL_SHARE * len(text))


def _usable(declared: str | None) -> str | None:
    """Return the codec of a declared name.

    Never UTF-16 without a byte order mark: the declaration was readable as ASCII.
    """
    if not declared:
        return None
    try:
        name = codecs.lookup(declared.strip()).name
        b"a".decode(name, "replace")  # some codecs of Python, like zlib, do not return text
    except (LookupError, ValueError):
        return None
    return None if name.startswith(("utf-16", "utf-32")) else _READ_AS.get(name, name)


def _decode(data: bytes, encoding: str, errors: str, *, cut: bool) -> str:
    text: str = codecs.getincrementaldecoder(encoding)(errors).decode(data, not cut)
    return text


def _strictly(data: bytes, encoding: str, *, cut: bool) -> str | None:
    try:
        return _decode(data, encoding, "strict", cut=cut)
    except (LookupError, ValueError, TypeError):
        # Not only ValueError: some codecs cannot decode incrementally.
        return None


def _guess(data: bytes, *, cut: bool) -> str | None:
    """Guess from the bytes around the first one that is not UTF-8."""
    start = 0
    try:
        _decode(data, "utf-8", "strict", cut=cut)
    except UnicodeDecodeError as error:
        start = max(0, error.start - _SAMPLE_BYTES // 2)
    best = charset_normalizer.from_bytes(data[start : start + _SAMPLE_BYTES]).best()
    return _usable(best.encoding) if best else None
