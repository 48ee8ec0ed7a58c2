"""Uploads: multipart bodies that are written to disk as they arrive."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from fairlead.config.settings import Settings
from fairlead.errors import Message
from fairlead.intake import check_not_empty
from fairlead.model.blobs import IncomingBlob
from fairlead.model.names import check_name
from fairlead.server.context import ServerContext, check_parameters
from fairlead.server.problems import Problem

MAX_FIELDS = 10
FIELD_BYTES = {
    "customer": 1000,
    "urgent": 10,
    "password": 1000,
    "pipeline": 100,
    "metadata": 16_384,
    "reference": 1000,
    "not_before": 100,
    "batch": 100,
}
"""The fields beside `file`, and how many bytes each may have, in any way to write it."""
MAX_HEADER_BYTES = 4096
MAX_HEADERS = 8
RAW_FIELDS = ("name", *(name for name in FIELD_BYTES if name != "password"))
"""Query parameters of a raw body. Logs show addresses, so a password needs a form."""
_DISPOSITION = "Content-Disposition"
_ENCODED_NAME = re.compile(r"; *filename\* *= *utf-8'[^']*'([^;\s]+)", re.IGNORECASE)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass
class Upload:
    """The files and fields that have arrived so far."""

    settings: Settings
    files: list[tuple[IncomingBlob, str]] = field(default_factory=list)
    fields: dict[str, bytes] = field(default_factory=dict)
    current: IncomingBlob | str | None = None

    def texts(self) -> dict[str, str]:
        """The fields beside the files."""
        texts = {}
        for name, value in self.fields.items():
            try:
                texts[name] = value.decode()
            except UnicodeDecodeError:
                text = f"the field {name} must be UTF-8"
                raise Problem("invalid-upload", text) from None
        return texts

    def discard(self) -> None:
        for file, _ in self.files:
            file.discard()


async def read_upload(request: Request, context: ServerContext) -> Upload:
    """The whole upload; raises a problem and leaves nothing behind when it is wrong.

    It is a form or, where the query names it, the bytes of one document.
    """
    upload = Upload(context.settings())
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    is_raw = media_type != "multipart/form-data" and "name" in request.query_params
    if request.scope["query_string"]:
        check_parameters(request.query_params, RAW_FIELDS if is_raw else ())
    try:
        if is_raw:
            await _read_raw(request, context, upload)
        else:
            parser = _parser(media_type, options, upload.settings)
            await _read(request, context, parser, upload)
        _check(upload)
    except BaseException as error:
        upload.discard()
        if isinstance(error, MultipartError):
            text = f"malformed multipart body: {error.args[0]}"
            raise Problem("invalid-upload", text) from None
        if isinstance(error, ClientDisconnect):
            text = "the connection ended before the body did"
            raise Problem("invalid-upload", text) from None
        raise
    return upload


async def _read_raw(request: Request, context: ServerContext, upload: Upload) -> None:
    """A body that is one document; its name and the other fields are in the query."""
    for parameter, value in request.query_params.multi_items():
        _check_new(parameter, upload)
        upload.fields[parameter] = value.encode()
    name = check_name(upload.fields.pop("name").decode())
    upload.current = file = context.fairlead.intake.begin()
    upload.files.append((file, name))
    more_body = True
    while more_body:
        chunk, more_body = await _next_chunk(request)
        if _add(chunk, upload):
            await _flushed(context, file)


def _parser(media_type: str, options: Mapping[str, str], settings: Settings) -> PushMultipartParser:
    if media_type != "multipart/form-data":
        text = Message(
            "send documents as multipart/form-data, in fields named file, or one as the body, "
            "with its name in the query: ?name=invoice.pdf; got {type}",
            type=repr(media_type[:100]),
        )
        raise Problem("unsupported-media-type", text)
    return PushMultipartParser(
        options.get("boundary", ""),
        max_header_size=MAX_HEADER_BYTES,
        max_header_count=MAX_HEADERS,
        max_segment_count=settings.max_upload_files + MAX_FIELDS,
    )


async def _read(
    request: Request, context: ServerContext, parser: PushMultipartParser, upload: Upload
) -> None:
    more_body = True
    while more_body:
        chunk, more_body = await _next_chunk(request)
        for part in parser.parse(chunk) if chunk else ():  # an empty one would end the form
            if isinstance(part, MultipartSegment):
                _begin(part, context, upload)
            elif part is None:
                upload.current = None
            elif _add(bytes(part), upload) and not isinstance(upload.current, str | None):
                await _flushed(context, upload.current)
    parser.close()


async def _next_chunk(request: Request) -> tuple[bytes, bool]:
    """The next piece of the body, and whether more follow.

    Most uploads are one piece, for which the generator `Request.stream` costs more CPU.
    """
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message["body"], message.get("more_body", False)


async def _flushed(context: ServerContext, file: IncomingBlob) -> None:
    """Flush the file; a cancelled request waits for the end, so that nothing closes it before."""
    flushing = asyncio.ensure_future(context.ask(file.flush))
    try:
        await asyncio.shield(flushing)
    except asyncio.CancelledError:
        await asyncio.wait([flushing])
        raise


def _begin(part: MultipartSegment, context: ServerContext, upload: Upload) -> None:
    if part.name == "file":
        most = upload.settings.max_upload_files
        if len(upload.files) >= most:
            text = Message(
                "a request may have at most {most} files; send several requests", most=most
            )
            raise Problem("invalid-upload", text)
        name = check_name(_encoded_name(part) or part.filename or "document")
        upload.current = context.fairlead.intake.begin()
        upload.files.append((upload.current, name))
    elif part.name in FIELD_BYTES:
        _check_new(part.name, upload)
        upload.current = part.name
        upload.fields[part.name] = b""
    else:
        name = repr(str(part.name)[:100])
        fields = ", ".join(FIELD_BYTES)
        raise Problem("invalid-upload", f"the fields are file, {fields}; got {name}")


def _check_new(name: str, upload: Upload) -> None:
    if name in upload.fields:
        raise Problem("invalid-upload", f"the field {name} came twice; send it once")


def _encoded_name(part: MultipartSegment) -> str | None:
    """The name in `filename*`, which forms should not use and some clients send all the same."""
    disposition = [value for key, value in part.headerlist if key == _DISPOSITION][-1]
    if "*" not in disposition:
        return None
    match = _ENCODED_NAME.search(_QUOTED.sub('""', disposition))
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
        if len(value) > FIELD_BYTES[upload.current]:
            text = Message("the field {name} is too long", name=upload.current)
            raise Problem("invalid-upload", text)
        upload.fields[upload.current] = value
        return False
    if upload.current is None:
        return False
    is_full = upload.current.add(chunk)
    limit = upload.settings.max_document_bytes
    if upload.current.size > limit:
        text = Message("a document may have at most {bytes} bytes; send a smaller one", bytes=limit)
        raise Problem("too-large", text)
    return is_full


def _check(upload: Upload) -> None:
    if not upload.files:
        text = Message("the request has no document; send at least one field named file")
        raise Problem("invalid-upload", text)
    for file, name in upload.files:
        check_not_empty(file.size, name)
