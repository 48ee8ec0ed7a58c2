"""/texts.zip: the texts of documents as one zip file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from fairlead.errors import NotReady, UnknownDocument
from fairlead.model.names import with_ending
from fairlead.server.dashboard.documents import visible
from fairlead.server.dashboard.page import PageRequest, PageRoute, caller_page

MOST = 1000
"""The most documents of one zip file; a page of the list has fewer."""

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/texts.zip")
async def texts(
    request: Request,
    id_: Annotated[list[str], Query(alias="id", max_length=MOST)] = [],  # noqa: B006
) -> Response:
    """The texts of the selected documents that are done; others are left out."""
    page = await caller_page(request)
    names = await page.context.ask(_names, page, dict.fromkeys(id_))
    headers = {"Content-Disposition": 'attachment; filename="texts.zip"'}
    return StreamingResponse(_pieces(page, names), headers=headers, media_type="application/zip")


def _names(page: PageRequest, ids: Iterable[str]) -> dict[str, str]:
    """The file names by document id; raises if the caller may not see one of the documents."""
    return {id_: with_ending(f"{id_}-{visible(page, id_).name}", ".txt") for id_ in ids}


async def _pieces(page: PageRequest, names: dict[str, str]) -> AsyncIterator[bytes]:
    """The zip file, one document at a time, so that only one text is in memory."""
    buffer = _StreamBuffer()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for id_, name in names.items():
            text = await page.context.fetch(_text_or_none, page.fairlead.text, id_)
            if text is not None:
                archive.writestr(name, text)
                yield buffer.take()
    yield buffer.take()


def _text_or_none(read: Callable[[str], str], id_: str) -> str | None:
    try:
        return read(id_)
    except (NotReady, UnknownDocument):
        return None


class _StreamBuffer(io.RawIOBase):
    """Keeps written bytes until `take`. It cannot seek, so zipfile writes a stream."""

    def __init__(self) -> None:
        super().__init__()
        self._content = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, content: object, /) -> int:
        piece = bytes(memoryview(content))  # type: ignore[arg-type]
        self._content += piece
        return len(piece)

    def take(self) -> bytes:
        content, self._content = bytes(self._content), bytearray()
        return content
