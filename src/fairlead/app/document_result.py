"""The result of a document: texts, data and files, read when they are asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairlead.errors import Message, UnknownFile
from fairlead.model.documents import ResultFile
from fairlead.model.results import Content

if TYPE_CHECKING:
    from fairlead.app.contents import Contents


class DocumentResult:
    """What the steps of a document found. Contents are checked by their SHA-256."""

    def __init__(self, id_: str, contents: Contents, found: list[tuple[str, Content]]) -> None:
        self.id = id_
        self._contents = contents
        self._roles = {role for role, _ in found}
        self._data = next((content for role, content in found if role == "data"), None)
        self._files = {content.name: content for role, content in found if role == "file"}

    def __repr__(self) -> str:
        found = ["text"] * self.has_text + ["data"] * (self._data is not None)
        found += map(repr, self._files)
        return f"<DocumentResult of {self.id}: {', '.join(found) or 'nothing'}>"

    @property
    def text(self) -> str | None:
        """The text; None: no step found one."""
        return self._contents.text(self.id) if self.has_text else None

    @property
    def markdown(self) -> str | None:
        """The Markdown; the text where the document has no layout."""
        if "markdown" not in self._roles:
            return self.text
        return self._contents.markdown(self.id)

    @property
    def data(self) -> dict[str, Any]:
        """The data of all steps; empty where they found none."""
        if self._data is None:
            return {}
        data: dict[str, Any] = json.loads(self._contents.found(self.id, "data", self._data))
        return data

    @property
    def has_text(self) -> bool:
        return "text" in self._roles

    @property
    def is_remote(self) -> bool:
        """Whether the data is a blob."""
        return self._data is not None and self._data.key is not None

    @property
    def files(self) -> tuple[ResultFile, ...]:
        """The files, by name."""
        return tuple(
            ResultFile(each.name, each.media_type or "", each.size, each.sha256)
            for each in self._files.values()
        )

    def file(self, name: str) -> bytes:
        """The bytes of a file; UnknownFile if no step returned one of this name."""
        return self._contents.found(self.id, "file", self.found_file(name))

    def found_file(self, name: str) -> Content:
        """Where the bytes of a file are."""
        content = self._files.get(name)
        if content is None:
            raise UnknownFile(
                Message("document {id} has no file {name}", id=self.id, name=repr(name))
            )
        return content
