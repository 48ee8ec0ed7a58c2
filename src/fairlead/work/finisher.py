"""The finisher: texts to disk and outcomes to the store, many at a time, beside the work.

A worker takes its next document while the result of the last one is being made safe. Results
gather for a moment and go together: one fsync of the folder, one commit. While that commit waits
for the disk nobody can claim, so there should be few of them; but as soon as a worker has nothing
to do, results are saved at once, as one of them may be what it waits for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from threading import Condition, Thread
from typing import NamedTuple

from fairlead.core.documents import Broken, Claim, Done, Failed, Outcome, Saved
from fairlead.errors import DataError
from fairlead.ports import Files, Store
from fairlead.work.results import Extraction

Result = Extraction | Failed | Broken
MOST_TOGETHER = 64
LINGER_SECONDS = 0.1
"""How long results gather while all workers are busy."""
MOST_CHARACTERS = 50_000_000
"""Text that may wait to be saved before no further document is begun: it is all in memory."""


class Settled(NamedTuple):
    """A claim, what came of it, and the seconds of work on it."""

    claim: Claim
    result: Result
    seconds: float


class Finisher:
    """Saves results in a thread of its own. `on_saved` is called there after each group."""

    def __init__(self, store: Store, texts: Files, on_saved: Callable[[], None]) -> None:
        self.error: Exception | None = None
        self._store = store
        self._texts = texts
        self._on_saved = on_saved
        self._queue: list[Settled] = []
        self._held: list[Claim] = []
        self._characters = 0
        self._is_closing = False
        self._is_hurried = True
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="fairlead-finisher", daemon=True)
        self._thread.start()

    def add(self, claim: Claim, result: Result, seconds: float) -> None:
        """Take over a claim with its result and how long the work took."""
        with self._changed:
            self._queue.append(Settled(claim, result, seconds))
            self._characters += _length(result)
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
        """Whether so much text waits to be saved that no more should be made."""
        with self._changed:
            return self._characters > MOST_CHARACTERS

    def close(self) -> None:
        """Save what was taken over, then end; after an error, `held` still has the rest."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while group := self._next_group():
            try:
                self._save(group)
            except Exception as error:  # the engine raises it, and gives back what is held
                self.error = error
                return
            else:
                with self._changed:
                    self._held = []
            finally:
                self._on_saved()

    def _next_group(self) -> list[Settled]:
        """What has gathered; empty when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            self._changed.wait_for(self._is_time_to_save, LINGER_SECONDS)
            group, self._queue = self._queue[:MOST_TOGETHER], self._queue[MOST_TOGETHER:]
            self._held = [each.claim for each in group]
            self._characters -= sum(_length(each.result) for each in group)
            return group

    def _is_time_to_save(self) -> bool:
        return self._is_hurried or self._is_closing or len(self._queue) >= MOST_TOGETHER

    def _save(self, group: Sequence[Settled]) -> None:
        outcomes = self._with_texts(group)
        saved = self._store.finish_all(outcomes)
        stale = [
            outcome.text_key
            for (_, outcome), how in zip(outcomes, saved, strict=True)
            if how is Saved.STALE and isinstance(outcome, Done)
        ]
        with suppress(DataError, OSError):  # the sweep of orphans finds them too
            self._texts.delete(stale)

    def _with_texts(self, group: Sequence[Settled]) -> list[tuple[Claim, Outcome]]:
        """Make the texts safe, and put their keys in place of them."""
        encoded = {
            _text_key(each.claim): each.result.text.encode()
            for each in group
            if isinstance(each.result, Extraction)
        }
        if encoded:
            self._texts.put_all([(key, partial(BytesIO, text)) for key, text in encoded.items()])
        return [(each.claim, _outcome(each, encoded)) for each in group]


def _length(result: Result) -> int:
    return len(result.text) if isinstance(result, Extraction) else 0


def _text_key(claim: Claim) -> str:
    """Each attempt has its own: a late worker cannot touch the text of a newer one."""
    return f"{claim.id}.{claim.fence}.txt"


def _outcome(settled: Settled, encoded: dict[str, bytes]) -> Outcome:
    claim, result, seconds = settled
    if isinstance(result, Broken) and claim.attempts > 1:
        result = Failed(result.code, result.detail)  # it was alone: there is nobody else to blame
    if not isinstance(result, Extraction):
        return result._replace(seconds=seconds)
    key = _text_key(claim)
    sha256 = hashlib.sha256(encoded[key]).hexdigest()
    return Done(result.kind, result.facts, key, sha256, seconds)
