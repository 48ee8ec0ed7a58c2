"""Acceptance: what becomes of submissions, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.errors import Refused
from fairlead.model.documents import Document, NewDocument, Submission
from fairlead.storage.sql.accept_batch import Batch, Origin
from fairlead.storage.sql.transaction import Transaction


def accept(tx: Transaction, submission: Submission) -> list[Document]:
    """Accept all documents of the submission, or refuse them all; a known key repeats itself."""
    (documents,) = accept_all(tx, [submission])
    return documents


def accept_all(tx: Transaction, submissions: Sequence[Submission]) -> list[list[Document]]:
    """Accept all submissions, or refuse them all."""
    batch = Batch(tx)
    accepted = [batch.accept(each) for each in submissions]
    batch.write()
    return accepted


def accept_each(
    tx: Transaction, submissions: Sequence[Submission]
) -> list[list[Document] | Exception]:
    """Accept or refuse each submission, whatever becomes of the others."""
    batch = Batch(tx)
    answers: list[list[Document] | Exception] = []
    for each in submissions:
        try:
            answers.append(batch.accept(each))
        except Refused as refusal:
            answers.append(refusal)
    batch.write()
    return answers


def accept_parts(
    tx: Transaction, customer: int, parts: Sequence[NewDocument], origin: Origin
) -> None:
    """Accept what came out of a document of this customer."""
    batch = Batch(tx)
    batch.accept_parts(customer, parts, origin)
    batch.write()
