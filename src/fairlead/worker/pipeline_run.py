"""A document on its way through the steps of its pipeline: the result so far, and its bytes.

Short contents stay in memory and go into the store. Long ones are files of the job until they are
written to blob storage, under keys that they have from the beginning.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.model.blobs import HEAD_BYTES, SHORT_BYTES, SHORT_TOGETHER, BlobStore
from fairlead.model.documents import Claim, Done, ShortTexts
from fairlead.model.names import new_id
from fairlead.model.pipelines import DEFAULT_PIPELINE, Pipeline
from fairlead.model.results import Content, Interim, InterimPart, decode_interim
from fairlead.model.sniff import look
from fairlead.steps.outcomes import Returned, ReturnedFile, ReturnedPart
from fairlead.worker.sandbox.answer import Extraction
from fairlead.worker.sandbox.spool import SpooledBytes

Source = bytes | Path | SpooledBytes
"""Where bytes are that are not in blob storage yet."""
CHUNK_BYTES = 1 << 20
OTHER_TYPE = "application/octet-stream"


@dataclass
class Blob:
    """A content whose bytes may still have to be written to blob storage."""

    content: Content
    source: Source | None = None  # None: the store or blob storage has it

    def read(self, blobs: BlobStore) -> bytes:
        content, source = self.content, self.source  # the result writer may store it meanwhile
        if source is not None:
            return b"".join(chunks(source))
        if content.key is not None:
            return blobs.read(content.key, content.sha256)
        return content.content or b""


@dataclass
class PartBlob:
    """A document inside the document, as `Blob`."""

    part: InterimPart
    source: Source | None = None


@dataclass
class PipelineRun:
    """The result of the finished steps of a claim, and how the step under way has fared.

    The fields are those of `Interim`. `folder` is where the files of its jobs are.
    """

    claim: Claim
    pipeline: Pipeline
    folder: Path
    done: int = 0
    attempts: int = 0
    waited: float = 0.0
    settled: int = 0
    seconds: float = 0.0
    claim_seconds: float = 0.0
    cause: str | None = None
    kind: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    text: Blob | None = None
    markdown: Blob | None = None
    data: Blob | None = None
    files: dict[str, Blob] = field(default_factory=dict)
    parts: list[PartBlob] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    """Keys of contents that a later step replaced."""
    _short_bytes: int = 0

    @property
    def blobs(self) -> list[Blob]:
        named = [self.text, self.markdown, self.data, *self.files.values()]
        return [blob for blob in named if blob is not None]

    @property
    def keys(self) -> set[str]:
        return {blob.content.key for blob in self.blobs if blob.content.key is not None}

    @property
    def steps(self) -> tuple[str, ...]:
        return self.pipeline.steps

    @property
    def next_step(self) -> str | None:
        return self.steps[self.done] if self.done < len(self.steps) else None

    @property
    def queue(self) -> str | None:
        """The queue whose claims run the next step; None: all are done."""
        return self.pipeline.queue_of(self.done) if self.done < len(self.steps) else None

    # --- what steps find ---

    def read(self, extraction: Extraction, seconds: float) -> None:
        """Take over what the built-in step read."""
        self.kind = extraction.kind
        self.facts = {"kind": extraction.kind, **extraction.facts}
        self.text = self._kept("t", extraction.text.encode(), self.text)
        if extraction.markdown is not None:
            self.markdown = self._kept("m", extraction.markdown.encode(), self.markdown)
        for number, file in enumerate(extraction.files):
            before = self.files.get(file.name)
            self.files[file.name] = self._kept(f"f{number}", file.content, before, file.name)
        for part in extraction.parts:
            self._add_part(part.name, part.content, DEFAULT_PIPELINE)
        self._finished(seconds)

    def add(self, returned: Returned, seconds: float, blobs: BlobStore) -> None:
        """A step replaces text and Markdown, merges data by top-level key, and adds files."""
        if returned.text is not None:
            self._replaced(self.markdown)  # it was that of the text before
            self.markdown = None
            self.text = self._kept("t", returned.text.path, self.text)
        if returned.markdown is not None:
            self.markdown = self._kept("m", returned.markdown.path, self.markdown)
        if returned.data is not None:
            self._merge(returned.data, blobs)
        for number, file in enumerate(returned.files):
            before = self.files.get(file.name)
            self.files[file.name] = self._kept(f"f{number}", file.path, before, file.name)
        for part in returned.parts:
            self._add_result_part(part)
        self._finished(seconds)

    def failed(self, cause: str) -> None:
        """An attempt at the step under way failed."""
        self.attempts += 1
        self.settled += 1
        self.cause = cause

    def _finished(self, seconds: float) -> None:
        self.seconds += seconds
        self.claim_seconds += seconds
        self.done += 1
        self.attempts, self.waited, self.cause = 0, 0.0, None

    def _merge(self, data: ReturnedFile, blobs: BlobStore) -> None:
        before: dict[str, Any] = {} if self.data is None else json.loads(self.data.read(blobs))
        merged = json.dumps(before | json.loads(data.path.read_bytes()), ensure_ascii=False)
        self.data = self._kept("d", merged.encode(), self.data)

    def _kept(self, role: str, source: Source, before: Blob | None, name: str = "") -> Blob:
        self._replaced(before)
        size, sha256, short = _measured(source)
        media_type = (mimetypes.guess_type(name)[0] or OTHER_TYPE) if name else None
        if short is not None and self._short_bytes + size <= SHORT_TOGETHER:
            self._short_bytes += size
            return Blob(Content(size, sha256, name, media_type, content=short))
        # Each claim has keys of its own: a late worker cannot touch those of a newer one.
        key = f"{self.claim.id}.{self.claim.fence}.{self.done}{role}"
        return Blob(Content(size, sha256, name, media_type, key), source)

    def _replaced(self, blob: Blob | None) -> None:
        if blob is not None and blob.content.key is not None:
            self.replaced.add(blob.content.key)

    def _add_result_part(self, part: ReturnedPart) -> None:
        self._add_part(part.name, part.path, part.pipeline or DEFAULT_PIPELINE)

    def _add_part(self, name: str, source: Source, pipeline: str) -> None:
        size, sha256, short = _measured(source)
        shape, pages = look(_head(source))
        part = InterimPart(new_id(time.time()), name, size, sha256, shape, pages, short, pipeline)
        self.parts.append(PartBlob(part, None if short is not None else source))

    # --- what is saved ---

    def interim(self) -> Interim:
        def content(blob: Blob | None) -> Content | None:
            return None if blob is None else blob.content

        return Interim(
            self.steps,
            self.done,
            self.attempts,
            self.waited,
            self.settled,
            self.seconds,
            self.cause,
            self.kind,
            self.facts,
            content(self.text),
            content(self.markdown),
            content(self.data),
            tuple(blob.content for blob in self.files.values()),
            tuple(each.part for each in self.parts),
        )

    def outcome(self) -> Done:
        """The result of a document that has passed all steps."""
        text, markdown, data = self.text, self.markdown, self.data
        contents = [None if each is None else each.content.content for each in (text, markdown)]
        return Done(
            kind=self.kind,
            facts=self.facts | {"seconds": round(self.seconds, 3)},
            text_key=None if text is None else text.content.key,
            text_sha256=None if text is None else text.content.sha256,
            seconds=self.claim_seconds,
            markdown_key=None if markdown is None else markdown.content.key,
            markdown_sha256=None if markdown is None else markdown.content.sha256,
            parts=tuple(each.part.new_document() for each in self.parts),
            short=ShortTexts(*contents),
            data=None if data is None else data.content,
            files=tuple(blob.content for blob in self.files.values()),
            work=self.seconds,
        )


def resumed_run(claim: Claim, pipeline: Pipeline, folder: Path) -> PipelineRun:
    """A run that goes on after earlier claims, or starts over if the list of steps has changed."""
    run = PipelineRun(claim, pipeline, folder)
    if claim.interim is None:
        return run
    interim = decode_interim(claim.interim)
    run.settled = interim.settled
    if interim.steps != run.steps:
        run.replaced.update(interim.keys)
        return run
    run.done, run.attempts, run.waited = interim.done, interim.attempts, interim.waited
    run.seconds, run.cause = interim.seconds, interim.cause
    run.kind, run.facts = interim.kind, interim.facts
    run.text, run.markdown, run.data = (
        None if content is None else Blob(content)
        for content in (interim.text, interim.markdown, interim.data)
    )
    run.files = {content.name: Blob(content) for content in interim.files}
    run.parts = [PartBlob(part) for part in interim.parts]
    return run


def chunks(source: Source) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
    elif isinstance(source, Path):
        with source.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    else:
        yield from source.chunks()


def _measured(source: Source) -> tuple[int, str, bytes | None]:
    """The size, the SHA-256, and the bytes where they are few."""
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    short = b"".join(chunks(source)) if size <= SHORT_BYTES else None
    digest = hashlib.sha256()
    for chunk in chunks(source) if short is None else (short,):
        digest.update(chunk)
    return size, digest.hexdigest(), short


def _head(source: Source) -> bytes:
    if isinstance(source, bytes):
        return source[:HEAD_BYTES]
    if isinstance(source, Path):
        with source.open("rb") as file:
            return file.read(HEAD_BYTES)
    return source.head
