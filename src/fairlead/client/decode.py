"""JSON of the API as the things it stands for: the inverse of `fairlead.model.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from fairlead.model.access_keys import Key
from fairlead.model.documents import Document, Event, EventKind, Place
from fairlead.model.json_document import CustomerView, seconds_of
from fairlead.model.states import State
from fairlead.model.webhooks import Delivery, Status, Webhook
from fairlead.policy.explain import Explanation, Reason
from fairlead.policy.fairness import Fairness, Overdue, Share
from fairlead.policy.forecast import Forecast

Json = Mapping[str, Any]
_KINDS = frozenset(each.value for each in EventKind)
_TIMES = ("submitted_at", "started_at", "finished_at")


class Page(NamedTuple):
    """Documents, newest first. `next` is the cursor of the next page; None: this is the last."""

    documents: list[Document]
    next: str | None


class Me(NamedTuple):
    """Whose the key is, and what one request may bring. No customer: an operator's."""

    key: str
    customer: str | None
    max_document_bytes: int
    max_upload_bytes: int
    max_upload_files: int

    @property
    def is_operator(self) -> bool:
        """Whether the key opens everything."""
        return self.customer is None


def document(found: Json) -> Document:
    """A document. Where its text is kept is the server's own business, so those fields are None."""
    plain = {name: value for name, value in found.items() if name in Document._fields}
    times = {name: seconds_of(found.get(name)) for name in _TIMES}
    return Document(**plain | times | {"state": State(found["state"])})


def documents(found: Json) -> list[Document]:
    """The documents of an answer that has one or several."""
    return [document(each) for each in found.get("documents", [found])]


def page(found: Json) -> Page:
    """A page of documents."""
    return Page(documents(found), found["next"])


def me(found: Json) -> Me:
    """Whose the key is."""
    return Me(found["key"], found["customer"], **found["limits"])


def customer(found: Json) -> CustomerView:
    """A customer."""
    known = {each.name for each in fields(CustomerView)}
    plain = {name: value for name, value in found.items() if name in known}
    own = found["thresholds"]
    return CustomerView(
        **plain
        | {
            "thresholds": None if own is None else tuple(own),
            "created_at": _time(found["created_at"]),
        }
    )


def fairness(found: Json) -> Fairness:
    """How fair the queue is."""
    overdue = found["most_overdue"]
    return Fairness(
        policy=found["policy"],
        workers=found["workers"],
        waiting_customers=found["waiting_customers"],
        jain=found["jain_index"],
        shares=tuple(Share(each["name"], each["done"], each["due"]) for each in found["accounts"]),
        most_overdue=None if overdue is None else Overdue(overdue["customer"], overdue["seconds"]),
        lane_share=found["lane_share"],
        longest=found["longest_document"],
        start_bound=found["start_bound"],
    )


def overview(found: Json) -> tuple[list[CustomerView], Fairness]:
    """All customers, and how fair the queue is."""
    return [customer(each) for each in found["customers"]], fairness(found["fairness"])


def keys(found: Json) -> list[Key]:
    """Keys."""
    return [key(each) for each in found["keys"]]


def key(found: Json) -> Key:
    """A key; what the server keeps of its secret stays there."""
    made = _time(found["created_at"])
    return Key(found["id"], found["customer"], "", made, seconds_of(found["revoked_at"]))


def explanation(found: Json) -> Explanation:
    """Why a document has its place."""
    reasons = tuple(Reason(each["code"], each["params"]) for each in found["reasons"])
    return Explanation(found["id"], reasons, _place(found["ahead"]), _forecast(found["forecast"]))


def event(found: Json) -> Event | None:
    """Something that happened; customers are not told who decided it.

    None: of a kind that only a newer Fairlead knows.
    """
    if found["kind"] not in _KINDS:
        return None
    return Event(
        seq=found["seq"],
        at=_time(found["at"]),
        kind=EventKind(found["kind"]),
        customer=found["customer"],
        document=found["document"],
        data=found["data"],
        actor=found.get("actor"),
    )


def webhooks(found: Json) -> list[Webhook]:
    """Webhooks."""
    return [webhook(each) for each in found["webhooks"]]


def webhook(found: Json) -> Webhook:
    """A webhook, without its secret."""
    return Webhook(
        id=found["id"],
        customer=found["customer"],
        url=found["url"],
        kinds=tuple(found["kinds"]),
        enabled=found["enabled"],
        created_at=_time(found["created_at"]),
        failing_since=seconds_of(found["failing_since"]),
        disabled_because=found["disabled_because"],
    )


def deliveries(found: Json) -> tuple[list[Delivery], str | None]:
    """A page of deliveries, and the cursor of the next one."""
    return [delivery(each) for each in found["deliveries"]], found["next"]


def delivery(found: Json) -> Delivery:
    """Something told to a webhook, or to be told."""
    return Delivery(
        id=found["id"],
        webhook=found["webhook"],
        kind=found["kind"],
        document=found["document"],
        status=Status(found["status"]),
        created_at=_time(found["created_at"]),
        attempts=found["attempts"],
        next_at=seconds_of(found["next_at"]),
        last_at=seconds_of(found["last_at"]),
        code=found["code"],
        answer=found["answer"],
        error=found["error"],
    )


def _time(moment: str) -> float:
    seconds = seconds_of(moment)
    if seconds is None:
        raise ValueError("a time that is always there is missing")
    return seconds


def _place(ahead: Json | None) -> Place | None:
    if ahead is None:
        return None
    most = tuple((each["customer"], each["documents"]) for each in ahead.get("most", ()))
    return Place(
        ahead["own_documents"],
        ahead["other_documents"],
        ahead["other_customers"],
        seconds=ahead["seconds"],
        most=most,
    )


def _forecast(found: Json | None) -> Forecast | None:
    if found is None:
        return None
    return Forecast(*(_time(found[name]) for name in Forecast._fields))
