"""The event when all parts of a document have ended."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.model.documents import EventKind
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import Transaction


def settle_parts(tx: Transaction, ended: Mapping[int, int | None]) -> None:
    """Add an event for each document around these whose last pending part has ended.

    `ended` has the root of each document that has ended, None if it is not a part. If two
    transactions end parts of one root at once, the lock makes the second one wait for the commit of
    the first, so that it sees the parts that the first one ended.
    """
    roots = {document: root for document, root in ended.items() if root is not None}
    if not roots:
        return
    run, array = tx.connection.execute, tx.connection.array
    run(sql("lock_documents"), (array(sorted(set(roots.values()))),))
    around = run(sql("documents_around"), (array(sorted(roots)),)).fetchall()
    for document, customer, is_part in around:
        is_pending = "is_part_pending" if is_part else "is_family_pending"
        if run(sql(is_pending), (document,)).get is None:
            tx.add_event(EventKind.PARTS_DONE, customer, document)
