"""The result of a pulled job: JSON, or a form that is written to disk while it arrives."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any, BinaryIO

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from fairlead.errors import DiskFull, InvalidResult
from fairlead.server import schemas
from fairlead.server.context import ServerContext
from fairlead.server.problems import Problem
from fairlead.steps.declare import Part, Result
from fairlead.steps.outcomes import Returned
from fairlead.steps.results import write_result

MOST_PARTS = 1000
MAX_HEADER_BYTES = 4096
BUFFER_BYTES = 1 << 20
FORM = "multipart/form-data"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_TEXTS = ("text", "markdown", "data")
_PART = re.compile(r"part(?:\.([A-Za-z0-9_-]{1,64}))?")
FORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "markdown": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "file": {
            "type": "array",
            "items": {"type": "string", "format": "binary"},
            "description": "files, kept with the document by their names",
        },
        "part": {
            "type": "array",
            "items": {"type": "string", "format": "binary"},
            "description": "files that become documents; `part.NAME` names their pipeline",
        },
    },
}


async def read_result(request: Request, context: ServerContext, folder: Path) -> Returned:
    """The result of the step, in a folder that the caller removes; raises a problem."""
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    limit = context.settings().result_limit
    try:
        if media_type != FORM:
            body = await schemas.read_body(request, schemas.JobResult)
            result = Result(text=body.text, markdown=body.markdown, data=body.data)
        else:
            await context.ask(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
            result = await _Form(context, folder).read(request, options.get("boundary", ""))
        await context.ask(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        return await context.ask(write_result, result, folder / "result", limit)
    except InvalidResult as error:
        raise Problem("invalid-request", str(error), code=error.code) from None
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull("the disk has no room for the result of a step") from error
        raise


class _Form:
    """Reads a form; each field becomes a file in the folder."""

    def __init__(self, context: ServerContext, folder: Path) -> None:
        self._context = context
        self._folder = folder
        self._paths: list[tuple[str, str, Path]] = []
        self._file: BinaryIO | None = None
        self._buffer = bytearray()

    async def read(self, request: Request, boundary: str) -> Result:
        try:
            parser = PushMultipartParser(
                boundary, max_header_size=MAX_HEADER_BYTES, max_segment_count=MOST_PARTS
            )
            async for chunk in request.stream():
                for segment in parser.parse(chunk):
                    await self._take(segment)
            parser.close()
        except MultipartError as error:
            raise _invalid(f"malformed multipart body: {error.args[0]}") from None
        except ClientDisconnect:
            raise _invalid("the connection ended before the body did") from None
        finally:
            if self._file is not None:
                self._file.close()
        return await self._context.ask(self._result)

    async def _take(self, segment: MultipartSegment | bytearray | None) -> None:
        """Handle the start of a field, a piece of its content, or its end (None)."""
        if isinstance(segment, MultipartSegment):
            path = self._folder / f"field-{len(self._paths)}"
            self._paths.append((segment.name, segment.filename or "", path))
            self._file = await self._context.ask(path.open, "wb")
        elif segment is not None:
            self._buffer += segment
            if len(self._buffer) >= BUFFER_BYTES:
                await self._flush()
        elif self._file is not None:
            await self._flush()
            self._file.close()
            self._file = None

    async def _flush(self) -> None:
        content, self._buffer = bytes(self._buffer), bytearray()
        if self._file is not None:
            await self._context.ask(self._file.write, content)

    def _result(self) -> Result:
        texts: dict[str, str] = {}
        files: dict[str, Path] = {}
        parts: list[Part] = []
        for field, name, path in self._paths:
            part = _PART.fullmatch(field)
            if field in _TEXTS:
                texts[field] = _text(field, path)
            elif field == "file":
                files[name] = path
            elif part is not None:
                parts.append((name, path, part[1]) if part[1] else (name, path))
            else:
                raise _invalid(
                    f"the fields are text, markdown, data, file and part; got {field[:100]!r}"
                )
        data = _data(texts.get("data"))
        return Result(texts.get("text"), texts.get("markdown"), data, files, parts)


def _text(field: str, path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise _invalid(f"the field {field} must be UTF-8") from None


def _data(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        raise _invalid("the field data must be JSON") from None


def _invalid(text: str) -> Problem:
    return Problem("invalid-request", text)
