"""A document on its way through the steps of its pipeline: the result so far, and its contents.

Short contents stay in memory and are saved in the store. Long ones are files of the job until the
result writer writes them to blob storage, under keys that are chosen at the beginning.
"""

from __future__ import annotations

import mimetypes
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from msgspec.structs import replace

from fairlead.model.blobs import SHORT_TOGETHER, BlobStore
from fairlead.model.documents import Claim, Done, ShortTexts
from fairlead.model.names import new_id
from fairlead.model.pipelines import DEFAULT_PIPELINE, Pipeline
from fairlead.model.results import Content, Interim, InterimPart, decode_interim
from fairlead.model.sniff import look
from fairlead.steps.outcomes import Returned
from fairlead.steps.results import check_number
from fairlead.worker.contents import Source, chunks, head, measured
from fairlead.worker.sandbox.answer import Extraction

OTHER_TYPE = "application/octet-stream"


@dataclass
class PipelineRun:
    """The result of the finished steps of a claim, and the attempts at the step under way.

    `interim` is replaced and never changed, so that the result writer can save an earlier one in
    its thread. `folder` has the files of the jobs.
    """

    claim: Claim
    pipeline: Pipeline
    folder: Path
    interim: Interim
    claim_seconds: float = 0.0
    sources: dict[str, Source] = field(default_factory=dict)
    """Bytes that blob storage still lacks, by the keys of contents and the ids of parts."""
    replaced: set[str] = field(default_factory=set)
    """Keys of contents that a later step replaced."""
    _short_bytes: int = 0

    @property
    def next_step(self) -> str | None:
        return self.interim.step

    @property
    def is_under_way(self) -> bool:
        """Whether a step of this claim has processed the document."""
        return self.claim_seconds > 0.0

    @property
    def queue(self) -> str | None:
        """The queue whose claims run the next step; None: all are done."""
        return None if self.next_step is None else self.pipeline.queue_of(self.interim.done)

    def read_content(self, content: Content, blobs: BlobStore) -> bytes:
        if content.key is None:
            return content.content or b""
        source = self.sources.get(content.key)  # the result writer may store it meanwhile
        if source is None:
            return blobs.read(content.key, content.sha256)
        return b"".join(chunks(source))

    # --- results and failures of steps ---

    def add_extraction(self, extraction: Extraction, seconds: float) -> None:
        """Take over what the built-in step read."""
        markdown = self.interim.markdown
        text = self._content("t", extraction.text.encode())
        if extraction.markdown is not None:
            markdown = self._content("m", extraction.markdown.encode())
        parts = [self._part(part.name, part.content) for part in extraction.parts]
        self._finish_step(
            seconds,
            kind=extraction.kind,
            facts={"kind": extraction.kind, **extraction.facts},
            text=text,
            markdown=markdown,
            files=self._with_files((file.name, file.content) for file in extraction.files),
            parts=(*self.interim.parts, *parts),
        )

    def add_returned(self, returned: Returned, seconds: float) -> None:
        """A step replaces text, Markdown and data, and adds files and parts.

        Raises InvalidResult if the document then has too many of them.
        """
        names = {file.name for file in self.interim.files}
        names |= {file.name for file in returned.files}
        check_number("files", len(names))
        check_number("parts", len(self.interim.parts) + len(returned.parts))
        text, markdown, data = self.interim.text, self.interim.markdown, self.interim.data
        if returned.text is not None:
            text, markdown = self._content("t", returned.text.source), None
        if returned.markdown is not None:
            markdown = self._content("m", returned.markdown.source)
        if returned.data is not None:
            data = self._content("d", returned.data.source)
        parts = [self._part(part.name, part.source, part.pipeline) for part in returned.parts]
        self._finish_step(
            seconds,
            text=text,
            markdown=markdown,
            data=data,
            files=self._with_files((file.name, file.source) for file in returned.files),
            parts=(*self.interim.parts, *parts),
        )

    def note_refusal(self) -> None:
        """The step under way refused the document."""
        self._change(attempts=self.interim.attempts + 1)

    def note_failure(self, cause: str) -> None:
        """An attempt at the step under way failed."""
        interim = self.interim
        self._change(attempts=interim.attempts + 1, settled=interim.settled + 1, cause=cause)

    def note_delay(self, now: float) -> None:
        """The step under way asked to be called again later."""
        interim = self.interim
        since = now if interim.later_since is None else interim.later_since
        self._change(later=interim.later + 1, later_since=since, settled=interim.settled + 1)

    def add_work(self, seconds: float) -> None:
        self.claim_seconds += seconds
        self._change(seconds=self.interim.seconds + seconds)

    def outcome(self) -> Done:
        """The result of a document that has passed all steps."""
        interim = self.interim
        text, markdown = interim.text, interim.markdown
        short = (None if content is None else content.content for content in (text, markdown))
        return Done(
            kind=interim.kind,
            facts=interim.facts | {"seconds": round(interim.seconds, 3)},
            text_key=None if text is None else text.key,
            text_sha256=None if text is None else text.sha256,
            seconds=self.claim_seconds,
            markdown_key=None if markdown is None else markdown.key,
            markdown_sha256=None if markdown is None else markdown.sha256,
            parts=tuple(part.new_document() for part in interim.parts),
            short=ShortTexts(*short),
            data=interim.data,
            files=interim.files,
            work=interim.seconds,
        )

    def _finish_step(self, seconds: float, **results: Any) -> None:
        before = set(self.interim.keys)
        done = self.interim.done + 1
        self._change(done=done, attempts=0, later=0, later_since=None, cause=None, **results)
        self.replaced |= before.difference(self.interim.keys)
        self.add_work(seconds)

    def _change(self, **changes: Any) -> None:
        self.interim = replace(self.interim, **changes)

    def _with_files(self, new: Iterable[tuple[str, Source]]) -> tuple[Content, ...]:
        """The files of earlier steps with these; a new one replaces that of the same name."""
        files = {file.name: file for file in self.interim.files}
        for number, (name, source) in enumerate(new):
            files[name] = self._content(f"f{number}", source, name)
        return tuple(files.values())

    def _content(self, role: str, source: Source, name: str = "") -> Content:
        size, sha256, short = measured(source)
        media_type = (mimetypes.guess_type(name)[0] or OTHER_TYPE) if name else None
        if self._has_room_for(short):
            return Content(size, sha256, name, media_type, content=short)
        # Each writing has a key of its own, also of the same claim: a program may send the result
        # of a pulled job twice, and whoever comes late deletes what it has written.
        key = f"{self.claim.id}.{self.claim.fence}.{self.interim.done}{role}{token_hex(4)}"
        self.sources[key] = source
        return Content(size, sha256, name, media_type, key)

    def _part(self, name: str, source: Source, pipeline: str | None = None) -> InterimPart:
        size, sha256, short = measured(source)
        shape, pages = look(head(source))
        id_ = new_id(time.time())
        if not self._has_room_for(short):
            self.sources[id_], short = source, None
        return InterimPart(
            id_, name, size, sha256, shape, pages, short, pipeline or DEFAULT_PIPELINE
        )

    def _has_room_for(self, short: bytes | None) -> bool:
        """Whether the content may go into the database together with the earlier ones."""
        if short is None or self._short_bytes + len(short) > SHORT_TOGETHER:
            return False
        self._short_bytes += len(short)
        return True


def resumed_run(claim: Claim, pipeline: Pipeline, folder: Path) -> PipelineRun:
    """A run that continues earlier claims, or starts over if the list of steps has changed."""
    new = Interim(pipeline.steps)
    interim = new if claim.interim is None else decode_interim(claim.interim)
    if interim.steps == pipeline.steps:
        return PipelineRun(claim, pipeline, folder, interim)
    new = replace(new, settled=interim.settled)
    return PipelineRun(claim, pipeline, folder, new, replaced=set(interim.keys))
