"""Documents that have ended without a worker process: the store is told what they became."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from fairlead import Fairlead
from fairlead.model.documents import Claim, Document, Done, Failed, NewDocument, ShortTexts
from fairlead.model.names import new_id

MANY = 1000
"""More documents than wait in a test."""
DAMAGED = Failed("damaged", "the file ends in the middle")


def done_with(text: str, markdown: str | None = None) -> Done:
    """The outcome of a document with a short text."""
    layout = None if markdown is None else markdown.encode()
    return Done(
        "text/plain",
        {"words": len(text.split())},
        None,
        hashlib.sha256(text.encode()).hexdigest(),
        markdown_sha256=None if layout is None else hashlib.sha256(layout).hexdigest(),
        short=ShortTexts(text.encode(), layout),
    )


def claim_all(fairlead: Fairlead, number: int) -> list[Claim]:
    return fairlead.store.claim_for([f"worker {position}" for position in range(number)])


def add_done(fairlead: Fairlead, customer: str, texts: Iterable[str]) -> list[Document]:
    """Submit a document for each text, and let it become that text."""
    wanted = {}
    for text in texts:
        wanted[fairlead.submit(customer, text.encode(), name=f"{text[:20]}.txt").id] = text
    claims = claim_all(fairlead, len(wanted))
    claims.sort(key=lambda claim: [*wanted].index(claim.id))
    for claim in claims:
        fairlead.store.finish(claim, done_with(wanted[claim.id]))
    return [fairlead.document(id_) for id_ in wanted]


def add_failed(fairlead: Fairlead, customer: str) -> Document:
    document = fairlead.submit(customer, b"broken", name="broken.txt")
    (claim,) = claim_all(fairlead, 1)
    fairlead.store.finish(claim, DAMAGED)
    return fairlead.document(document.id)


def add_mail(fairlead: Fairlead, customer: str, parts: Iterable[str]) -> Document:
    """Submit an e-mail that is done, with a waiting part for each name."""
    mail = fairlead.submit(customer, b"From: someone", name="mail.eml")
    end_with_parts(fairlead, mail, parts)
    return fairlead.document(mail.id)


def end_with_parts(fairlead: Fairlead, mail: Document, parts: Iterable[str]) -> None:
    """Let a waiting document be done, with a waiting part for each name."""
    claims = claim_all(fairlead, MANY)
    fairlead.store.release([claim for claim in claims if claim.id != mail.id])
    (claim,) = (claim for claim in claims if claim.id == mail.id)
    content = b"short"
    sha256 = hashlib.sha256(content).hexdigest()
    new = tuple(
        NewDocument(new_id(fairlead.store.now()), name, len(content), sha256, content=content)
        for name in parts
    )
    fairlead.store.finish(claim, done_with("a letter")._replace(kind="eml", parts=new))
