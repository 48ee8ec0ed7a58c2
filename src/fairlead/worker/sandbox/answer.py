"""Checks the answer of a child, whose bytes are as untrusted as the document that it read."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairlead.model.documents import WORKER_LOST, Broken, Failed
from fairlead.worker.sandbox.limits import SandboxLimits, out_of_memory
from fairlead.worker.sandbox.process import ChildDied
from fairlead.worker.sandbox.protocol import PartContent, ReceivedPart

MAX_FACTS_BYTES = 65_536
MAX_DEPTH = 5
MAX_KEYS = 64
MAX_DETAIL = 500
MAX_NAME = 255
_NO_LETTERS = ("Cc", "Cs", "Zl", "Zp")
_MAX_INTEGER = 2**53
_INVALID_FACT = "a fact has an invalid value"
_KIND = re.compile(r"[a-z0-9-]{1,32}")
_OUTPUT_NAME = re.compile(rb"searchable\.pdf|page-[0-9]{3,6}\.png")

# Failed is final. Broken is worth another attempt: missing bytes may be back by then.
FINAL = frozenset(["unsupported", "damaged", "encrypted", "too-large", "empty"])
REQUEUED = frozenset(["corrupt", "memory-limit", "time-limit", "crashed", "bad-answer"])

_ANSWER_KEYS = frozenset(["kind", "text", "markdown", "facts"])
_ERROR_KEYS = frozenset(["error", "detail", "kind"])

# A shorter answer cannot become large in memory.
_HARMLESS_BYTES = 1_000_000
# Our JSON is at most this many times as long as any other JSON of the same value (worst: 1e15).
_MOST_GROWTH = 8
_STRING = re.compile(rb'"[^"]*"?')  # after its first character it always matches: no backtracking


class ExtractedFile(NamedTuple):
    """An attachment, an archive member or an output, with a checked name."""

    name: str
    content: PartContent


class Extraction(NamedTuple):
    """The result of reading: texts that encode to UTF-8, bounded facts, parts with names.

    `markdown` is None if it equals the text. `files` are the outputs; their names are unique.
    """

    kind: str
    text: str
    facts: Mapping[str, Any]
    markdown: str | None = None
    parts: tuple[ExtractedFile, ...] = ()
    files: tuple[ExtractedFile, ...] = ()


class _BadAnswer(Exception):
    pass


def parse_answer(
    raw: bytes, parts: Sequence[ReceivedPart] = (), files: Sequence[ReceivedPart] = ()
) -> Extraction | Failed | Broken:
    """The outcome of an answer; a malformed one is Broken. Never raises.

    `FrameReader` has bounded how many parts and files there are, and how long.
    """
    try:
        answer = _load(raw)
        if "error" in answer:
            return _failure(answer)
        return _extraction(answer, len(raw))._replace(
            parts=tuple(_part(*part) for part in parts), files=_files(files)
        )
    except _BadAnswer as error:
        return Broken("bad-answer", f"The reading process gave an invalid answer: {error}.")


def failure(code: str, detail: str, kind: str | None = None) -> Failed | Broken:
    """The outcome with this failure code; raises KeyError if the code is unknown."""
    if code in FINAL:
        return Failed(code, plain(detail), kind)
    if code in REQUEUED:
        return Broken(code, plain(detail))
    raise KeyError(code)


def missing_bytes() -> Failed | Broken:
    """The outcome of a document whose bytes are gone."""
    return failure("corrupt", "The stored bytes of the document are missing or cannot be read.")


def over_time(limits: SandboxLimits) -> Failed | Broken:
    """The outcome of a document whose reading was ended at the time limit."""
    return failure("time-limit", f"Reading it took longer than {limits.seconds:g} s.")


def died(death: ChildDied, limits: SandboxLimits) -> Failed | Broken:
    """The outcome of the document that a child was reading when it died."""
    if death.code == "time-limit":
        return over_time(limits)
    if death.code == "memory-limit":
        return failure(death.code, out_of_memory(limits.memory))
    if death.code == WORKER_LOST:  # a child may not report this code itself
        return Broken(WORKER_LOST, f"The process that read it was killed ({death.how}).")
    return failure(death.code, f"The process that read it ended ({death.how}).")


def plain(detail: str) -> str:
    """The sentence as one line without control characters, at most 500 characters long."""
    line = " ".join(detail[: 4 * MAX_DETAIL].split())
    return "".join(c for c in line if unicodedata.category(c)[0] != "C")[:MAX_DETAIL]


def _load(raw: bytes) -> dict[str, Any]:
    _require(_is_frugal(raw), "it has too much structure")
    try:
        answer = json.loads(raw.decode("utf-8"))  # a NaN is refused with the other values
    except (ValueError, RecursionError):
        raise _BadAnswer("it is not JSON") from None
    if not isinstance(answer, dict):
        raise _BadAnswer("it is not an object")
    return answer


def _is_frugal(raw: bytes) -> bool:
    """Whether only its strings make the answer long: millions of small values fill the memory."""
    if len(raw) <= _HARMLESS_BYTES:
        return True
    without_escapes = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return len(_STRING.sub(b'""', without_escapes)) <= MAX_FACTS_BYTES


def _extraction(answer: dict[str, Any], length: int) -> Extraction:
    _require(answer.keys() == _ANSWER_KEYS, "its fields are not those of an answer")
    kind, text, markdown, facts = (answer[key] for key in ("kind", "text", "markdown", "facts"))
    _require(_is_kind(kind), "its kind is not a short token")
    _require(_is_clean(text), "its text is not clean text")
    _require(markdown is None or _is_clean(markdown), "its Markdown is not clean text")
    _require(isinstance(facts, dict), "its facts are not an object")
    _check_facts(facts)
    if length - len(text) > MAX_FACTS_BYTES // _MOST_GROWTH:
        size = len(json.dumps(facts, ensure_ascii=False).encode())
        _require(size <= MAX_FACTS_BYTES, "its facts are too long")
    return Extraction(kind, text, facts, None if markdown == text else markdown)


def _part(raw: bytes, content: PartContent) -> ExtractedFile:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise _BadAnswer("a part has no name") from None
    _require(_is_name(name), "a part has an invalid name")
    return ExtractedFile(name, content)


def _files(files: Sequence[ReceivedPart]) -> tuple[ExtractedFile, ...]:
    named = {
        name: ExtractedFile(name.decode("ascii", "replace"), content) for name, content in files
    }
    _require(len(named) == len(files), "two files have the same name")
    _require(all(map(_OUTPUT_NAME.fullmatch, named)), "a file has an invalid name")
    return tuple(named.values())


def _is_name(name: str) -> bool:
    """Whether it can be a document's name: one line, and no path."""
    if not 0 < len(name) <= MAX_NAME or name in (".", ".."):
        return False
    return not any(c in "/\\" or unicodedata.category(c) in _NO_LETTERS for c in name)


def _failure(answer: dict[str, Any]) -> Failed | Broken:
    _require(answer.keys() == _ERROR_KEYS, "its fields are not error, detail and kind")
    code, detail, kind = answer["error"], answer["detail"], answer["kind"]
    _require(isinstance(code, str) and code in FINAL | REQUEUED, "its error is not a known code")
    _require(isinstance(detail, str) and bool(plain(detail)), "its detail is not a sentence")
    _require(kind is None or _is_kind(kind), "its kind is not a short token")
    return failure(code, detail, kind)


def _is_kind(value: object) -> bool:
    return isinstance(value, str) and _KIND.fullmatch(value) is not None


def _is_clean(text: object) -> bool:
    try:
        return isinstance(text, str) and b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False


def _check_facts(facts: dict[str, Any]) -> None:
    """Refuse values that a store cannot save, deep nesting and very many values."""
    level: list[object] = [facts]
    for _ in range(MAX_DEPTH):
        level = [inner for value in level for inner in _checked_inner(value)]
        if not level:
            return
    raise _BadAnswer("its facts are nested too deeply")


def _checked_inner(value: Any) -> list[object]:
    """Check the plain values of an object or list; return the nested ones."""
    is_object = type(value) is dict
    _require(len(value) <= (MAX_KEYS if is_object else MAX_FACTS_BYTES), _INVALID_FACT)
    inner: list[object] = []
    for item in (*value, *value.values()) if is_object else value:
        kind = type(item)  # JSON has no others
        if kind is str:
            _require(_is_clean(item), _INVALID_FACT)
        elif kind is int:
            _require(abs(item) <= _MAX_INTEGER, _INVALID_FACT)
        elif kind is float:
            _require(math.isfinite(item), _INVALID_FACT)
        elif kind is dict or kind is list:
            inner.append(item)
    return inner


def _require(condition: bool, otherwise: str) -> None:  # noqa: FBT001 - reads like assert
    if not condition:
        raise _BadAnswer(otherwise)
