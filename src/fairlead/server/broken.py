"""What is wrong with a multipart body, in words that other languages can say."""

from __future__ import annotations

from collections.abc import Callable

from multipart import MultipartError

from fairlead.errors import Message

LONGEST_HEADER = 4096
MOST_HEADERS = 8


def _no_boundary() -> Message:
    return Message("Content-Type must name the boundary between the parts")


def _boundary_missed() -> Message:
    return Message("the boundary that Content-Type names does not stand alone before each part")


def _no_header() -> Message:
    return Message("a header of a part is not one")


def _wrong_length() -> Message:
    return Message("a part is not as long as its Content-Length says")


def _no_name() -> Message:
    return Message("each part needs the header Content-Disposition: form-data, with a name")


_SAID: dict[str, Callable[[], Message]] = {
    "Empty boundary": _no_boundary,
    "Invalid characters in boundary": _no_boundary,
    "Boundary too long": _no_boundary,
    "Unexpected byte in front of first boundary": _boundary_missed,
    "Invalid line break after first boundary": _boundary_missed,
    "Unexpected byte after first boundary": _boundary_missed,
    "Boundary not found in first chunk": _boundary_missed,
    "Unexpected bytes after boundary": _boundary_missed,
    "Unexpected end of multipart stream (parser closed)": lambda: Message(
        "it ends before its last boundary"
    ),
    "Maximum segment count exceeded": lambda: Message("it has too many parts"),
    "Maximum segment header length exceeded": lambda: Message(
        "a header of a part may have {bytes} bytes", bytes=LONGEST_HEADER
    ),
    "Maximum segment header count exceeded": lambda: Message(
        "a part may have {most} headers", most=MOST_HEADERS
    ),
    "Invalid line break in segment header": _no_header,
    "Unexpected segment header continuation": _no_header,
    "Malformed segment header": _no_header,
    "Invalid segment header name": _no_header,
    "Multiple segment Content-Length headers": _wrong_length,
    "Invalid segment Content-Length header value": _wrong_length,
    "Segment Content-Length exceeded": _wrong_length,
    "Segment size does not match Content-Length header": _wrong_length,
    "Missing Content-Disposition segment header": _no_name,
    "Invalid Content-Disposition segment header: Wrong type": _no_name,
    "Invalid Content-Disposition segment header: Missing name option": _no_name,
}
"""By what the parser says; a test goes through all that it can say to us."""


def what_is_broken(error: MultipartError) -> Message:
    """What the parser found, for whoever sent it."""
    if any(isinstance(each, UnicodeDecodeError) for each in error.args):
        return not_unicode()
    make = _SAID.get(str(error.args[0]) if error.args else "")
    if make is None:
        return Message("the multipart body is broken; send it as multipart/form-data")
    return Message("the multipart body is broken: {why}", why=make())


def not_unicode() -> Message:
    """Of headers of a part, or what they say, that are not in Unicode."""
    return Message("the headers of a part, and the file's name in them, must be UTF-8")
