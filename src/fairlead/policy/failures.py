"""Failure codes, each with a sentence for the customer that says what to do."""

from __future__ import annotations

from enum import StrEnum

STEP_FAILED = "step-failed"

SENTENCES = {
    "unsupported": "This kind of document is not supported; send it in another format.",
    "damaged": "The document is damaged; open it, save a new copy and send that.",
    "encrypted": "The document is protected by a password; send it again with its password.",
    "too-large": "The document is too large to be read; split it and send the parts.",
    "empty": "The document has no content.",
    "corrupt": "The document was damaged after it was accepted; send it again.",
    "memory-limit": "Reading the document needed too much memory; split it and send the parts.",
    "time-limit": "Reading the document took too long; split it and send the parts.",
    "crashed": "The document could not be read; send it in another format.",
    "bad-answer": "The document could not be read safely; send it in another format.",
    "worker-lost": "Processing was interrupted several times; ask the operator to look into it.",
    STEP_FAILED: "The document could not be processed; ask the operator to look into it.",
}


class Remedy(StrEnum):
    """What may help after a failure."""

    RETRY = "retry"
    PASSWORD = "password"  # noqa: S105 (a retry with the password of the document)
    OTHER_FILE = "other-file"
    """Another format, a repaired copy or smaller parts: the same bytes fail again."""


_REMEDIES = {
    "unsupported": Remedy.OTHER_FILE,
    "damaged": Remedy.OTHER_FILE,
    "encrypted": Remedy.PASSWORD,
    "too-large": Remedy.OTHER_FILE,
    "empty": Remedy.OTHER_FILE,
    "corrupt": Remedy.OTHER_FILE,
}


def remedy(code: str | None) -> Remedy:
    """What may help a document with this failure code; None: it did not fail.

    A limit, a crash, a lost worker or a step may be mended meanwhile, so a retry may help.
    """
    return _REMEDIES.get(code or "", Remedy.RETRY)


def may_succeed(code: str | None, *, has_password: bool = False) -> bool:
    """Whether a retry of a document with this failure code may succeed."""
    return remedy(code) is Remedy.RETRY or (remedy(code) is Remedy.PASSWORD and has_password)
