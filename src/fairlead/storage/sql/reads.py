"""Reads of the store. They change nothing and do not wait for writers."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from fairlead.errors import Message, UnknownCustomer, UnknownDocument, UnknownKey
from fairlead.model.customers import CustomerRecord, CustomerSettings, Fairness
from fairlead.model.documents import (
    CheckedDocument,
    Document,
    Event,
    JobEnd,
    ShortTexts,
    StoredDocument,
    StoredResult,
    Tally,
    Totals,
)
from fairlead.model.keys import Key, StoredKey
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.model.results import AskingStep, Content, decode_interim
from fairlead.model.states import State
from fairlead.model.submissions import index_term
from fairlead.model.usage import Usage, day_name
from fairlead.policy import fairness as figures
from fairlead.policy.fair import Place
from fairlead.policy.queue_events import Tallied
from fairlead.policy.rules import Rules
from fairlead.storage.sql import rows
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import LoadedQueue, decode_events, load_folded
from fairlead.storage.sql.quotas import serving_workers

_ANY = 2**62
_OF_NUMBERS = " WHERE d.seq IN (SELECT value FROM json_each(?))"
_NUMBERED = rows.DOCUMENT.select.replace(" FROM documents d ", ", d.seq FROM documents d ", 1)
LAST_ID = 26 * "z"
"""Sorts after the rest of every id."""


def document(connection: Connection, rules: Rules, id_: str) -> Document:
    row = connection.execute(rows.DOCUMENT.select + " WHERE d.id = ?", (id_,)).fetchone()
    if row is None:
        raise unknown_document(id_)
    return rows.document_from(row, rules)


def stored_document(connection: Connection, id_: str) -> StoredDocument:
    row = connection.execute(sql("stored_document"), (id_,)).fetchone()
    if row is None:
        raise unknown_document(id_)
    return StoredDocument(*row)


def unknown_document(id_: str) -> UnknownDocument:
    return UnknownDocument(f"no document has the id {id_!r}; see: fairlead docs list")


def documents(
    connection: Connection,
    rules: Rules,
    *,
    customer: str | None,
    state: State | None,
    priority: int | None,
    pipeline: str | None,
    parent: str | None,
    id_prefix: str | None,
    name: str | None,
    reference: str | None,
    metadata: Mapping[str, str],
    batch: str | None,
    before: str | None,
    limit: int,
) -> list[Document]:
    filters: list[tuple[str, Any]] = [
        ("d.customer = (SELECT id FROM customers WHERE name = ?)", customer),
        ("d.priority = ?", priority),
        (_pipeline_condition(pipeline), pipeline),
        (f"d.parent = ({sql('seq_of_document')})", parent),
        ("d.id >= ?", id_prefix),
        ("d.id <= ?", id_prefix and id_prefix + LAST_ID),
        ("lower(d.name) LIKE lower(?) ESCAPE '\\'", name and _containing(name)),
        ("d.reference = ?", reference),
        ("d.batch = ?", batch),
        (sql("before_document"), before),
    ]
    of_metadata = "d.seq IN (SELECT document FROM metadata_terms WHERE key = ? AND value = ?)"
    filters += [(of_metadata, index_term(*item)) for item in metadata.items()]
    filters = [(condition, value) for condition, value in filters if value is not None]
    conditions = [condition for condition, _ in filters] + _state_conditions(state)
    where = " WHERE " + " AND ".join(conditions) if conditions else ""
    has_few = bool(reference or metadata or batch or parent)
    index = None if has_few else _index(customer, state, pipeline)
    if index is not None and state is not State.PROCESSING and connection.is_remote:
        connection.execute(sql("walk_in_order"))
    query = _select(index) + where + " ORDER BY d.seq DESC LIMIT ?"
    values: list[Any] = []
    for _, value in filters:
        values += value if isinstance(value, tuple) else (value,)
    selected = connection.execute(query, (*values, limit))
    return [rows.document_from(row, rules) for row in selected]


def _select(index: str | None) -> str:
    """The SELECT of documents, by this index."""
    if index is None:
        return rows.DOCUMENT.select
    return rows.DOCUMENT.select.replace("documents d", f"documents d INDEXED BY {index}", 1)


def _index(customer: str | None, state: State | None, pipeline: str | None) -> str | None:
    """An index with the filtered documents in order, so that the cost of a list follows its page.

    Most documents of a pipeline are done, so for other states the index by state has fewer rows.
    """
    if pipeline not in (None, DEFAULT_PIPELINE) and state in (None, State.DONE):
        return "documents_of_pipeline" if customer is None else "documents_of_customer_by_pipeline"
    if state is None:
        return None
    return "documents_by_state" if customer is None else "documents_of_customer_by_state"


def _pipeline_condition(pipeline: str | None) -> str:
    """The indexes of pipelines leave out the default one; a condition that says so can use them."""
    is_default = pipeline in (None, DEFAULT_PIPELINE)
    return "d.pipeline = ?" + ("" if is_default else f" AND d.pipeline <> '{DEFAULT_PIPELINE}'")


def _state_conditions(state: State | None) -> list[str]:
    """Conditions on the state whose cost follows the page, not the table."""
    match state:
        case None:
            return []
        case State.PROCESSING:
            return ["d.state = 'waiting'", "d.seq IN (SELECT document FROM running)"]
        case State.WAITING:
            return ["d.state = 'waiting'", "r.document IS NULL"]
        case _:
            return [f"d.state = '{state.value}'"]


def _containing(part: str) -> str:
    """A LIKE pattern for texts that contain this one, with special characters escaped."""
    escaped = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def latest_checks(connection: Connection, customer: str, limit: int) -> list[CheckedDocument]:
    """The checks of a customer's newest documents, newest first."""
    selected = connection.execute(sql("latest_checks"), (customer, limit))
    return [CheckedDocument(*row) for row in selected]


# --- results ---


def ends(
    connection: Connection, after: int, limit: int, customer: str | None, last: int | None
) -> list[tuple[int, Document]]:
    """Documents that have ended, in order of completion, with the numbers of those events."""
    bounds = (after, _ANY if last is None else last, limit)
    if customer is None:
        end_events = connection.execute(sql("ends"), bounds).fetchall()
    else:
        end_events = connection.execute(sql("ends_of_customer"), (customer, *bounds)).fetchall()
    if not end_events:
        return []
    numbers = (connection.array([document for _, document in end_events]),)
    query = _NUMBERED + _OF_NUMBERS
    ended = {row[-1]: rows.DOCUMENT.read(row[:-1]) for row in connection.execute(query, numbers)}
    return [(number, ended[document]) for number, document in end_events]


def stored_results(
    connection: Connection, ids: Sequence[str], roles: Sequence[str]
) -> list[StoredResult]:
    """The results of documents in these roles; large ones have the key of a blob instead."""
    values = (connection.array(list(ids)), connection.array(list(roles)))
    return [StoredResult(*row) for row in connection.execute(sql("results_of"), values)]


# --- usage ---


def usage(connection: Connection, customer: str | None, first: int, last: int) -> list[Usage]:
    """The usage of customers from one day to another."""
    if customer is None:
        selected = connection.execute(sql("usage"), (first, last))
    else:
        selected = connection.execute(sql("usage_of_customer"), (customer, first, last))
    return [
        Usage(name, day_name(day), documents, pages, ocr_pages, size, round(seconds, 3), failures)
        for name, day, documents, pages, ocr_pages, size, seconds, failures in selected
    ]


# --- customers and the queue ---


def customer_row(connection: Connection, name: str) -> rows.Row:
    """The row of a customer, for `customer`."""
    row = connection.execute(rows.CUSTOMER_SELECT + " WHERE c.name = ?", (name,)).fetchone()
    if row is None:
        raise unknown_customer(name)
    return row


def customer(
    connection: Connection, rules: Rules, now: float, row: rows.Row, *, among_others: bool = False
) -> CustomerRecord:
    """A customer, with its numbers in the queue; the connection sees all customers."""
    loaded = load_folded(connection, rules, {row[0]}, with_touched=among_others)
    loaded.load_unknown(1)
    count_places = _counter_of_places(connection, loaded) if among_others else lambda _: (0, 0)
    return _customer(row, loaded, now, count_places)


def _counter_of_places(connection: Connection, loaded: LoadedQueue) -> figures.CountPlaces:
    """Counts places: those of loaded members in memory, all others in the database."""
    count_loaded = figures.counter_of_places(loaded.queue)
    others = connection.array(sorted(loaded.queue.members))

    def count(place: Place) -> tuple[int, int]:
        before, beyond = count_loaded(place)
        row = connection.execute(sql("places_before"), (*place, others)).get
        return before + row[0], beyond + row[1]

    return count


def unknown_customer(name: str, *, hint: str = "see: fairlead customers list") -> UnknownCustomer:
    return UnknownCustomer(Message("unknown customer {name}", name=repr(name), hint=hint))


def customer_rows(connection: Connection, names: Collection[str] | None) -> list[rows.Row]:
    """The rows of the customers of these names, or of all, for `customers`."""
    where = "" if names is None else " WHERE c.name IN (SELECT value FROM json_each(?))"
    values = () if names is None else (connection.array(sorted(names)),)
    query = rows.CUSTOMER_SELECT + where + " ORDER BY c.name"
    return connection.execute(query, values).fetchall()


def customers(
    connection: Connection,
    rules: Rules,
    now: float,
    selected: Sequence[rows.Row],
    ids: Collection[int] | None,
) -> list[CustomerRecord]:
    """Customers with their numbers in the queue; `ids`: None for all."""
    loaded = load_folded(connection, rules, ids)
    loaded.load_unknown(1)
    count_places = figures.counter_of_places(loaded.queue)
    return [_customer(row, loaded, now, count_places) for row in selected]


def _customer(
    row: rows.Row, loaded: LoadedQueue, now: float, count_places: figures.CountPlaces
) -> CustomerRecord:
    own = rows.CustomerRow(*row[:9])
    created_at, weight = row[9:]
    member = loaded.queue.members.get(own.id) or loaded.queue.member(own.id)
    oldest = [
        entry.oldest[1] for entry in member.entries.values() if entry.waiting and entry.oldest
    ]
    settings: CustomerSettings = own.own_settings
    if weight is not None:
        settings = replace(settings, weight=weight)
    standing = None
    if loaded.queue.is_fair:
        standing = figures.standing(loaded.queue, own.id, now, count_places)
    return CustomerRecord(
        name=own.name,
        created_at=created_at,
        counter=own.counter,
        paused=bool(own.paused),
        settings=settings,
        waiting=member.waiting,
        processing=member.processing,
        last_started_at=member.last_started_at,
        oldest_waiting_at=min(oldest, default=None),
        standing=standing,
    )


def tallies(connection: Connection) -> list[Tally]:
    """How many documents of each priority are in each state, including unfolded events."""
    numbers: Counter[tuple[str, int]] = Counter()
    for state, priority, number in connection.execute(sql("tallies")):
        numbers[state, priority] += number
    for event in _events(connection):
        if isinstance(event, Tallied):
            numbers[event.state, event.priority] += event.documents
    return [Tally(*key, number) for key, number in sorted(numbers.items()) if number]


def _events(connection: Connection) -> list[Any]:
    rows_ = connection.execute(sql("unfolded_events"), (1_000_000,))
    return [event for _, body in rows_ for event in decode_events(body)]


def totals(connection: Connection) -> Totals:
    numbers: defaultdict[str, int] = defaultdict(int)
    for tally in tallies(connection):
        numbers[tally.state] += tally.documents
    known: int = connection.execute(sql("number_of_customers")).get
    return Totals(numbers["waiting"], numbers["processing"], known)


def claimable(connection: Connection, rules: Rules, now: float, most: int) -> int:
    """About how many documents could start now, counted up to `most`."""
    loaded = LoadedQueue(connection, rules).read()
    loaded.load_members(loaded.touched())
    loaded.load_best(loaded.pipelines, most)
    loaded.fold()
    loaded.load_unknown(1)
    queue = loaded.queue
    closed = {name for name, quota in queue.state.quotas.items() if not quota.is_open(now)}
    number = sum(
        entry.waiting
        for entry in queue.all_entries()
        if queue.place_of(entry) is not None
        and not entry.member.is_account
        and entry.pipeline not in closed
    )
    number += len(connection.execute(sql("due_documents"), (now,)).fetchall())
    number += bool(connection.execute(sql("has_expired"), (now,)).get)
    return min(most, number)


def fairness(connection: Connection, rules: Rules, now: float) -> Fairness:
    loaded = load_folded(connection, rules, None)
    loaded.load_unknown(1)
    names = {-id_: name for id_, name in connection.execute(sql("account_names"))}
    names |= dict(connection.execute(sql("customer_names")).fetchall())
    left = sum(
        max(0.0, estimate - (now - started_at))
        for started_at, estimate, *_ in connection.execute(sql("running_documents"))
    )
    return figures.figures(
        loaded.queue,
        names=names,
        now=now,
        workers=connection.execute(sql("workers"), (now,)).get,
        served=serving_workers(connection, rules, now),
        longest=loaded.longest,
        running_left=left,
        lane_claims=loaded.stored.lane_claims,
        claims=loaded.stored.claims,
    )


def is_idle(
    connection: Connection, _rules: Rules, now: float, pipelines: Sequence[str] | None
) -> bool:
    """Whether nothing runs, and nothing will run without an operator or before a later time."""
    if pipelines is None:
        return not connection.execute(sql("is_busy"), (now,)).get
    values = (now, connection.array(list(pipelines)))
    return not connection.execute(sql("is_busy_with"), values).get


# --- events, keys, contents ---


def events(
    connection: Connection, after: int, limit: int, customer: str | None, last: int | None = None
) -> list[Event]:
    """Events after a number, up to the `last` one that may be read."""
    of_one = (
        "" if customer is None else "e.customer = (SELECT id FROM customers WHERE name = ?) AND "
    )
    query = f"{rows.EVENT.select} WHERE {of_one}e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?"
    bounds = (after, 2**62 if last is None else last, limit)
    values = bounds if customer is None else (customer, *bounds)
    return [rows.EVENT.read(row) for row in connection.execute(query, values)]


def events_of(connection: Connection, document: str) -> list[Event]:
    query = rows.EVENT.select + f" WHERE e.document = ({sql('seq_of_document')}) ORDER BY e.seq"
    return [rows.EVENT.read(row) for row in connection.execute(query, (document,))]


def audit(connection: Connection, before: int | None, limit: int) -> list[Event]:
    query = rows.EVENT.select + (
        " WHERE e.actor IS NOT NULL AND e.seq < ? ORDER BY e.seq DESC LIMIT ?"
    )
    newest = 2**62 if before is None else before
    return [rows.EVENT.read(row) for row in connection.execute(query, (newest, limit))]


def key(connection: Connection, id_: str) -> Key:
    row = connection.execute(rows.KEY.select + " WHERE k.id = ?", (id_,)).fetchone()
    if row is None:
        raise unknown_key(id_)
    return rows.KEY.read(row)


def stored_key(connection: Connection, id_: str) -> StoredKey:
    return StoredKey(key(connection, id_), connection.execute(sql("access_key_sha256"), (id_,)).get)


def unknown_key(id_: str) -> UnknownKey:
    return UnknownKey(
        Message("no API key has the id {id}", id=repr(id_), hint="see: fairlead keys list")
    )


def keys(connection: Connection) -> list[Key]:
    query = rows.KEY.select + " ORDER BY k.created_at, k.id"
    return [rows.KEY.read(row) for row in connection.execute(query)]


def deleted_customer(connection: Connection, id_: str) -> str | None:
    name: str | None = connection.execute(sql("deleted_customer"), (id_,)).get
    return name


def original(connection: Connection, id_: str) -> bytes | None:
    """The bytes of a short document, which the database stores; None: they are a blob."""
    content: bytes | None = connection.execute(sql("original"), (id_,)).get
    return content


def short_texts(connection: Connection, id_: str) -> ShortTexts | None:
    """The texts of a document that the database stores; None: they are blobs."""
    text = result_content(connection, id_, "text", "")
    return (
        None if text is None else ShortTexts(text, result_content(connection, id_, "markdown", ""))
    )


def known_documents(connection: Connection, ids: Iterable[str]) -> set[str]:
    values = (connection.array(list(ids)),)
    return {row[0] for row in connection.execute(sql("known_documents"), values)}


def known_texts(connection: Connection, ids: Iterable[str]) -> set[str]:
    """The keys of the blobs of results, including those of documents between two steps."""
    values = (connection.array(list(ids)),)
    keys = {row[0] for row in connection.execute(sql("known_texts"), values)}
    for (interim,) in connection.execute(sql("interim_keys_of"), values):
        keys.update(json.loads(interim))
    return keys


def asking_steps(connection: Connection, least: int) -> list[AskingStep]:
    return [AskingStep(*row) for row in connection.execute(sql("asking_steps"), (least,))]


def job_end(connection: Connection, id_: str, fence: int) -> JobEnd | None:
    row = connection.execute(sql("job_end"), (id_, fence)).fetchone()
    return None if row is None else JobEnd(*row)


def interim_keys(connection: Connection) -> set[str]:
    """The keys of all blobs of documents between two steps."""
    return {key for (keys,) in connection.execute(sql("interim_keys")) for key in json.loads(keys)}


def results(connection: Connection, id_: str) -> list[tuple[str, Content]]:
    """The results of a document by role; contents in the database are not read."""
    return [
        (role, Content(size or 0, sha256, name, media_type, key))
        for role, name, media_type, size, sha256, key in connection.execute(sql("results"), (id_,))
    ]


def result_content(connection: Connection, id_: str, role: str, name: str) -> bytes | None:
    content: bytes | None = connection.execute(sql("result_content"), (id_, role, name)).get
    return content


def cause(connection: Connection, id_: str) -> str | None:
    """Why a document failed, or its last attempt at a step did; for operators."""
    row = connection.execute(sql("cause"), (id_,)).fetchone()
    if row is None:
        raise unknown_document(id_)
    own, body = row
    return own if own is not None or body is None else decode_interim(body).cause


def causes(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Why documents failed, by id; for operators."""
    return dict(connection.execute(sql("causes"), (connection.array(list(ids)),)).fetchall())


# --- for the doctor ---


def problems(connection: Connection, rules: Rules) -> list[str]:
    """Stored numbers that differ from what they count."""
    loaded = load_folded(connection, rules, None)
    loaded.load_unknown(1)
    names = dict(connection.execute(sql("customer_names")).fetchall())
    counted = {row[0]: row[1:] for row in connection.execute(sql("counted_pending"))}
    stored = {
        member.id: (member.waiting, member.processing)
        for member in loaded.queue.members.values()
        if not member.is_account
    }
    differ = sorted(
        names.get(id_, str(id_))
        for id_ in {*counted, *stored}
        if tuple(counted.get(id_, (0, 0))) != stored.get(id_, (0, 0))
    )
    problems = [
        f"the stored numbers of customer {name!r} differ from its documents" for name in differ
    ]
    by_state = {row[:2]: row[2] for row in connection.execute(sql("counted_tallies"))}
    if by_state != {
        (tally.state, tally.priority): tally.documents for tally in tallies(connection)
    }:
        problems.append("the stored numbers of states and priorities differ from the documents")
    wrong = connection.execute(sql("pending_rows")).get
    if wrong:
        problems.append(f"{wrong:,} documents are pending and not in the queue, or the reverse")
    misplaced = connection.execute(sql("misplaced_originals")).get
    if misplaced:
        problems.append(f"{misplaced:,} originals have no document, or another length")
    misplaced = connection.execute(sql("misplaced_results")).get
    if misplaced:
        problems.append(f"{misplaced:,} results have no document")
    return problems
