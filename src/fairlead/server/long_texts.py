"""Sends long texts from their file in chunks, so that no slow reader keeps a text in memory."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairlead.model.documents import Text
from fairlead.model.json import to_json

CHUNK_BYTES = 65_536


class LongText:
    """An open file as the body of a response: its bytes, or the JSON of a record with its text.

    The constructor reads the file of a record once, for Content-Length. Sending closes the file.
    """

    def __init__(self, file: BinaryIO, record: Text | None = None) -> None:
        self._file = file
        self._record = record
        if record is None:
            self.length = os.fstat(file.fileno()).st_size
        else:
            self.length = sum(map(len, _json_chunks(file, record)))
            file.seek(0)

    def response(self, request: Request, headers: Mapping[str, str], media_type: str) -> Response:
        headers = {**headers, "Content-Length": str(self.length)}
        if request.method == "HEAD":
            self._file.close()
            return Response(None, 200, headers, media_type)
        return StreamingResponse(self._body(), 200, headers, media_type)

    def _body(self) -> Iterator[bytes]:
        with self._file as file:
            yield from _chunks(file) if self._record is None else _json_chunks(file, self._record)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _json_chunks(file: BinaryIO, record: Text) -> Iterator[bytes]:
    """The JSON of the record. The decoder joins characters that lie in two chunks."""
    yield to_json(record).removesuffix(b'""}') + b'"'
    decoder = codecs.getincrementaldecoder("utf-8")()
    for chunk in _chunks(file):
        yield to_json(decoder.decode(chunk))[1:-1]
    yield b'"}'
