"""Outlook messages (msg)."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, clean, clean_line, library
from fairlead.read.decode import decode
from fairlead.read.draft import Draft, Parts
from fairlead.read.html import declared_encoding
from fairlead.read.mail import write_message
from fairlead.read.ole import Ole, open_ole
from fairlead.read.rtf import write_rtf
from fairlead.read.text_writer import TextWriter

_SUBJECT, _BODY, _HTML, _RTF = "0037", "1000", "1013", "1009"
_FROM, _ADDRESS, _SMTP, _TO, _CC = "0C1A", "0C1F", "5D01", "0E04", "0E03"
_DATA, _LONG_NAME, _SHORT_NAME, _SHOWN_NAME = "3701", "3707", "3704", "3001"
_SENT, _DELIVERED, _CREATED = 0x0039, 0x0E06, 0x3007
_CODEPAGE = 0x3FFD
_MAX_DEPTH = 5  # of messages within messages
_START = datetime(1601, 1, 1, tzinfo=UTC)


def recognises(source: Source) -> bool:
    """Whether it is a compound file with the properties of a message."""
    return source.has_ole_stream("__properties_version1.0")


def read(source: Source, task: Task) -> Extracted:
    """Subject, sender, receivers, date and the body; attachments become parts."""
    draft = Draft("msg", library("olefile"), task.limits)
    with open_ole(source, task) as ole:
        message = _Message(ole, ())
        shown = message.shown()
        draft.fact("title", shown.get("Subject"))
        draft.fact("author", shown.get("From"))
        draft.created(message.moment())
        parts = Parts(draft)
        for name, content in message.attachments(0):
            parts.add(name, content)
        parts.finish()
        write_message(shown, message.bodies(draft), draft)
    return draft.finish()


class _Message:
    """A message or one within it, by the numbers of its properties."""

    def __init__(self, ole: Ole, place: tuple[str, ...]) -> None:
        self._ole = ole
        self._place = place
        self._fixed = self._fixed_properties()

    def shown(self) -> dict[str, str]:
        """The headers that people see."""
        name = self.text(_FROM)
        address = self.text(_SMTP) or self.text(_ADDRESS)
        known = "@" in address and address not in name
        moment = self.moment()
        values = {
            "Subject": self.text(_SUBJECT),
            "From": f"{name} <{address}>".strip() if known else name or address,
            "To": self.text(_TO),
            "Cc": self.text(_CC),
            "Date": moment.isoformat(sep=" ", timespec="seconds") if moment else "",
        }
        return {key: line for key, value in values.items() if (line := clean_line(value))}

    def moment(self) -> datetime | None:
        """When it was sent."""
        for key in (_SENT, _DELIVERED, _CREATED):
            ticks = self._fixed.get(key, 0)
            if 0 < ticks < 2_650_467_744_000_000_000:  # the year 10000
                return _START + timedelta(microseconds=ticks // 10)
        return None

    def bodies(self, draft: Draft) -> list[tuple[str, bool]]:
        """The body in each form it has: the text, and whether it is HTML."""
        found = [(self.text(_BODY), False)]
        html = self.binary(_HTML)
        if html:
            found.append((decode(html, declared=declared_encoding(html)).text, True))
        elif self.text(_HTML):
            found.append((self.text(_HTML), True))
        rich = self.binary(_RTF)
        if rich and not any(text.strip() for text, _ in found):
            found.append((_rich_text(rich, draft), False))
        return found

    def attachments(self, depth: int) -> list[tuple[str, bytes]]:
        """The name and content of each attachment; a message within becomes a mail."""
        folders = sorted(
            {
                path[len(self._place)]
                for path in self._ole.names()
                if tuple(path[: len(self._place)]) == self._place
                and path[len(self._place)].startswith("__attach_version1.0_")
            }
        )
        found = []
        for folder in folders:
            inner = _Message(self._ole, (*self._place, folder))
            name = inner.text(_LONG_NAME) or inner.text(_SHORT_NAME) or inner.text(_SHOWN_NAME)
            content = inner.binary(_DATA)
            if not content and depth < _MAX_DEPTH:
                content = self._within(folder, depth)
                name = f"{name or 'message'}.eml" if content else name
            found.append((name or "attachment", content))
        return found

    def _within(self, folder: str, depth: int) -> bytes:
        place = (*self._place, folder, f"__substg1.0_{_DATA}000D")
        if not any(tuple(path[: len(place)]) == place for path in self._ole.names()):
            return b""
        return _Message(self._ole, place).as_mail(depth + 1)

    def as_mail(self, depth: int) -> bytes:
        """The message in the form that other programs read."""
        mail = EmailMessage(policy=SMTP)
        for name, value in self.shown().items():
            if name in ("Subject", "To", "From"):
                mail[name] = _header(value)
        moment = self.moment()
        if moment:
            mail["Date"] = moment
        limits = Draft("msg", "", Task().limits)
        for index, (text, is_html) in enumerate(self.bodies(limits)):
            if index == 0:
                mail.set_content(clean(text))
            elif is_html:
                mail.add_alternative(clean(text), subtype="html")
        for name, content in self.attachments(depth):
            mail.add_attachment(content, "application", "octet-stream", filename=clean_line(name))
        return mail.as_bytes()

    def text(self, key: str) -> str:
        """A property that is text, in either of its two forms."""
        wide = self._stream(key, "001F")
        if wide:
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self._stream(key, "001E").rstrip(b"\0")
        codepage = self._fixed.get(_CODEPAGE, 0) & 0xFFFF
        return decode(narrow, declared=f"cp{codepage}" if codepage else None).text

    def binary(self, key: str) -> bytes:
        """A property that is bytes."""
        return self._stream(key, "0102")

    def _stream(self, key: str, form: str) -> bytes:
        return self._ole.stream(*self._place, f"__substg1.0_{key}{form}")

    def _fixed_properties(self) -> dict[int, int]:
        data = self._ole.stream(*self._place, "__properties_version1.0")
        # Before the properties stands a header, whose length depends on where the message is.
        start = 32 if not self._place else 24 if self._place[-1].startswith("__substg") else 8
        found = {}
        for at in range(start, len(data) - 15, 16):
            _, key, _, value = struct.unpack_from("<HHIQ", data, at)
            found[key] = value
        return found


def _header(value: str) -> str:
    # An address list that is none must not stop the rest.
    return value.replace("\n", " ").replace("\r", " ")


def _rich_text(rich: bytes, draft: Draft) -> str:
    scratch = Draft("rtf", "", draft.limits)
    writer = TextWriter(scratch, gap=1)
    write_rtf(unpacked(rich, draft.limits.characters), writer)
    writer.close()
    return scratch.text.whole()


READER = Reader("msg", Rank.SIGNATURE, recognises, read)


_BEGUN = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
    rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_PACKED, _STORED = b"LZFu", b"MELA"
_WINDOW = 4_096


def unpacked(data: bytes, limit: int) -> bytes:
    """The Rich Text, at most `limit` bytes of it; empty where the data is no such thing."""
    if len(data) < 16:
        return b""
    if data[8:12] == _STORED:
        return data[16 : 16 + limit]
    if data[8:12] != _PACKED:
        return b""
    (size,) = struct.unpack_from("<I", data, 4)
    return _unpack(data[16:], min(size, limit))


def _unpack(data: bytes, size: int) -> bytes:
    out = bytearray(_BEGUN)
    at = 0
    while at < len(data) and len(out) < size + len(_BEGUN):
        control = data[at]
        at += 1
        for bit in range(8):
            if control >> bit & 1:
                at, ended = _copy(data, at, out)
                if ended:
                    return bytes(out[len(_BEGUN) :])
            elif at < len(data):
                out.append(data[at])
                at += 1
    return bytes(out[len(_BEGUN) : len(_BEGUN) + size])


def _copy(data: bytes, at: int, out: bytearray) -> tuple[int, bool]:
    """Repeat what stood before; True: this is the end."""
    if at + 2 > len(data):
        return at, True
    (pair,) = struct.unpack_from(">H", data, at)
    place, length = pair >> 4, (pair & 15) + 2
    here = len(out) % _WINDOW
    if place == here:
        return at + 2, True
    start = len(out) - (here - place) % _WINDOW
    for index in range(max(0, start), max(0, start) + length):
        out.append(out[index])
    return at + 2, False
