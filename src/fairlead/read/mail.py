"""E-mail messages, parsed by the standard library."""

from __future__ import annotations

import email
import email.policy
import email.utils
import platform
import re
from collections.abc import Iterator
from datetime import datetime
from email.message import EmailMessage

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, clean, clean_line
from fairlead.read.decode import decode
from fairlead.read.draft import Draft, Parts, safe_name
from fairlead.read.error_guard import ATTACHMENTS, CONTENT, PROPERTIES, UNREAD, PartName
from fairlead.read.html import write_markup
from fairlead.read.text_writer import TextWriter

_MAX_DEPTH = 50  # of parts within parts
_MAX_PARSED = 20_000  # parsing a list of addresses takes time that grows with its square
_HEADERS = ("Subject", "From", "To", "Cc", "Date")
_HEADER = re.compile(rb"([!-9;-~]+):")
_MBOX = re.compile(rb"From \S+ .*\r?\n")
_ADDRESS = re.compile(rb"^from:[^\r\n]*[^\s@<]@[\w-]+", re.IGNORECASE | re.MULTILINE)
_ORIGIN = frozenset([b"from", b"received", b"return-path", b"sender"])
_TECHNICAL = frozenset(
    [b"message-id", b"received", b"mime-version", b"return-path", b"dkim-signature"]
)
_USUAL = _ORIGIN | _TECHNICAL | frozenset([b"to", b"cc", b"subject", b"date", b"content-type"])


def _recognises(source: Source) -> bool:
    """Recognise a document whose first block consists of the header lines of a message.

    A memo with From and Subject is a text, unless it also has an address or a technical header.
    """
    head = source.head.removeprefix(b"\xef\xbb\xbf")
    mbox = _MBOX.match(head)
    block = re.split(rb"\r?\n\r?\n", head[mbox.end() if mbox else 0 :], maxsplit=1)[0]
    names = _header_names(block)
    return (
        len(names & _USUAL) >= 2
        and bool(names & _ORIGIN)
        and bool(names & _TECHNICAL or _ADDRESS.search(block))
    )


def _read(source: Source, task: Task) -> Extracted:
    """Subject, sender, receivers, date and the body; attachments become parts."""
    message = email.message_from_bytes(source.read(source.size), policy=email.policy.default)
    draft = Draft("email", f"Python email {platform.python_version()}", task.limits)
    headers: dict[str, str] = {}
    with draft.guard(PROPERTIES):
        headers = {name: value for name in _HEADERS if (value := _value(message, name))}
        draft.created(_date(message))
    draft.fact("title", headers.get("Subject"))
    draft.fact("author", headers.get("From"))
    parts = Parts(draft)
    bodies = []
    for leaf in list(_leaves(message, draft)):
        name = None
        with draft.guard(ATTACHMENTS):
            name = _attachment_name(leaf)
        if name:
            with draft.guard(UNREAD, PartName("attachment", safe_name(name))):
                parts.add(name, _content(leaf))
            continue
        with draft.guard(CONTENT):
            text = decode(_content(leaf), declared=leaf.get_content_charset()).text
            bodies.append((text, leaf.get_content_type() == "text/html"))
    parts.finish()
    write_message(headers, bodies, draft)
    return draft.finish()


def write_message(headers: dict[str, str], bodies: list[tuple[str, bool]], draft: Draft) -> None:
    """Write headers and body; each body is a text and whether it is HTML. Plain is preferred."""
    writer = TextWriter(draft)
    with draft.guard(CONTENT):
        writer.write("\n".join(f"{name}: {value}" for name, value in headers.items()))
        writer.part()
    plain = [text for text, is_html in bodies if not is_html and text.strip()]
    for text in plain or [text for text, is_html in bodies if is_html]:
        with draft.guard(CONTENT):
            writer.part()
        with draft.guard(CONTENT):
            (_write_plain if plain else write_markup)(text, writer)
    with draft.guard(CONTENT):
        writer.close()


def _write_plain(text: str, writer: TextWriter) -> None:
    # The paragraphs of plain text are also those of Markdown.
    for paragraph in re.split(r"\n[ \t]*\n", clean(text)):
        with writer.draft.guard(CONTENT):
            writer.write(paragraph)
            writer.begin()


def _header_names(block: bytes) -> frozenset[bytes]:
    """Return the names of the headers in lower case; none if any line is not a header line."""
    names = set()
    for line in block.splitlines():
        if match := _HEADER.match(line):
            names.add(match[1].lower())
        elif not names or line[:1] not in (b" ", b"\t"):
            return frozenset()
    return frozenset(names)


def _value(message: EmailMessage, name: str) -> str:
    raw = next((str(v) for k, v in message.raw_items() if k.lower() == name.lower()), "")
    if len(raw) > _MAX_PARSED:
        return clean_line(raw)
    try:
        return clean_line(str(message.get(name, "")))
    except Exception:
        # The standard library's parser of structured headers fails on some malformed ones.
        return clean_line(raw)


def _date(message: EmailMessage) -> datetime | None:
    try:
        return email.utils.parsedate_to_datetime(str(message.get("Date", "")))
    except Exception:
        # The same parser; and dates are often malformed.
        return None


def _leaves(message: EmailMessage, draft: Draft) -> Iterator[EmailMessage]:
    """Yield the parts that have content. A forwarded message is one: it is an attachment."""
    waiting = [(message, 0)]
    while waiting:
        part, depth = waiting.pop()
        payload = part.get_payload()
        if part.get_content_maintype() != "multipart" or not isinstance(payload, list):
            yield part
        elif depth < _MAX_DEPTH:
            inner = [p for p in reversed(payload) if isinstance(p, EmailMessage)]
            waiting.extend((p, depth + 1) for p in inner)
        else:
            draft.warn(f"some parts were left out: they are nested more than {_MAX_DEPTH} deep")


def _attachment_name(part: EmailMessage) -> str | None:
    """Return the name of an attachment; None for a part of the body."""
    try:
        name = part.get_filename()
        attached = bool(name) or part.get_content_disposition() == "attachment"
    except Exception:
        # The same parser: a malformed header.
        name, attached = None, True
    is_text = part.get_content_maintype() in ("text", "multipart")
    if attached or not is_text:
        return clean_line(name or "") or _default_name(part)
    return None


def _default_name(part: EmailMessage) -> str:
    if part.get_content_type() == "message/rfc822":
        return f"{_value(_inner(part), 'Subject').replace('/', ' ') or 'message'}.eml"
    return f"attachment.{re.sub(r'[^a-z0-9]', '', part.get_content_subtype())[:10] or 'bin'}"


def _inner(part: EmailMessage) -> EmailMessage:
    payload = part.get_payload()
    first = payload[0] if isinstance(payload, list) and payload else None
    return first if isinstance(first, EmailMessage) else EmailMessage()


def _content(part: EmailMessage) -> bytes:
    if part.get_content_maintype() == "message":
        return _inner(part).as_bytes() if part.get_content_type() == "message/rfc822" else b""
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


READER = Reader("email", Rank.STRUCTURE, _recognises, _read)
