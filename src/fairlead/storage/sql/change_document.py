"""Changes of a document after its acceptance: urgency, metadata, reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.model.documents import DocumentCheck, EventKind
from fairlead.model.states import State
from fairlead.model.submissions import index_terms
from fairlead.policy.queue_events import Dropped
from fairlead.storage.sql import rows
from fairlead.storage.sql.actions import DocumentRow, find_document, run_check
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import Transaction
from fairlead.storage.sql.waiting_rows import Waiting, arrived


def change_document(
    tx: Transaction, id_: str, changes: Mapping[str, Any], check: DocumentCheck | None = None
) -> None:
    """Apply the changes; the count and the priority stay."""
    document = find_document(tx, id_)
    run_check(tx, id_, check)
    if "metadata" in changes:
        _set_metadata(tx, document, changes["metadata"])
    if "reference" in changes:
        values = (changes["reference"], document.seq)
        tx.connection.execute(sql("set_document_reference"), values)
    if "urgent" in changes and changes["urgent"] != bool(document.urgent):
        _set_urgent(tx, document, urgent=changes["urgent"])
    tx.add_event(EventKind.CHANGED, document.customer, document.seq, fields=sorted(changes))


def _set_metadata(tx: Transaction, document: DocumentRow, metadata: Mapping[str, Any]) -> None:
    run, number = tx.connection.execute, document.seq
    run(sql("set_document_metadata"), (rows.data_text(metadata), number))
    run(sql("delete_metadata_terms"), (number,))
    terms = [(*term, number, document.customer) for term in index_terms(metadata)]
    tx.connection.executemany(sql("insert_metadata_term"), terms)


def _set_urgent(tx: Transaction, document: DocumentRow, *, urgent: bool) -> None:
    """Change the urgency, and the place of a waiting document among those of its customer."""
    run, number = tx.connection.execute, document.seq
    run(sql("set_document_urgent"), (int(urgent), number))
    if document.state != State.WAITING:
        return
    values = (int(urgent), int(tx.is_fair), number)
    run(sql("set_delayed_urgent"), values)
    run(sql("set_running_urgent"), values)
    taken = run(sql("take_waiting"), (document.customer, number)).fetchone()
    if taken is None:
        return
    row = Waiting(*taken)._replace(urgent=int(urgent))
    if tx.is_fair:
        slot, slot_seq = tx.slot(row.priority, number, urgent=urgent)
        row = row._replace(slot=slot, slot_seq=slot_seq)
    run(sql("insert_waiting"), row)
    tx.add_queue_event(Dropped(tx.now, row.customer, row.pipeline, 1, row.estimate))
    tx.add_queue_event(arrived(tx.now, [row]))
