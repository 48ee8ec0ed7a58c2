"""`fairlead.batches`: documents that were submitted together."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fairlead.app.expected_end import expected_end
from fairlead.errors import InvalidTransition, UnknownDocument
from fairlead.model.batches import Batch

if TYPE_CHECKING:
    from fairlead.app.fairlead import Fairlead

_PAGE = 1000


class EmbeddedBatches:
    """Batches. `by` is the actor in the audit record."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead

    def show(self, id_: str, /) -> Batch:
        """The batch of this id, with its documents by state and its expected end."""
        batch, last_pending = self._fairlead.store.batch(id_)
        if last_pending is None:
            return batch
        try:
            document = self._fairlead.document(last_pending)
        except UnknownDocument:  # it was deleted meanwhile
            return batch
        fairlead = self._fairlead
        end = expected_end(fairlead.store, fairlead.why, fairlead.settings.pipelines, document)
        return replace(batch, expected_end=end)

    def cancel(self, id_: str, /, *, by: str | None = None) -> Batch:
        """Cancel the documents of a batch that are pending; those that have ended stay."""
        self._fairlead.store.batch(id_)  # raises UnknownBatch
        for document in self._fairlead.documents(batch=id_, limit=_PAGE):
            if document.state.is_pending:
                with suppress(InvalidTransition, UnknownDocument):  # it ended meanwhile
                    self._fairlead.cancel(document.id, by=by)
        return self.show(id_)
