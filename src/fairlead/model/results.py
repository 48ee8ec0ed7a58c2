"""Results: the contents that steps found, in the store or in blobs, and interim results."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from fairlead.model.documents import NewDocument, Sniff
from fairlead.model.pipelines import DEFAULT_PIPELINE


class Content(Struct, frozen=True):
    """A text, data or a file. A short one is in `content`, others are blobs under `key`."""

    size: int
    sha256: str
    name: str = ""
    media_type: str | None = None
    key: str | None = None
    content: bytes | None = None


class InterimPart(Struct, frozen=True):
    """A document inside a document, which is submitted when the outer one is done."""

    id: str
    name: str
    size: int
    sha256: str
    shape: str
    pages: int | None = None
    content: bytes | None = None
    pipeline: str = DEFAULT_PIPELINE

    def new_document(self) -> NewDocument:
        return NewDocument(
            self.id,
            self.name,
            self.size,
            self.sha256,
            look=Sniff(self.shape, self.pages),
            content=self.content,
            pipeline=self.pipeline,
        )


class AskingStep(NamedTuple):
    """A step that asks again and again to be called later: for how many documents, how often."""

    step: str
    documents: int
    most_calls: int


class Interim(Struct, frozen=True):
    """The results of the finished steps of a pending document, so that a retry skips them.

    Of the `steps`, so many are `done`. `attempts` is the number of failed attempts at the next
    step. `later` is how often it has asked to be called later, the first time at `later_since`;
    `settled` is the number of claims that ended by a decision of the step. `seconds` is the work of
    all finished steps. `cause` is why the last attempt failed, for operators.
    """

    steps: tuple[str, ...]
    done: int = 0
    attempts: int = 0
    later: int = 0
    later_since: float | None = None
    settled: int = 0
    seconds: float = 0.0
    cause: str | None = None
    kind: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    text: Content | None = None
    markdown: Content | None = None
    data: Content | None = None
    files: tuple[Content, ...] = ()
    parts: tuple[InterimPart, ...] = ()

    @property
    def step(self) -> str | None:
        """The next step; None if all have ended."""
        return self.steps[self.done] if self.done < len(self.steps) else None

    @property
    def keys(self) -> list[str]:
        """The keys of its blobs."""
        contents = (self.text, self.markdown, self.data, *self.files)
        return [
            content.key for content in contents if content is not None and content.key is not None
        ]

    @property
    def part_keys(self) -> list[str]:
        """The keys of the blobs of its parts, which are stored among those of documents."""
        return [part.id for part in self.parts if part.content is None]


encode_interim = msgspec.msgpack.Encoder().encode
decode_interim = msgspec.msgpack.Decoder(Interim).decode
