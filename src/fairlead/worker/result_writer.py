"""The finisher: texts to disk and outcomes to the store, many at a time, beside the work.

A worker takes its next document while the result of the last one is being made safe. Results
gather for a moment and go together: one fsync of the folder, one commit. Short texts and parts go
into that commit themselves; only long ones become files. While that commit waits for the disk
nobody can claim, so there should be few of them; but as soon as a worker has nothing to do,
results are saved at once, as one of them may be what it waits for. So are those of suspects.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from threading import Condition, Thread
from typing import TYPE_CHECKING, NamedTuple

from fairlead.errors import DataError, TemporarilyUnavailable
from fairlead.model.documents import (
    Broken,
    Claim,
    Done,
    Failed,
    NewDocument,
    Outcome,
    Saved,
    ShortTexts,
)
from fairlead.model.ids import new_id
from fairlead.model.ports import HEAD_BYTES, SHORT_BYTES, SHORT_TOGETHER, Files
from fairlead.model.sniff import look
from fairlead.read.base import Part
from fairlead.worker.outage import Outage, Tries
from fairlead.worker.sandbox.answer import Extraction

if TYPE_CHECKING:
    from fairlead.storage import Store

Result = Extraction | Failed | Broken
MOST_TOGETHER = 64
LINGER_SECONDS = 0.1
"""How long results gather while all workers are busy."""
SHORT_TEXTS = 65_536
"""Up to which length the texts of a document are kept in the store."""
MOST_CHARACTERS = 50_000_000
"""Text that may wait to be saved before no further document is begun: it is all in memory."""


class FinishedJob(NamedTuple):
    """A claim, what came of it, and the seconds of work on it."""

    claim: Claim
    result: Result
    seconds: float


class Encoded(NamedTuple):
    """The texts of a document in bytes; the Markdown only where it differs."""

    text: bytes
    markdown: bytes | None

    @property
    def is_short(self) -> bool:
        """Whether the store keeps them itself."""
        return len(self.text) + len(self.markdown or b"") <= SHORT_TEXTS


class ResultWriter:
    """Saves results in a thread of its own. `on_saved` is called there after each group.

    Texts go to `texts`; parts are documents, so they go to `files`. In an `outage` they are kept,
    and saved when it is over.
    """

    def __init__(
        self,
        store: Store,
        files: Files,
        texts: Files,
        on_saved: Callable[[], None],
        outage: Outage | None = None,
    ) -> None:
        self.error: Exception | None = None
        self._store = store
        self._files = files
        self._texts = texts
        self._on_saved = on_saved
        self._queue: list[FinishedJob] = []
        self._held: list[Claim] = []
        self._characters = 0
        self._is_closing = False
        self._is_hurried = True
        self._suspects = 0  # results of theirs that are not saved yet
        self._changed = Condition()
        self._tries = Tries(outage or Outage())
        self._thread = Thread(target=self._work, name="fairlead-finisher", daemon=True)
        self._thread.start()

    def add(self, settled: FinishedJob) -> None:
        """Take over a claim with its result and how long the work took."""
        with self._changed:
            self._queue.append(settled)
            self._characters += _length(settled.result)
            self._suspects += settled.claim.suspect
            if len(self._queue) == 1 or self._is_time_to_save():  # else it need not wake up
                self._changed.notify_all()

    def hurry(self, *, hurried: bool) -> None:
        """Whether to save results at once, or to let them gather."""
        if hurried != self._is_hurried:
            with self._changed:
                self._is_hurried = hurried
                self._changed.notify_all()

    def held(self) -> list[Claim]:
        """Claims whose result is not saved yet; their leases still need renewing."""
        with self._changed:
            return [each.claim for each in self._queue] + self._held

    def is_behind(self) -> bool:
        """Whether so much text waits to be saved that no more should be made.

        Or a suspect's result: it would suffer once more if the next document kills the engine. Or
        nothing can be saved now.
        """
        with self._changed:
            is_much = self._suspects > 0 or self._characters > MOST_CHARACTERS
            return is_much or self._tries.is_on

    def close(self) -> None:
        """Save what was taken over, then end; after an error, `held` still has the rest."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while group := self._next_group():
            try:
                self._save_patiently(group)
            except Exception as error:  # the engine raises it, and gives back what is held
                self.error = error
                return
            else:
                with self._changed:
                    self._suspects -= sum(claim.suspect for claim in self._held)
                    self._held = []
            finally:
                self._on_saved()

    def _next_group(self) -> list[FinishedJob]:
        """What has gathered; empty when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            self._changed.wait_for(self._is_time_to_save, LINGER_SECONDS)
            group, self._queue = _next_and_rest(self._queue)
            self._held = [each.claim for each in group]
            self._characters -= sum(_length(each.result) for each in group)
            return group

    def _is_time_to_save(self) -> bool:
        is_urgent = self._is_hurried or self._suspects > 0 or self._is_closing
        return is_urgent or len(self._queue) >= MOST_TOGETHER

    def _save_patiently(self, group: Sequence[FinishedJob]) -> None:
        """Save, and where that cannot be done now, again; for the last time when closed."""
        while not self._is_saved(group, is_last=self._is_closing):
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, self._tries.pause)
        self._tries.over()

    def _is_saved(self, group: Sequence[FinishedJob], *, is_last: bool) -> bool:
        try:
            self._save(group)
        except TemporarilyUnavailable as error:
            if is_last or not self._tries.bear(error):
                raise
            return False
        return True

    def _save(self, group: Sequence[FinishedJob]) -> None:
        outcomes = self._with_files(group)
        saved = self._store.finish_all(outcomes)
        stale = [
            outcome
            for (_, outcome), how in zip(outcomes, saved, strict=True)
            if how is Saved.STALE and isinstance(outcome, Done)
        ]
        if stale:
            self._forget(stale, {claim.id for claim, _ in outcomes})

    def _forget(self, stale: Sequence[Done], documents: set[str]) -> None:
        """Remove the files of what came too late.

        Not of what came in time, and whose saving was not heard of when the connection broke.
        """
        with suppress(DataError, OSError):  # the sweep of orphans finds them too
            texts = {key for each in stale for key in _text_keys(each)}
            self._texts.delete(texts - self._store.known_texts(documents))
            parts = {part.id for each in stale for part in each.parts if part.content is None}
            self._files.delete(parts - self._store.known_documents(parts))

    def _with_files(self, group: Sequence[FinishedJob]) -> list[tuple[Claim, Outcome]]:
        """Make texts and parts safe, and put their keys in place of them."""
        texts: list[tuple[str, bytes]] = []
        parts: list[tuple[str, bytes]] = []
        outcomes = [(each.claim, _outcome(each, texts, parts)) for each in group]
        self._texts.put_all(texts)
        self._files.put_all(parts)
        return outcomes


def _next_and_rest(queue: list[FinishedJob]) -> tuple[list[FinishedJob], list[FinishedJob]]:
    """Whose turn it is: suspects, as all wait for them, and only for them; else the eldest."""
    suspects = [each for each in queue if each.claim.suspect]
    if suspects:
        queue = suspects + [each for each in queue if not each.claim.suspect]
    number = min(len(suspects) or len(queue), MOST_TOGETHER)
    return queue[:number], queue[number:]


def _length(result: Result) -> int:
    """Characters and bytes that wait in memory."""
    if not isinstance(result, Extraction):
        return 0
    parts = sum(len(part.content) for part in result.parts)
    return len(result.text) + len(result.markdown or "") + parts


def _text_key(claim: Claim, suffix: str = "txt") -> str:
    """Each attempt has its own: a late worker cannot touch the text of a newer one."""
    return f"{claim.id}.{claim.fence}.{suffix}"


def _text_keys(done: Done) -> list[str]:
    return [key for key in (done.text_key, done.markdown_key) if key is not None]


def _outcome(
    settled: FinishedJob, texts: list[tuple[str, bytes]], parts: list[tuple[str, bytes]]
) -> Outcome:
    """What the store is told. What is to become a file is added to `texts` and `parts`."""
    claim, result, seconds = settled
    if isinstance(result, Broken) and claim.broke_before:
        result = Failed(result.code, result.detail)  # it was alone: there is nobody else to blame
    if not isinstance(result, Extraction):
        return result._replace(seconds=seconds)
    encoded = _encoded(result)
    keys = (None, None) if encoded.is_short else (_text_key(claim), _text_key(claim, "md"))
    texts += [
        (key, content)
        for key, content in zip(keys, encoded, strict=True)
        if key is not None and content is not None
    ]
    news = _new_documents(result.parts)
    parts += [
        (new.id, part.content)
        for new, part in zip(news, result.parts, strict=True)
        if new.content is None
    ]
    return Done(
        kind=result.kind,
        facts={"kind": result.kind, **result.facts, "seconds": round(seconds, 3)},
        text_key=keys[0],
        text_sha256=_sha256(encoded.text),
        seconds=seconds,
        markdown_key=keys[1] if encoded.markdown is not None else None,
        markdown_sha256=None if encoded.markdown is None else _sha256(encoded.markdown),
        parts=news,
        short=ShortTexts(*encoded) if encoded.is_short else None,
    )


def _encoded(result: Extraction) -> Encoded:
    differs = result.markdown is not None and result.markdown != result.text
    return Encoded(result.text.encode(), (result.markdown or "").encode() if differs else None)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _new_documents(parts: Sequence[Part]) -> tuple[NewDocument, ...]:
    """A document for each part. Short ones bring their content, while there is room in a commit."""
    sizes = [len(part.content) for part in parts]
    held = accumulate(size if size <= SHORT_BYTES else 0 for size in sizes)
    return tuple(
        _new_document(part, is_kept=size <= SHORT_BYTES and total <= SHORT_TOGETHER)
        for part, size, total in zip(parts, sizes, held, strict=True)
    )


def _new_document(part: Part, *, is_kept: bool) -> NewDocument:
    return NewDocument(
        new_id(time.time()),  # it only has to be new
        part.name,
        len(part.content),
        _sha256(part.content),
        look=look(part.content[:HEAD_BYTES]),
        content=part.content if is_kept else None,
    )
