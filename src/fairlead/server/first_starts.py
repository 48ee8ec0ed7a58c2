"""First starts of documents, by which waits are measured."""

from __future__ import annotations

from fairlead.model.documents import Event, EventKind

_QUEUED_AGAIN = frozenset([EventKind.RELEASED, EventKind.RESCUED, EventKind.RETRIED])
_ENDS = frozenset([EventKind.DONE, EventKind.FAILED, EventKind.CANCELLED, EventKind.DELETED])


class FirstStarts:
    """Tells the first start of a document from later ones; it must be given all events in order.

    A claim that was given back, and a retry by a person, begin with attempt 1 again.
    """

    def __init__(self) -> None:
        self._queued_again: set[str] = set()

    def is_first(self, event: Event) -> bool:
        """Whether this is the first start of its document."""
        document = event.document
        if document is None:
            return False
        if event.kind in _QUEUED_AGAIN:
            self._queued_again.add(document)
        elif event.kind in _ENDS:
            self._queued_again.discard(document)
        is_start = event.kind is EventKind.CLAIMED and event.data.get("attempt") == 1
        return is_start and document not in self._queued_again
