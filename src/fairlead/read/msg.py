"""Outlook messages (msg)."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, clean, clean_line, library
from fairlead.read.decode import decode
from fairlead.read.draft import Draft, Parts
from fairlead.read.error_guard import ATTACHMENTS, CONTENT, PROPERTIES, ErrorGuard
from fairlead.read.html import declared_encoding
from fairlead.read.mail import write_message
from fairlead.read.ole import Ole, has_stream, open_ole
from fairlead.read.rtf import write_rtf
from fairlead.read.text_writer import TextWriter

# Numbers of properties
_SUBJECT, _BODY, _HTML, _RTF = "0037", "1000", "1013", "1009"
_FROM, _ADDRESS, _SMTP, _TO, _CC = "0C1A", "0C1F", "5D01", "0E04", "0E03"
_DATA, _LONG_NAME, _SHORT_NAME, _DISPLAY_NAME = "3701", "3707", "3704", "3001"
_SENT, _DELIVERED, _CREATED = 0x0039, 0x0E06, 0x3007
_CODEPAGE = 0x3FFD
_MAX_DEPTH = 5  # of messages within messages
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_MAX_TICKS = 2_650_467_744_000_000_000  # the year 10000

# Rich Text is compressed with LZFu, whose dictionary begins with this text.
_LZFU_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
    rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_LZFU_WINDOW = 4_096


def _read(source: Source, task: Task) -> Extracted:
    """Subject, sender, receivers, date and the body; attachments become parts."""
    draft = Draft("msg", library("olefile"), task.limits)
    with open_ole(source, task) as ole:
        message = _Message(ole, (), draft.guard)
        headers: dict[str, str] = {}
        with draft.guard(PROPERTIES):
            headers = message.headers()
            draft.created(message.time())
        draft.fact("title", headers.get("Subject"))
        draft.fact("author", headers.get("From"))
        parts = Parts(draft)
        with draft.guard(ATTACHMENTS):
            for folder in message.attachment_folders():
                with draft.guard(ATTACHMENTS):
                    parts.add(*message.attachment(folder, 0))
        parts.finish()
        write_message(headers, message.bodies(task), draft)
    return draft.finish()


class _Message:
    """A message, a message within it, or an attachment."""

    def __init__(self, ole: Ole, path: tuple[str, ...], guard: ErrorGuard) -> None:
        self._ole = ole
        self._path = path
        self._guard = guard
        self._fixed = self._fixed_properties()

    def headers(self) -> dict[str, str]:
        name = self.text(_FROM)
        address = self.text(_SMTP) or self.text(_ADDRESS)
        has_address = "@" in address and address not in name
        time = self.time()
        values = {
            "Subject": self.text(_SUBJECT),
            "From": f"{name} <{address}>".strip() if has_address else name or address,
            "To": self.text(_TO),
            "Cc": self.text(_CC),
            "Date": time.isoformat(sep=" ", timespec="seconds") if time else "",
        }
        return {key: line for key, value in values.items() if (line := clean_line(value))}

    def time(self) -> datetime | None:
        for key in (_SENT, _DELIVERED, _CREATED):
            ticks = self._fixed.get(key, 0)
            if 0 < ticks < _MAX_TICKS:
                return _EPOCH + timedelta(microseconds=ticks // 10)
        return None

    def bodies(self, task: Task) -> list[tuple[str, bool]]:
        """Return each form of the body: a text, and whether it is HTML; plain text is first."""
        plain = html = rich = ""
        with self._guard(CONTENT):
            plain = self.text(_BODY)
        with self._guard(CONTENT):
            html = self._html()
        with self._guard(CONTENT):
            rich = "" if plain.strip() or html.strip() else self._rich_text(task)
        return [
            (plain, False),
            *([(html, True)] if html else []),
            *([(rich, False)] if rich else []),
        ]

    def _html(self) -> str:
        html = self.binary(_HTML)
        return decode(html, declared=declared_encoding(html)).text if html else self.text(_HTML)

    def _rich_text(self, task: Task) -> str:
        rtf = self.binary(_RTF)
        draft = Draft("rtf", "", task.limits)
        writer = TextWriter(draft, gap=1)
        write_rtf(_decompress_rtf(rtf, task.limits.characters) if rtf else b"", writer)
        writer.close()
        return draft.text.whole()

    def attachment_folders(self) -> list[str]:
        """Return the storages of the attachments."""
        level = len(self._path)
        inside = [path for path in self._ole.names() if tuple(path[:level]) == self._path]
        folders = sorted({path[level] for path in inside})
        return [folder for folder in folders if folder.startswith("__attach_version1.0_")]

    def attachment(self, folder: str, depth: int) -> tuple[str, bytes]:
        """Return the name and content of an attachment; a message becomes an e-mail."""
        inner = _Message(self._ole, (*self._path, folder), self._guard)
        name = inner.text(_LONG_NAME) or inner.text(_SHORT_NAME) or inner.text(_DISPLAY_NAME)
        content = inner.binary(_DATA)
        if not content and depth < _MAX_DEPTH:
            content = self._attached_message(folder, depth)
            name = f"{name or 'message'}.eml" if content else name
        return name or "attachment", content

    def _attached_message(self, folder: str, depth: int) -> bytes:
        path = (*self._path, folder, f"__substg1.0_{_DATA}000D")
        if not any(tuple(name[: len(path)]) == path for name in self._ole.names()):
            return b""
        return _Message(self._ole, path, self._guard).as_mail(depth + 1)

    def as_mail(self, depth: int) -> bytes:
        """Return the message as a MIME message."""
        mail = EmailMessage(policy=SMTP)
        for name, value in self.headers().items():
            if name in ("Subject", "To", "From"):
                mail[name] = value
        time = self.time()
        if time:
            mail["Date"] = time
        for index, (text, is_html) in enumerate(self.bodies(Task())):
            if index == 0:
                mail.set_content(clean(text))
            elif is_html:
                mail.add_alternative(clean(text), subtype="html")
        for name, content in (self.attachment(f, depth) for f in self.attachment_folders()):
            mail.add_attachment(content, "application", "octet-stream", filename=clean_line(name))
        return mail.as_bytes()

    def text(self, key: str) -> str:
        """Return a text property, which is UTF-16 or in a code page."""
        wide = self._stream(key, "001F")
        if wide:
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self._stream(key, "001E").rstrip(b"\0")
        codepage = self._fixed.get(_CODEPAGE, 0) & 0xFFFF
        return decode(narrow, declared=f"cp{codepage}" if codepage else None).text

    def binary(self, key: str) -> bytes:
        return self._stream(key, "0102")

    def _stream(self, key: str, form: str) -> bytes:
        return self._ole.stream(*self._path, f"__substg1.0_{key}{form}")

    def _fixed_properties(self) -> dict[int, int]:
        data = self._ole.stream(*self._path, "__properties_version1.0")
        # The length of the header depends on where the message is.
        start = 32 if not self._path else 24 if self._path[-1].startswith("__substg") else 8
        records = (struct.unpack_from("<HHIQ", data, at) for at in range(start, len(data) - 15, 16))
        return {key: value for _, key, _, value in records}


def _decompress_rtf(data: bytes, limit: int) -> bytes:
    """Return at most `limit` bytes of Rich Text; empty if the data is not LZFu."""
    form = data[8:12]
    if len(data) >= 16 and form == b"MELA":  # stored without compression
        return data[16 : 16 + limit]
    if len(data) < 16 or form != b"LZFu":
        return b""
    (size,) = struct.unpack_from("<I", data, 4)
    return _decompress_lzfu(data[16:], min(size, limit))


def _decompress_lzfu(data: bytes, size: int) -> bytes:
    out = bytearray(_LZFU_DICTIONARY)
    first = len(out)
    at = 0
    while at < len(data) and len(out) < size + first:
        control = data[at]
        at += 1
        for bit in range(8):
            if control >> bit & 1:
                at, ended = _copy(data, at, out)
                if ended:
                    return bytes(out[first:])
            elif at < len(data):
                out.append(data[at])
                at += 1
    return bytes(out[first : first + size])


def _copy(data: bytes, at: int, out: bytearray) -> tuple[int, bool]:
    """Repeat earlier output; return the next position and whether this is the end."""
    if at + 2 > len(data):
        return at, True
    (pair,) = struct.unpack_from(">H", data, at)
    place, length = pair >> 4, (pair & 15) + 2
    here = len(out) % _LZFU_WINDOW
    if place == here:
        return at + 2, True
    start = max(0, len(out) - (here - place) % _LZFU_WINDOW)
    for index in range(start, start + length):
        out.append(out[index])
    return at + 2, False


READER = Reader(
    "msg", Rank.SIGNATURE, lambda source: has_stream(source, "__properties_version1.0"), _read
)
