"""Texts of pages by their codes, and the set of all texts for the catalogues."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, nodes

from fairlead.model.customers import customer_settings
from fairlead.policy.explain import Plural

STATES = {
    "waiting": "waiting",
    "processing": "processing",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
FAILURES = {
    "unsupported": "unsupported kind",
    "damaged": "damaged",
    "encrypted": "password required",
    "too-large": "too large",
    "empty": "no content",
    "corrupt": "damaged after acceptance",
    "memory-limit": "too much memory needed",
    "time-limit": "took too long",
    "crashed": "could not be read",
    "bad-answer": "could not be read safely",
    "worker-lost": "worker lost",
    "step-failed": "a step failed",
}
"""Short texts of failure codes."""
UNREAD = "unread"
"""In place of a failure code: the document is done, but has no text."""
NOTES = FAILURES | {UNREAD: "no text could be read"}
FACTS = {
    "title": "Title",
    "author": "Author",
    "created": "Created",
    "language": "Language",
    "pages": "Page count",
    "ocr_pages": "Pages with OCR",
    "words": "Words",
    "parts_left_out": "Attachments left out",
    "extractor": "Read by",
}
"""Labels of facts."""
INVOICE_FACTS = {
    "number": "Invoice number",
    "date": "Invoice date",
    "total": "Total",
    "due": "Amount due",
    "currency": "Currency",
    "seller": "Seller",
    "buyer": "Buyer",
}
HISTORY = {
    "submitted": "submitted",
    "claimed": "attempt {attempt} started, on {worker}",
    "claimed-lane": "attempt {attempt} started through the overdue lane, on {worker}",
    "began": "attempt started",
    "progress": "progress: {pages_done} of {pages}",
    "done": "done, processing time {seconds}",
    "failed": "failed: {error}",
    "requeued": "the attempt failed ({error}); the next one starts in {delay}",
    "later": "the step asked to be called again in {delay}",
    "released": "requeued; the attempt does not count",
    "moved": "moved to the queue {queue} for its next steps",
    "rescued": "requeued, because its worker was lost",
    "cancelled": "cancelled",
    "retried": "retried",
    "deleted": "deleted",
    "changed": "changed",
    "parts-done": "the last attachment has ended",
}
"""Entries of a document's history, by the kind of the event."""
CLASSES = {
    "light": "light: up to {light} an hour",
    "medium": "medium: up to {heavy} an hour",
    "heavy": "heavy: more than {heavy} an hour",
}
SHOWS = {"all": "all customers", "waiting": "waiting customers", "paused": "paused customers"}
DECISIONS = {
    "pause": (
        "Pause {customer}?",
        "Its documents will wait until it is resumed. Documents that are "
        "processing continue, and new documents are accepted.",
        "Pause",
    ),
    "resume": (
        "Resume {customer}?",
        "Its documents will be processed again, in their order.",
        "Resume",
    ),
    "reset": (
        "Reset the count of {customer}?",
        "Its next document gets count 0. Waiting documents keep their places.",
        "Reset the count",
    ),
    "block": (
        "Block {customer}?",
        "Its new documents will be refused with this reason. Documents that it has are "
        "processed, and it can still read its results.",
        "Block",
    ),
    "unblock": ("Unblock {customer}?", "Its new documents will be accepted again.", "Unblock"),
    "delete": (
        "Delete {customer}?",
        "All its documents, texts, keys, links and webhooks will be deleted, and its name in "
        "events. Its usage stays as numbers, without a name. This cannot be undone.",
        "Delete",
    ),
}
"""The question, what happens then, and the button of each decision."""
DONE_WITH_CUSTOMER = {
    "pause": "The customer is paused.",
    "resume": "The customer was resumed.",
    "reset": "The count was reset.",
    "set": "The settings were saved.",
    "block": "The customer is blocked.",
    "unblock": "The customer was unblocked.",
    "delete": "The customer was deleted.",
}
WITH_DOCUMENTS = {
    "cancel": Plural("number", "Cancel {number} document?", "Cancel {number} documents?"),
    "retry": Plural("number", "Retry {number} document?", "Retry {number} documents?"),
    "delete": Plural("number", "Delete {number} document?", "Delete {number} documents?"),
}
BUTTONS = {
    "cancel": Plural("number", "Cancel {number} document", "Cancel {number} documents"),
    "retry": Plural("number", "Retry {number} document", "Retry {number} documents"),
    "delete": Plural("number", "Delete {number} document", "Delete {number} documents"),
}
FOLLOWS = {
    "cancel": "Waiting documents leave the queue, and documents that are processing are stopped. "
    "Documents that have ended do not change.",
    "retry": "Each document returns to its place in the queue, with all its attempts.",
    "delete": "Originals, texts and results are deleted; pending documents are cancelled first. "
    "Events stay, without contents. This cannot be undone.",
}
"""What follows from each decision about documents."""
RESULT_STAYS = "The result of one that is done can be read until a new one replaces it."
PARTS_STAY = "Attachments are documents of their own, and stay."
NOTHING_TO = {
    "cancel": "Nothing to cancel",
    "retry": "Nothing to retry",
    "delete": "Nothing to delete",
}
NONE_ALLOWED = {
    "cancel": "None of them is pending, so there is nothing to cancel.",
    "retry": "None of these documents can be retried now.",
    "delete": "None of these documents exists any more.",
}
NOTHING_SELECTED = "No document is selected"
HOW_TO_SELECT = "Select documents with the boxes before their names, then choose again."
DONE_WITH_DOCUMENTS = {
    "cancel": Plural(
        "number", "{number} document was cancelled.", "{number} documents were cancelled."
    ),
    "retry": Plural(
        "number", "{number} document was queued again.", "{number} documents were queued again."
    ),
    "delete": Plural(
        "number", "{number} document was deleted.", "{number} documents were deleted."
    ),
}
LEFT_OUT = {
    "left": Plural(
        "number",
        "{number} was left as it is, because its state had changed.",
        "{number} were left as they are, because their states had changed.",
    ),
    "without_password": Plural(
        "number",
        "{number} was left as it is, because it needs a password.",
        "{number} were left as they are, because they need a password.",
    ),
}
WRONG_KEY = "Invalid API key. Check that you copied all of it and that it was not revoked."
KEY_OF_PROGRAM = (
    "The API key of a service or a worker does not open the dashboard. "
    "Log in with the key of a customer, a viewer or an operator."
)
OLD_LINK = "This login link has expired or was used. Print a new one: fairlead login"
ANOTHER_SITE = "The request did not come from the dashboard, so nothing was changed."


def sentences(environment: Environment) -> set[str]:
    tables = [
        *(STATES, NOTES, FACTS, INVOICE_FACTS, HISTORY, CLASSES, SHOWS),
        *(DONE_WITH_CUSTOMER, FOLLOWS, NOTHING_TO, NONE_ALLOWED),
    ]
    return {
        *(text for table in tables for text in table.values()),
        *(text for texts in DECISIONS.values() for text in texts),
        *(text for field in customer_settings() for text in (field.label, field.hint) if text),
        RESULT_STAYS,
        PARTS_STAY,
        NOTHING_SELECTED,
        HOW_TO_SELECT,
        WRONG_KEY,
        KEY_OF_PROGRAM,
        OLD_LINK,
        ANOTHER_SITE,
        *(args[0] for name, args in _calls(environment) if name == "_"),
    }


def plurals(environment: Environment) -> set[Plural]:
    return {
        *LEFT_OUT.values(),
        *WITH_DOCUMENTS.values(),
        *BUTTONS.values(),
        *DONE_WITH_DOCUMENTS.values(),
        *(Plural("number", *args[:2]) for name, args in _calls(environment) if name == "n_"),
    }


@cache
def _calls(environment: Environment) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Every call of `_` and `n_` in the templates, with its constant arguments."""
    loader, calls = environment.loader, list[tuple[str, tuple[Any, ...]]]()
    for name in environment.list_templates(extensions=["html"]):
        source = loader.get_source(environment, name)[0] if loader else ""
        for call in environment.parse(source).find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name in ("_", "n_"):
                constants = tuple(arg.value for arg in call.args if isinstance(arg, nodes.Const))
                if constants:
                    calls.append((call.node.name, constants))
    return tuple(calls)
