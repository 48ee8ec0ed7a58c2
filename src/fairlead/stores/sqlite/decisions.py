"""What people decide about documents and customers: cancel, again, pause, caps, reset."""

from __future__ import annotations

from typing import Any

import apsw

from fairlead.core.documents import CustomerSettings, EventKind
from fairlead.core.states import Action, State, after
from fairlead.errors import PendingCapReached, UnknownDocument
from fairlead.stores.sqlite import line, rows
from fairlead.stores.sqlite.acceptance import add_customer
from fairlead.stores.sqlite.queries import sql
from fairlead.stores.sqlite.reading import unknown_customer
from fairlead.stores.sqlite.record import add_event


def cancel(connection: apsw.Connection, id_: str, now: float) -> None:
    """Cancel a pending document; one that is cancelled already stays so."""
    document, customer, state = _find(connection, id_)
    if state is State.CANCELLED:
        return
    after(state, Action.CANCEL)
    connection.execute(sql("cancel_document"), (now, document))
    was_waiting = state is State.WAITING
    line.refresh(connection, customer, waiting=-was_waiting, processing=was_waiting - 1)
    add_event(connection, now, EventKind.CANCELLED, customer, document)


def again(connection: apsw.Connection, id_: str, now: float) -> None:
    """Queue a failed or cancelled document once more, at its own place; a pending one stays."""
    document, customer, state = _find(connection, id_)
    if state.is_pending:
        return
    after(state, Action.AGAIN)
    _check_room(connection, customer)
    connection.execute(sql("again_document"), (document,))
    line.refresh(connection, customer, waiting=1)
    add_event(connection, now, EventKind.AGAIN, customer, document)


def add(connection: apsw.Connection, name: str, now: float) -> bool:
    """Add a customer; False: it was there."""
    if connection.execute(sql("customer_id"), (name,)).get is not None:
        return False
    add_customer(connection, name, now)
    return True


def set_customer(
    connection: apsw.Connection, name: str, settings: CustomerSettings, now: float
) -> None:
    """Replace the customer's own settings."""
    customer = find_customer(connection, name)
    connection.execute(
        sql("set_customer"),
        (
            settings.processing_cap,
            settings.pending_cap,
            settings.reset_interval,
            rows.thresholds_to(settings.thresholds),
            customer,
        ),
    )
    _changed(connection, customer, EventKind.CUSTOMER_SET, now, **_set_fields(settings))


def pause(connection: apsw.Connection, name: str, now: float, *, paused: bool) -> None:
    """Pause or resume: a paused customer's documents wait, and are accepted all the same."""
    customer = find_customer(connection, name)
    if connection.execute(sql("set_paused"), (int(paused), customer)).get is None:
        return  # it was so before: nothing to tell
    kind = EventKind.CUSTOMER_PAUSED if paused else EventKind.CUSTOMER_RESUMED
    _changed(connection, customer, kind, now)


def reset(connection: apsw.Connection, name: str, now: float) -> None:
    """Forget the count: the next document is checked as the first ever."""
    customer = find_customer(connection, name)
    connection.execute(sql("reset_customer"), (customer,))
    _changed(connection, customer, EventKind.CUSTOMER_RESET, now)


def find_customer(connection: apsw.Connection, name: str) -> int:
    """The number of a customer's row."""
    customer: int | None = connection.execute(sql("customer_id"), (name,)).get
    if customer is None:
        raise unknown_customer(name)
    return customer


def _changed(
    connection: apsw.Connection, customer: int, kind: EventKind, now: float, **data: Any
) -> None:
    line.refresh(connection, customer)
    add_event(connection, now, kind, customer, **data)


def _set_fields(settings: CustomerSettings) -> dict[str, Any]:
    fields = {name: getattr(settings, name) for name in CustomerSettings.__slots__}
    return {name: value for name, value in fields.items() if value is not None}


def _find(connection: apsw.Connection, id_: str) -> tuple[int, int, State]:
    row = connection.execute(sql("find_document"), (id_,)).fetchone()
    if row is None:
        raise UnknownDocument(f"no document has the id {id_!r}; see: fairlead docs list")
    document, customer, state = row
    return document, customer, State(state)


def _check_room(connection: apsw.Connection, customer: int) -> None:
    row = connection.execute(sql("pending_room"), (customer,)).fetchone()
    assert row is not None  # noqa: S101 (its document was found in this transaction)
    cap, pending, name = row
    if cap is not None and pending >= cap:
        raise PendingCapReached(
            f"customer {name!r} is at its cap of {cap} pending documents (pending: {pending}); "
            "retry when some are done"
        )
