"""Failure codes, each with a sentence for the customer that says what to do."""

from __future__ import annotations

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
