"""The calls of both clients against a real server."""

from __future__ import annotations

import importlib.util
import inspect
import io
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from apikit import Served, served
from clientkit import Connect

from fairlead import AsyncClient, Client, Fairlead, errors
from fairlead.client.errors import error_of
from fairlead.errors import TYPE_PREFIX
from fairlead.model.explanations import Explanation
from fairlead.model.installation import Installation
from fairlead.model.json import to_dict
from fairlead.model.keys import Keys
from fairlead.model.states import State
from fairlead.policy.explain import with_words, words
from fairlead.server.problems import KINDS


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without workers, which may send webhooks to this machine."""
    data = tmp_path_factory.mktemp("idle") / "data"
    with served(data, "--workers", "0", webhook_networks="127.0.0.0/8") as running:
        yield running


def test_the_sync_client_is_generated_from_the_async_one() -> None:
    path = Path(__file__).resolve().parents[2] / "tools" / "generate_sync_client.py"
    spec = importlib.util.spec_from_file_location("generate_sync_client", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.main(["--check"]) == 0


def test_the_client_is_an_installation() -> None:
    client = Client("http://127.0.0.1:1", "fl_key")
    installation: Installation = client  # type checkers compare all signatures
    assert installation is client
    assert not inspect.iscoroutinefunction(Client.submit)
    assert inspect.iscoroutinefunction(AsyncClient.submit)


def test_a_document_from_submission_to_text(acme: Client, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html><title>Offer</title><h1>Offer</h1><p>Ten ropes</p></html>")
    document = acme.submit(page)
    assert (document.customer, document.name, document.state) == ("acme", "page.html", "waiting")
    ended = acme.wait(document)
    assert ended.state is State.DONE
    assert acme.document(document.id) == ended
    assert "Ten ropes" in acme.text(document.id)
    assert "# Offer" in acme.markdown(document.id)
    assert ended.facts["kind"] == "html"
    assert acme.why(document.id).reasons[1].code == "done"
    assert acme.original(document.id) == page.read_bytes()
    acme.download(document.id, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()
    acme.delete(document.id)
    with pytest.raises(errors.UnknownDocument):
        acme.document(document.id)


def test_sources_are_paths_bytes_and_files_from_where_they_stand(
    acme: Client, tmp_path: Path
) -> None:
    path = tmp_path / 'a "name" ü.txt'
    path.write_bytes(b"a path")
    file = io.BytesIO(b"skipped, kept")
    file.seek(9)
    reading, writing = os.pipe()
    os.write(writing, b"from a pipe")
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        documents = acme.submit_many(
            [path, str(path), b"bytes", (file, "file.txt"), (pipe, "pipe")]
        )
    assert [document.name for document in documents] == [
        path.name,
        path.name,
        "document",
        "file.txt",
        "pipe",
    ]
    contents = [acme.original(document.id) for document in documents]
    assert contents == [b"a path", b"a path", b"bytes", b"kept", b"from a pipe"]
    assert acme.submit_many([]) == []


def test_documents_are_listed_page_by_page(server: Served, connect: Connect) -> None:
    with connect(server.url, server.key(f"walker {connect.__name__}")) as client:
        sent = client.submit_many([b"x"] * 7, urgent=True)
        first = client.documents(limit=3)
        assert len(first.items) == 3
        assert client.documents(cursor=first.next, limit=4).next is None
        assert [document.id for document in first] == [document.id for document in reversed(sent)]
        client.wait(sent)
        done = list(client.documents(state="done", limit=2))
        assert [document.id for document in done] == [document.id for document in reversed(sent)]
        assert all(document.urgent for document in done)
        assert list(client.documents(priority=9)) == []


def test_pages_are_fetched_when_they_are_needed(server: Served) -> None:
    with Client(server.url, server.key("acme")) as client:
        sent = client.submit_many([b"p"] * 5)
        page = client.documents(limit=2)
    assert [document.id for document in islice(page, 2)] == [sent[4].id, sent[3].id]
    with pytest.raises(errors.UsageError, match="closed"):
        list(page)


def test_a_key_submits_for_its_own_customer_only(acme: Client, operator: Client) -> None:
    assert acme.submit(b"x", customer="acme").customer == "acme"
    with pytest.raises(errors.NotAllowed, match="that customer only"):
        acme.submit(b"x", customer="other")
    assert operator.submit(b"x", customer="acme").customer == "acme"


def test_waiting_has_an_end(idle: Served, connect: Connect) -> None:
    with connect(idle.url, idle.key("acme")) as client:
        document = client.submit(b"nobody works")
        with pytest.raises(errors.NotReady, match="waiting"):
            client.wait(document, timeout=0.05)
        with pytest.raises(errors.NotReady, match="its text is available when it is done"):
            client.text(document.id)
        assert client.cancel(document.id).state is State.CANCELLED
        assert client.cancel(document.id).state is State.CANCELLED
        assert client.retry(document.id).state is State.WAITING
        left: list[int] = []
        client.cancel(document.id)
        assert client.wait([document], on_progress=left.append)[0].id == document.id
        assert client.wait(document, on_progress=left.append).id == document.id
        assert left == [1, 0, 1, 0]


def test_one_that_is_deleted_meanwhile_does_not_stop_the_wait_for_others(
    idle: Served, connect: Connect
) -> None:
    key = idle.key("acme")
    with connect(idle.url, key) as client, Client(idle.url, key) as other:
        sent = client.submit_many([b"a", b"b", b"c"])
        client.cancel(sent[0].id)
        client.cancel(sent[2].id)
        numbers: list[int] = []

        def delete_one(left: int) -> None:
            numbers.append(left)
            if len(numbers) == 2:  # it was seen to be pending
                other.delete(sent[1].id)

        documents = client.wait([sent[0], *sent], on_progress=delete_one)
        assert [document.id for document in documents] == [sent[0].id, sent[0].id, sent[2].id]
        assert numbers[-1] == 0
        with pytest.raises(errors.UnknownDocument):
            client.wait(sent)


def test_an_operator_does_all_there_is_to_do(operator: Client, connect: Connect) -> None:
    assert operator.me().is_operator
    assert operator.customers.add("..").name == operator.customers.show("..").name == ".."
    with pytest.raises(errors.UnknownDocument):
        operator.document(".")
    name = f"sea side ü {connect.__name__}"
    customer = operator.customers.add(name)
    assert operator.customers.add(name).created_at == customer.created_at
    assert operator.customers.add(name, weight=3.0).weight == 3.0
    changed = operator.customers.set(name, weight=2.0, thresholds=(-1, -2), pending_cap=5)
    assert (changed.weight, changed.thresholds, changed.pending_cap) == (2.0, (-1, -2), 5)
    assert operator.customers.set(name, pending_cap=None).pending_cap is None
    assert operator.customers.pause(name).paused
    assert not operator.customers.resume(name).paused
    assert operator.customers.reset(name).count is None
    assert operator.customers.show(name) in operator.customers.list()
    assert operator.queue.fairness().policy == operator.queue.policy() == "classic"
    assert operator.queue.use_policy("classic") is None
    key, record = operator.keys.add(name)
    assert key.startswith(f"fl_{record.id}_")
    assert operator.keys.list(name) == [record]
    assert all(listed.operator for listed in operator.keys.list(operators=True))
    with connect(operator.url, key) as theirs:
        assert theirs.me().customer == name
        assert operator.keys.revoke(record.id).is_revoked
        with pytest.raises(errors.Unauthorized):
            theirs.me()
    assert operator.keys.add()[1].operator
    with pytest.raises(errors.UnknownKey):
        operator.keys.revoke("nobody")


def test_webhooks_are_kept_changed_tried_and_deleted(idle: Served, connect: Connect) -> None:
    with connect(idle.url, idle.key(f"hooked {connect.__name__}")) as client:
        hook, secret = client.webhooks.add("http://127.0.0.1:9/hook", ["document.done"])
        assert secret.startswith("whsec_")
        assert client.webhooks.list() == [hook] == [client.webhooks.show(hook.id)]
        tried = client.webhooks.test(hook.id)
        assert not client.webhooks.set(hook.id, enabled=False).enabled
        assert client.webhooks.set(hook.id, enabled=True).enabled
        assert [delivery.id for delivery in client.webhooks.deliveries(hook.id)] == [tried.id]
        assert client.webhooks.retry(tried.id).id == tried.id
        client.webhooks.delete(hook.id)
        with pytest.raises(errors.UnknownWebhook):
            client.webhooks.show(hook.id)
        with pytest.raises(errors.InvalidWebhook):
            client.webhooks.add("http://169.254.169.254/")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda client: client.document("never"), errors.UnknownDocument),
        (lambda client: client.documents(cursor="never"), errors.UnknownDocument),
        (lambda client: client.customers.list(), errors.NotAllowed),
        (lambda client: client.submit(b""), errors.EmptyDocument),
        (lambda client: client.submit(b"x", name="a/b"), errors.InvalidName),
        (lambda client: client.submit(b"x", name=""), errors.InvalidName),
        (lambda client: client.documents(state="bogus"), errors.UsageError),
        (lambda client: client.download("x", ""), errors.UsageError),
        (lambda client: client.submit("no such file"), errors.UnreadableSource),
        (lambda client: client.submit(io.StringIO("text")), errors.UsageError),
        (lambda client: client.submit(123), errors.UsageError),
        (lambda client: client.submit(b"x", idempotency_key="ü"), errors.UsageError),
        (lambda client: client.webhooks.show("never"), errors.UnknownWebhook),
        (lambda client: next(client.events(customer="other")), errors.NotAllowed),
    ],
)
def test_problems_are_the_errors_of_the_embedded_calls(
    acme: Client, call: Any, kind: type[errors.FairleadError]
) -> None:
    with pytest.raises(kind) as caught:
        call(acme)
    assert type(caught.value) is kind


UNKNOWN = [
    (lambda client, id_: client.document(id_), errors.UnknownDocument),
    (lambda client, id_: client.wait(id_), errors.UnknownDocument),
    (lambda client, id_: client.cancel(id_), errors.UnknownDocument),
    (lambda client, id_: client.delete(id_), errors.UnknownDocument),
    (lambda client, id_: client.text(id_), errors.UnknownDocument),
    (lambda client, id_: client.original(id_), errors.UnknownDocument),
    (lambda client, id_: client.webhooks.show(id_), errors.UnknownWebhook),
    (lambda client, id_: client.keys.revoke(id_), errors.UnknownKey),
    (lambda client, id_: client.customers.show(id_), errors.UnknownCustomer),
    (lambda client, id_: client.customers.pause(id_), errors.UnknownCustomer),
]


@pytest.mark.parametrize(("call", "kind"), UNKNOWN)
def test_an_unknown_id_is_named(
    operator: Client, call: Any, kind: type[errors.FairleadError]
) -> None:
    for id_ in ("100%", "ä"):
        with pytest.raises(kind, match=f"'{id_}'"):
            call(operator, id_)
    for id_ in ("", "a\udcff"):
        with pytest.raises(kind):
            call(operator, id_)


@pytest.mark.parametrize(
    "call",
    [
        lambda client, name: client.customers.add(name),
        lambda client, name: client.customers.set("acme", account=name),
        lambda client, name: client.keys.add(name),
        lambda client, name: client.webhooks.add("https://a.example/", customer=name),
        lambda client, name: client.submit(b"x", password=name),
        lambda client, name: client.documents(customer=name),
    ],
)
def test_what_is_no_text_is_not_sent(acme: Client, call: Any) -> None:
    with pytest.raises(errors.UsageError, match="not UTF-8") as caught:
        call(acme, "a secret \udcff")
    assert "a secret" not in str(caught.value)


def test_refused_submissions_say_when_to_come_back(
    server: Served, operator: Client, connect: Connect
) -> None:
    small = f"small {connect.__name__}"
    with connect(server.url, server.key(small), patience=0) as client:
        operator.customers.set(small, bytes_a_day=10)
        with pytest.raises(errors.DailyBytesReached, match="submit less at once") as never:
            client.submit(b"more than ten bytes")
        assert never.value.retry_after is None
        client.wait(client.submit(b"six..."))
        with pytest.raises(errors.DailyBytesReached) as caught:
            client.submit(b"seven..")
        assert 0 < (caught.value.retry_after or 0) <= 86_401
        operator.customers.set(small, bytes_a_day=None, pending_cap=1)
        operator.customers.pause(small)
        client.submit(b"one", idempotency_key="same")
        with pytest.raises(errors.PendingCapReached):
            client.submit(b"two")
        with pytest.raises(errors.IdempotencyConflict):
            client.submit(b"three", idempotency_key="same")
        operator.customers.set(small, requests_a_second=0.001, requests_burst=1)
        client.me()
        with pytest.raises(errors.TooManyRequests):
            client.me()


def test_every_problem_has_its_error() -> None:
    for kind in KINDS:
        error = error_of({"type": TYPE_PREFIX + kind, "detail": "words", "retry_after": 3})
        assert isinstance(error, errors.FairleadError)
        assert (str(error), error.retry_after) == ("words", 3.0)
    assert type(error_of({"type": "about:blank", "title": "Teapot"})) is errors.ServerFailed
    with_code = {"type": f"{TYPE_PREFIX}invalid-request", "code": "invalid-setting", "detail": "x"}
    assert type(error_of(with_code)) is errors.InvalidSetting


def without_seconds(explanation: Explanation) -> dict[str, Any]:
    """The time until the reset goes on between two looks."""
    plain = to_dict(explanation)
    for reason in plain["reasons"]:
        reason["params"].pop("seconds", None)
    return plain


def test_records_are_the_same_through_the_server(server: Served, operator: Client) -> None:
    with Fairlead(server.data) as fairlead:
        fairlead.customers.add("same")
        fairlead.customers.set("same", weight=0.5, account="house", thresholds=(-3,))
        fairlead.customers.pause("same")
        sent = fairlead.submit_many("same", [(b"one", "1"), (b"two", "2")])
        for document in sent:
            assert to_dict(operator.document(document.id)) == to_dict(document)
            ours, theirs = fairlead.why(document.id), operator.why(document.id)
            expected = with_words(ours, words, with_others=True)
            assert without_seconds(theirs) == without_seconds(expected)
        known, shown = (
            fairlead.customers.view(fairlead.store.customer("same")),
            operator.customers.show("same"),
        )
        volatile = {"oldest_wait": 0, "resets_in": 0}
        assert to_dict(known) | volatile == to_dict(shown) | volatile
        assert operator.queue.fairness().policy == fairlead.queue.policy()
        assert operator.queue.policy() == fairlead.queue.policy()
        done = operator.queue.use_policy("fair")
        assert done is not None
        assert (done.before, done.after) == ("classic", "fair")
        assert fairlead.queue.policy() == "fair"
        assert fairlead.queue.use_policy("classic") is not None
        assert operator.queue.policy() == "classic"
        assert to_dict(Keys(operator.keys.list(None))) == to_dict(Keys(fairlead.keys.list(None)))


class Dry(io.RawIOBase):
    """A file that does not wait for its bytes."""

    def readinto(self, _buffer: Any, /) -> None:
        return None


def test_a_file_that_does_not_wait_for_its_bytes_is_refused(acme: Client) -> None:
    with pytest.raises(errors.UnreadableSource, match="does not wait"):
        acme.submit(Dry())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ['size 5".txt', "100%.txt"])
def test_names_arrive_as_they_are(acme: Client, name: str) -> None:
    assert acme.submit(b"x", name=name).name == name


def test_a_name_that_is_a_path_arrives_as_one(acme: Client) -> None:
    with pytest.raises(errors.InvalidName, match="path"):
        acme.submit(b"x", name="a\\b%5C")
