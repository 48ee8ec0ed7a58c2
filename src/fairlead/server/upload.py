"""Uploads: multipart bodies that are written to disk as they arrive."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from multipart import (
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
    parse_options_header,
)
from starlette.requests import ClientDisconnect, Request

from fairlead.config.settings import Settings
from fairlead.errors import Message
from fairlead.intake import check_name, check_not_empty
from fairlead.model.ports import Incoming
from fairlead.server.context import ServerContext
from fairlead.server.problems import Problem

MOST_FIELDS = 10
LONGEST_FIELD = 1000
LONGEST_HEADER = 4096
MOST_HEADERS = 8
_DISPOSITION = "Content-Disposition"
_ENCODED_NAME = re.compile(r"; *filename\* *= *utf-8'[^']*'([^;\s]+)", re.IGNORECASE)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass
class Upload:
    """The files and fields that have arrived so far."""

    settings: Settings
    files: list[tuple[Incoming, str]] = field(default_factory=list)
    fields: dict[str, bytes] = field(default_factory=dict)
    current: Incoming | str | None = None

    @property
    def urgent(self) -> bool:
        """Whether the documents go before others of their customer."""
        if "urgent" not in self.fields:
            return False
        value = self.fields["urgent"].decode("utf-8", "replace").strip().lower()
        if value not in _TRUTH:
            raise Problem("invalid-upload", Message("the field urgent must be true or false"))
        return _TRUTH[value]

    @property
    def password(self) -> str | None:
        """What opens the documents, if they are encrypted."""
        value = self.fields.get("password")
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            raise Problem("invalid-upload", Message("the field password must be UTF-8")) from None

    def discard(self) -> None:
        """Leave nothing behind."""
        for file, _ in self.files:
            file.discard()


async def read_upload(request: Request, context: ServerContext) -> Upload:
    """The whole upload; raises a problem and leaves nothing behind when it is wrong."""
    upload = Upload(context.settings())
    try:
        parser = _parser(request, upload.settings)
        await _read(request, context, parser, upload)
        _check(upload)
    except MultipartError as error:
        upload.discard()
        raise Problem("invalid-upload", f"malformed multipart body: {_reason(error)}") from None
    except ClientDisconnect:
        upload.discard()
        raise Problem("invalid-upload", "the connection ended before the body did") from None
    except BaseException:
        upload.discard()
        raise
    return upload


def _reason(error: MultipartError) -> str:
    if any(isinstance(argument, UnicodeDecodeError) for argument in error.args):
        return "the headers of a part must be UTF-8"
    return str(error.args[0]) if error.args else "unknown"


def _parser(request: Request, settings: Settings) -> PushMultipartParser:
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    if media_type != "multipart/form-data":
        raise Problem(
            "unsupported-media-type",
            Message(
                "send documents as multipart/form-data, in fields named file; got {type}",
                type=repr(media_type[:100]),
            ),
        )
    return PushMultipartParser(
        options.get("boundary", ""),
        max_header_size=LONGEST_HEADER,
        max_header_count=MOST_HEADERS,
        max_segment_count=settings.max_upload_files + MOST_FIELDS,
    )


async def _read(
    request: Request, context: ServerContext, parser: PushMultipartParser, upload: Upload
) -> None:
    more_body = True
    while more_body:
        message = await request.receive()  # `stream` would do the same, for one more layer
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        more_body = message.get("more_body", False)
        if message["body"]:
            await _take(message["body"], context, parser, upload)
    parser.close()


async def _take(
    chunk: bytes, context: ServerContext, parser: PushMultipartParser, upload: Upload
) -> None:
    for part in parser.parse(chunk):
        if isinstance(part, MultipartSegment):
            _begin(part, context, upload)
        elif part is None:
            upload.current = None
        elif _add(bytes(part), upload) and not isinstance(upload.current, str | None):
            await _flushed(context, upload.current)


async def _flushed(context: ServerContext, file: Incoming) -> None:
    """Flush the file; a cancelled request waits for the end, so that nothing closes it before."""
    flushing = asyncio.ensure_future(context.ask(file.flush))
    try:
        await asyncio.shield(flushing)
    except asyncio.CancelledError:
        await asyncio.wait([flushing])
        raise


def _begin(part: MultipartSegment, context: ServerContext, upload: Upload) -> None:
    if part.name == "file":
        if len(upload.files) >= upload.settings.max_upload_files:
            raise Problem(
                "invalid-upload",
                Message(
                    "a request may have at most {most} files; send several requests",
                    most=upload.settings.max_upload_files,
                ),
            )
        name = check_name(_encoded_name(part) or part.filename or "document")
        upload.current = context.fairlead.intake.begin()
        upload.files.append((upload.current, name))
    elif part.name in ("urgent", "password"):
        upload.current = part.name
        upload.fields[part.name] = b""
    else:
        raise Problem(
            "invalid-upload",
            Message(
                "the fields are file, urgent and password; got {name}",
                name=repr(str(part.name)[:100]),
            ),
        )


def _encoded_name(part: MultipartSegment) -> str | None:
    """The name in `filename*`, which forms should not use and some clients send all the same."""
    dispositions = [value for key, value in part.headerlist if key == _DISPOSITION]
    match = _ENCODED_NAME.search(_QUOTED.sub('""', dispositions[-1]))
    if match is None:
        return None
    try:
        return unquote(match[1], errors="strict")
    except UnicodeDecodeError:
        raise Problem("invalid-upload", "filename* must be UTF-8") from None


def _add(chunk: bytes, upload: Upload) -> bool:
    """Add a piece; True when the file should be written to disk."""
    if isinstance(upload.current, str):
        value = upload.fields[upload.current] + chunk
        if len(value) > LONGEST_FIELD:
            raise Problem(
                "invalid-upload", Message("the field {name} is too long", name=upload.current)
            )
        upload.fields[upload.current] = value
        return False
    if upload.current is None:
        return False
    is_full = upload.current.add(chunk)
    limit = upload.settings.max_document_bytes
    if upload.current.size > limit:
        raise Problem(
            "too-large",
            Message("a document may have at most {bytes} bytes; send a smaller one", bytes=limit),
        )
    return is_full


def _check(upload: Upload) -> None:
    if not upload.files:
        raise Problem(
            "invalid-upload",
            Message("the request has no document; send at least one field named file"),
        )
    for file, name in upload.files:
        check_not_empty(file.size, name)
