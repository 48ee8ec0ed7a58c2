"""E-mail messages, by the standard library."""

from __future__ import annotations

import email
import email.policy
import platform
import re
from collections.abc import Iterator
from email.message import EmailMessage

from fairlead.work.extract.base import JSON, Draft, Extracted, Rank, Reader, Source, clean_line
from fairlead.work.extract.decode import decode
from fairlead.work.extract.html import add_markup

_MAX_NAMES = 100
_MAX_PARSED = 20_000  # parsing a list of addresses takes time that grows with its square
_MAX_NAME_CHARACTERS = 120
_SHOWN = ("Subject", "From", "To", "Cc", "Date")
_HEADER = re.compile(rb"([!-9;-~]+):")
_MBOX = re.compile(rb"From \S+ .*\r?\n")
_ADDRESS = re.compile(rb"^from:[^\r\n]*[^\s@<]@[\w-]+", re.IGNORECASE | re.MULTILINE)
_ORIGIN = frozenset([b"from", b"received", b"return-path", b"sender"])
_MACHINE = frozenset(
    [b"message-id", b"received", b"mime-version", b"return-path", b"dkim-signature"]
)
_USUAL = _ORIGIN | _MACHINE | frozenset([b"to", b"cc", b"subject", b"date", b"content-type"])


def recognises(source: Source) -> bool:
    """Whether the document begins with the header lines of a message and nothing else.

    A memo with From and Subject is a text, unless an address or a machine's line is there too.
    """
    head = source.head.removeprefix(b"\xef\xbb\xbf")
    mbox = _MBOX.match(head)
    block = re.split(rb"\r?\n\r?\n", head[mbox.end() if mbox else 0 :], maxsplit=1)[0]
    names = _header_names(block)
    return (
        len(names & _USUAL) >= 2
        and bool(names & _ORIGIN)
        and bool(names & _MACHINE or _ADDRESS.search(block))
    )


def read(source: Source, max_characters: int) -> Extracted:
    """Subject, sender, receivers, date and the body; plain text is preferred to HTML."""
    message = email.message_from_bytes(source.read(source.size), policy=email.policy.default)
    draft = Draft("email", f"Python email {platform.python_version()}", max_characters)
    shown = {name: value for name in _SHOWN if (value := _value(message, name))}
    draft.fact("title", shown.get("Subject"))
    draft.fact("author", shown.get("From"))
    draft.add("".join(f"{name}: {value}\n" for name, value in shown.items()))
    parts = list(_leaves(message))
    _add_names([name for part in parts if (name := _attachment(part))], draft)
    _add_body([part for part in parts if not _attachment(part)], draft)
    return draft.finish()


def _header_names(block: bytes) -> frozenset[bytes]:
    """The names of the headers in lower case; none where some line is no header line."""
    names = set()
    for line in block.splitlines():
        found = _HEADER.match(line)
        if found:
            names.add(found[1].lower())
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
        # The standard library's parser of structured headers gives up on some malformed ones.
        return clean_line(raw)


def _leaves(message: EmailMessage) -> Iterator[EmailMessage]:
    """The parts that have content. A forwarded message counts as one: it is an attachment."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        payload = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(payload, list):
            waiting.extend(p for p in reversed(payload) if isinstance(p, EmailMessage))
        else:
            yield part


def _attachment(part: EmailMessage) -> str | None:
    """The name of an attachment; None for a part of the body."""
    try:
        name = part.get_filename()
        attached = bool(name) or part.get_content_disposition() == "attachment"
    except Exception:
        # As above: a malformed header.
        name, attached = None, True
    is_text = part.get_content_maintype() in ("text", "multipart")
    if attached or not is_text:
        return clean_line(name or "")[:_MAX_NAME_CHARACTERS] or f"({part.get_content_type()})"
    return None


def _add_names(names: list[str], draft: Draft) -> None:
    kept: list[JSON] = [*names[:_MAX_NAMES]]
    draft.fact("attachments", kept)
    if names:
        draft.warn(f"{len(names)} attachment(s) were not read")


def _add_body(parts: list[EmailMessage], draft: Draft) -> None:
    plain = [text for part in parts if not _is_html(part) and (text := _text(part)).strip()]
    for text in plain:
        draft.add(f"\n{text}")
    if plain:
        return
    for part in filter(_is_html, parts):
        draft.add("\n")
        add_markup(_text(part), draft, titled=False)


def _is_html(part: EmailMessage) -> bool:
    return part.get_content_type() == "text/html"


def _text(part: EmailMessage) -> str:
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    return decode(data, declared=part.get_content_charset()).text


READER = Reader("email", Rank.STRUCTURE, recognises, read)
