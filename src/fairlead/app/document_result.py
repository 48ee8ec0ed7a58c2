"""The result of a document: texts, data and files, which are read on access."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairlead.errors import Message, UnknownFile
from fairlead.model.documents import ResultFile
from fairlead.model.notebook import records_html, result_words
from fairlead.model.results import Content

if TYPE_CHECKING:
    from fairlead.app.contents import Contents


class DocumentResult:
    """What the steps of a document found. Contents are checked by their SHA-256."""

    def __init__(self, id_: str, contents: Contents, results: list[tuple[str, Content]]) -> None:
        self.id = id_
        self._contents = contents
        self._roles = {role for role, _ in results}
        self._data = next((content for role, content in results if role == "data"), None)
        self._files = {content.name: content for role, content in results if role == "file"}

    def __repr__(self) -> str:
        has_data = self._data is not None
        return result_words(self, self.id, self.files, has_text=self.has_text, has_data=has_data)

    def _repr_html_(self) -> str:
        return records_html(repr(self), self.files)

    @property
    def text(self) -> str | None:
        """The text; None if no step found one."""
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
        data: dict[str, Any] = json.loads(self._contents.read(self.id, "data", self._data))
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
            ResultFile(file.name, file.media_type or "", file.size, file.sha256)
            for file in self._files.values()
        )

    def file(self, name: str) -> bytes:
        """The bytes of a file; UnknownFile if no step returned one of this name."""
        return self._contents.read(self.id, "file", self.stored_file(name))

    def stored_file(self, name: str) -> Content:
        """A file as it is stored; UnknownFile if no step returned one of this name."""
        content = self._files.get(name)
        if content is None:
            raise UnknownFile(
                Message("document {id} has no file {name}", id=self.id, name=repr(name))
            )
        return content
