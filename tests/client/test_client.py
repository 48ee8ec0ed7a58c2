"""The client against a real server: everything that its methods promise."""

from __future__ import annotations

import io
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from apikit import Served, served
from cutkit import cut
from saykit import saying

from fairlead import Client, Fairlead, errors
from fairlead.client.errors import error_of
from fairlead.client.sse import ServerSentEvent, blocks
from fairlead.model.json import customer_json, fairness_json, key_json, why_json
from fairlead.model.json_document import document_json
from fairlead.model.problems import KINDS, TYPE_PREFIX
from fairlead.model.states import State


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
    assert acme.facts(document.id)["kind"] == "html"
    assert acme.why(document.id).reasons[1].code == "done"
    assert acme.content(document.id) == page.read_bytes()
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
        found = acme.submit_many([path, str(path), b"bytes", (file, "file.txt"), (pipe, "pipe")])
    assert [each.name for each in found] == [path.name, path.name, "document", "file.txt", "pipe"]
    contents = [acme.content(each.id) for each in found]
    assert contents == [b"a path", b"a path", b"bytes", b"kept", b"from a pipe"]
    assert acme.submit_many([]) == []


def test_documents_are_walked_page_by_page(server: Served) -> None:
    with Client(server.url, server.key("walker")) as client:
        sent = client.submit_many([b"x"] * 7, urgent=True)
        first = client.page(limit=3)
        assert client.page(cursor=first.next, limit=4).next is None
        client.wait_all(sent)
        found = list(client.documents(state="done"))
        assert [each.id for each in found] == [each.id for each in reversed(sent)]
        assert all(each.urgent for each in found)
        assert list(client.documents(priority=9)) == []


def test_pages_are_fetched_when_they_are_needed(
    acme: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.client.client.PAGE", 2)
    sent = acme.submit_many([b"p"] * 5)
    assert len(acme.page(limit=2).documents) == 2
    newest = list(islice(acme.documents(), 5))
    assert [each.id for each in newest] == [each.id for each in reversed(sent)]


def test_waiting_has_an_end(data: Path) -> None:
    with served(data, "--workers", "0") as server, Client(server.url, server.key("acme")) as client:
        document = client.submit(b"nobody works")
        with pytest.raises(errors.NotReady, match="waiting"):
            client.wait(document, timeout=0.05)
        with pytest.raises(errors.NotReady, match="its text comes when it is done"):
            client.text(document.id)
        assert client.cancel(document.id).state is State.CANCELLED
        assert client.cancel(document.id).state is State.CANCELLED
        assert client.retry(document.id).state is State.WAITING
        left: list[int] = []
        client.cancel(document.id)
        assert client.wait_all([document], on_progress=left.append)[0].id == document.id
        assert left == [1, 0]


def test_waiting_has_an_end_also_where_the_server_does_not_answer(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        key = server.key("acme")
        with Client(server.url, key, timeout=3600, patience=3600) as client:
            document = client.submit(b"nobody works")
            server.process.send_signal(signal.SIGSTOP)
            with pytest.raises(errors.NotReady, match="did not answer in time") as caught:
                client.wait(document, timeout=0.1)
            assert caught.value.__cause__ is not None
            server.process.kill()
            server.process.wait()
            with pytest.raises(errors.NotReady, match="cannot be reached"):
                client.wait(document, timeout=0.1)


def test_who_was_never_reached_is_said_at_once_whatever_time_there_is() -> None:
    with Client("http://127.0.0.1:1", "fl_key") as client:
        for timeout in (0, 3600):
            with pytest.raises(errors.NoConnection):
                client.wait("x", timeout=timeout)


def test_waiting_has_an_end_also_for_who_is_too_fast(
    server: Served, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, slept = time.monotonic(), list[float]()
    monkeypatch.setattr("fairlead.client.transport.time.monotonic", lambda: now + sum(slept))
    monkeypatch.setattr("fairlead.client.transport.time.sleep", slept.append)
    with Client(server.url, server.key("hasty")) as client:
        ended = client.cancel(client.submit(b"x").id)
        operator.set_customer("hasty", requests_a_second=0.05, requests_burst=1)
        assert client.me().customer == "hasty"
        with pytest.raises(errors.NotReady, match="nothing was heard in time"):
            client.wait(ended, timeout=0.2)
    assert sum(slept) == pytest.approx(0.2)


def test_one_that_is_deleted_meanwhile_does_not_stop_the_wait_for_others(data: Path) -> None:
    with served(data, "--workers", "0") as server, Client(server.url, server.key("acme")) as client:
        sent = client.submit_many([b"a", b"b", b"c"])
        client.cancel(sent[0].id)
        client.cancel(sent[2].id)
        told: list[int] = []

        def delete_one(left: int) -> None:
            told.append(left)
            if len(told) == 2:  # it was seen to be pending
                client.delete(sent[1].id)

        found = client.wait_all([sent[0], *sent], on_progress=delete_one)
        assert [each.id for each in found] == [sent[0].id, sent[0].id, sent[2].id]
        assert told[-1] == 0
        with pytest.raises(errors.UnknownDocument):
            client.wait_all(sent)


def test_an_operator_does_all_there_is_to_do(operator: Client) -> None:
    assert operator.me().is_operator
    assert operator.add_customer("..").name == operator.customer("..").name == ".."
    with pytest.raises(errors.UnknownDocument):
        operator.document(".")
    made = operator.add_customer("sea/side ü")
    assert operator.add_customer("sea/side ü").created_at == made.created_at
    changed = operator.set_customer("sea/side ü", weight=2.0, thresholds=(-1, -2), pending_cap=5)
    assert (changed.weight, changed.thresholds, changed.pending_cap) == (2.0, (-1, -2), 5)
    assert operator.set_customer("sea/side ü", pending_cap=None).pending_cap is None
    assert operator.pause("sea/side ü").paused
    assert not operator.resume("sea/side ü").paused
    assert operator.reset("sea/side ü").count is None
    assert operator.customer("sea/side ü") in operator.customers()
    assert operator.fairness().policy == "classic"
    key, kept = operator.add_key("sea/side ü")
    assert key.startswith(f"fl_{kept.id}_")
    assert operator.keys("sea/side ü") == [kept]
    assert all(each.is_operator for each in operator.keys(operators=True))
    with Client(operator.url, key) as theirs:
        assert theirs.me().customer == "sea/side ü"
        assert operator.revoke_key(kept.id).is_revoked
        with pytest.raises(errors.Unauthorized):
            theirs.me()
    assert operator.add_key(None)[1].is_operator
    with pytest.raises(errors.UnknownKey):
        operator.revoke_key("nobody")


def test_webhooks_are_kept_changed_tried_and_forgotten(data: Path) -> None:
    with (
        served(data, "--workers", "0", webhook_networks="127.0.0.0/8") as server,
        Client(server.url, server.key("acme")) as client,
    ):
        hook, secret = client.add_webhook("http://127.0.0.1:9/hook", ["document.done"])
        assert secret.startswith("whsec_")
        assert client.webhooks() == [hook] == [client.webhook(hook.id)]
        tried = client.test_webhook(hook.id)
        assert not client.set_webhook(hook.id, enabled=False).enabled
        assert client.set_webhook(hook.id, enabled=True).enabled
        assert [each.id for each in client.deliveries(hook.id)] == [tried.id]
        assert client.resend(tried.id).id == tried.id
        client.remove_webhook(hook.id)
        with pytest.raises(errors.UnknownWebhook):
            client.webhook(hook.id)
        with pytest.raises(errors.InvalidWebhook):
            client.add_webhook("http://169.254.169.254/")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda client: client.document("never"), errors.UnknownDocument),
        (lambda client: client.page(cursor="never"), errors.UnknownDocument),
        (lambda client: client.customers(), errors.NotAllowed),
        (lambda client: client.submit(b""), errors.EmptyDocument),
        (lambda client: client.submit(b"x", name="a/b"), errors.InvalidName),
        (lambda client: client.submit(b"x", name=""), errors.InvalidName),
        (lambda client: client.page(state="bogus"), errors.UsageError),
        (lambda client: client.download("x", ""), errors.UsageError),
        (lambda client: client.submit("no such file"), errors.UnreadableSource),
        (lambda client: client.submit(io.StringIO("text")), errors.UsageError),
        (lambda client: client.submit(123), errors.UsageError),
        (lambda client: client.submit(b"x", idempotency_key="ü"), errors.UsageError),
        (lambda client: client.webhook("never"), errors.UnknownWebhook),
        (lambda client: next(client.events(customer="other")), errors.UsageError),
    ],
)
def test_problems_are_the_errors_of_the_embedded_calls(
    acme: Client, call: Any, kind: type[errors.FairleadError]
) -> None:
    with pytest.raises(kind) as caught:
        call(acme)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        (
            [
                *(Client.document, Client.wait, Client.cancel, Client.retry, Client.delete),
                *(Client.why, Client.text, Client.markdown, Client.facts, Client.content),
                lambda client, id_: client.page(parent=id_),
                lambda client, id_: client.page(cursor=id_),
            ],
            errors.UnknownDocument,
        ),
        (
            [
                *(Client.webhook, Client.set_webhook, Client.remove_webhook, Client.test_webhook),
                lambda client, id_: next(client.deliveries(id_)),
            ],
            errors.UnknownWebhook,
        ),
        ([Client.resend], errors.UnknownDelivery),
        ([Client.revoke_key], errors.UnknownKey),
        ([Client.customer, Client.pause], errors.UnknownCustomer),
    ],
)
@pytest.mark.parametrize("id_", ["", "\udcff", "a\udcff"])
def test_what_can_be_no_id_is_one_that_nothing_has(
    operator: Client, calls: list[Any], kind: type[errors.FairleadError], id_: str
) -> None:
    for call in calls:
        with pytest.raises(kind):
            call(operator, id_)


@pytest.mark.parametrize(
    "call",
    [
        *(Client.document, Client.why, Client.cancel, Client.webhook, Client.resend),
        *(Client.revoke_key, Client.customer),
    ],
)
def test_an_id_is_told_back_as_it_was_given(operator: Client, call: Any) -> None:
    for id_ in ("a/b", "a%2Fb", "100%", "ä"):
        with pytest.raises(errors.FairleadError, match=f"'{id_}'"):
            call(operator, id_)


@pytest.mark.parametrize(
    "call",
    [
        lambda client, name: client.add_customer(name),
        lambda client, name: client.set_customer("acme", account=name),
        lambda client, name: client.add_key(name),
        lambda client, name: client.add_webhook("https://a.example/", customer=name),
        lambda client, name: client.submit(b"x", password=name),
        lambda client, name: next(client.events(customer=name)),
        lambda client, name: client.page(customer=name),
    ],
)
def test_what_is_no_text_is_not_sent(acme: Client, call: Any) -> None:
    with pytest.raises(errors.UsageError, match="not UTF-8") as caught:
        call(acme, "a secret \udcff")
    assert "a secret" not in str(caught.value)


def test_refused_submissions_say_when_to_come_back(server: Served, operator: Client) -> None:
    with Client(server.url, server.key("small"), patience=0) as client:
        operator.set_customer("small", bytes_a_day=10)
        with pytest.raises(errors.DailyBytesReached, match="send less at once") as never:
            client.submit(b"more than ten bytes")
        assert never.value.retry_after is None
        client.wait(client.submit(b"six..."))
        with pytest.raises(errors.DailyBytesReached) as caught:
            client.submit(b"seven..")
        assert 0 < (caught.value.retry_after or 0) <= 86_401
        operator.set_customer("small", bytes_a_day=None, pending_cap=1)
        operator.pause("small")
        client.submit(b"one", idempotency_key="same")
        with pytest.raises(errors.PendingCapReached):
            client.submit(b"two")
        with pytest.raises(errors.IdempotencyConflict):
            client.submit(b"three", idempotency_key="same")
        operator.set_customer("small", requests_a_second=0.001, requests_burst=1)
        client.me()
        with pytest.raises(errors.TooManyRequests):
            client.me()


def test_who_is_too_fast_is_slowed_down_not_refused(server: Served, operator: Client) -> None:
    told: list[str] = []
    with Client(server.url, server.key("fast"), on_trouble=told.append) as client:
        operator.set_customer("fast", requests_a_second=2, requests_burst=1)
        assert [client.me().customer for _ in range(2)] == ["fast", "fast"]
    assert len(told) == 1


def test_every_problem_has_its_error() -> None:
    for kind in KINDS:
        found = error_of({"type": TYPE_PREFIX + kind, "detail": "words", "retry_after": 3})
        assert isinstance(found, errors.FairleadError)
        assert (str(found), found.retry_after) == ("words", 3.0)
    assert type(error_of({"type": "about:blank", "title": "Teapot"})) is errors.ServerFailed
    with_code = {"type": f"{TYPE_PREFIX}invalid-request", "code": "invalid-setting", "detail": "x"}
    assert type(error_of(with_code)) is errors.InvalidSetting


# --- the same things ---


def test_things_are_the_same_through_the_line(server: Served, operator: Client) -> None:
    with Fairlead(server.data) as fairlead:
        fairlead.add_customer("same")
        fairlead.set_customer("same", weight=0.5, account="house", thresholds=(-3,))
        fairlead.pause("same")
        sent = fairlead.submit_many("same", [(b"one", "1"), (b"two", "2")])
        for each in sent:
            assert document_json(operator.document(each.id)) == document_json(each)
            ours, theirs = fairlead.why(each.id), operator.why(each.id)
            assert why_json(theirs, str, with_others=True) == why_json(ours, str, with_others=True)
        known, shown = fairlead.view(fairlead.customer("same")), operator.customer("same")
        volatile = {"oldest_wait": 0, "resets_in": 0}
        assert customer_json(known) | volatile == customer_json(shown) | volatile
        assert fairness_json(operator.fairness())["policy"] == fairlead.policy
        keys = [key_json(each) for each in fairlead.keys(None)]
        assert [key_json(each) for each in operator.keys(None)] == keys


# --- lost connections ---


def test_an_answer_that_was_lost_is_asked_for_again_and_nothing_is_done_twice(
    server: Served,
) -> None:
    lost = iter([True])

    def cuts(piece: bytes) -> bool:
        return b" 202 " in piece and next(lost, False)

    told: list[str] = []
    with (
        cut(server.port, cuts) as line,
        Client(line.url, server.key("twice"), on_trouble=told.append) as client,
    ):
        document = client.submit(b"only once")
        assert [each.id for each in client.documents()] == [document.id]
        assert client.submit(b"only once").count == -1
    assert (line.lost, len(told)) == (1, 1)


def test_what_can_be_read_only_once_is_not_sent_twice(server: Served) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"gone after this")
    os.close(writing)
    with (
        cut(server.port, lambda piece: b" 202 " in piece) as line,
        Client(line.url, server.key("pipe")) as client,
        os.fdopen(reading, "rb") as pipe,
        pytest.raises(errors.NoConnection, match="read only once") as caught,
    ):
        client.submit(pipe)
    with Client(server.url, server.key("pipe")) as client:
        again = client.submit(
            b"gone after this",
            idempotency_key=caught.value.idempotency_key,
        )
        assert [each.id for each in client.documents()] == [again.id]


def test_what_can_be_read_only_once_is_not_read_in_vain_by_who_is_too_fast(
    server: Served, operator: Client
) -> None:
    key = server.key("hasty pipe")
    operator.set_customer("hasty pipe", requests_a_second=0.001, requests_burst=1)
    with Client(server.url, key) as client:
        client.me()
        with pytest.raises(errors.TooManyRequests) as caught:
            client.submit(Pipe(b"content"))
    assert caught.value.retry_after


class Pipe(io.BytesIO):
    """Bytes that cannot be read again."""

    def seekable(self) -> bool:
        return False


class Dry(Pipe):
    """A file that does not wait for its bytes."""

    def read(self, _most: int | None = -1, /) -> bytes:
        return None  # type: ignore[return-value]


def test_a_file_that_does_not_wait_for_its_bytes_is_refused(acme: Client) -> None:
    with pytest.raises(errors.UnreadableSource, match="does not wait"):
        acme.submit(Dry())


def test_a_retry_whose_answer_was_lost_is_done_once(server: Served) -> None:
    answers: list[bytes] = []

    def cuts(piece: bytes) -> bool:
        answers.append(piece)
        return len(answers) == 2

    with Client(server.url, server.key("again")) as client:
        failed = client.wait(client.submit(b"\0\1\2"))
        assert failed.state is State.FAILED
        with (
            cut(server.port, cuts) as line,
            Client(line.url, server.key("again")) as other,
        ):
            other.me()
            with pytest.raises(errors.NoConnection, match="may have been done, so look before"):
                other.retry(failed.id)
        client.wait(failed)
        kinds = [each.kind.value for each in islice(client.events(after=0), 9)]
    assert kinds.count("again") == 1


@pytest.mark.parametrize("name", ["100%0Aoff.txt", 'size 5%22".txt', "100%.txt"])
def test_names_arrive_as_they_are(acme: Client, name: str) -> None:
    assert acme.submit(b"x", name=name).name == name


def test_a_name_that_is_a_path_arrives_as_one(acme: Client) -> None:
    with pytest.raises(errors.InvalidName, match="path"):
        acme.submit(b"x", name="a\\b%5C")


def test_keys_are_not_made_twice(server: Served, operator: Client) -> None:
    with (
        cut(server.port, lambda piece: b" 201 " in piece) as line,
        Client(line.url, (server.data / "operator.key").read_text()) as client,
    ):
        client.me()
        with pytest.raises(errors.NoConnection, match="may have been done, so look before"):
            client.add_key("once")
    assert line.lost == 1
    assert len(operator.keys("once")) == 1


def test_a_download_goes_on_where_it_broke_off(server: Served) -> None:
    content = os.urandom(3_000_000)
    seen = {"bytes": 0, "cuts": 0}

    def cuts(piece: bytes) -> bool:
        seen["bytes"] += len(piece)
        if seen["bytes"] > 1_000_000 * (seen["cuts"] + 1) and seen["cuts"] < 2:
            seen["cuts"] += 1
            return True
        return False

    with cut(server.port, cuts) as line, Client(line.url, server.key("broken")) as client:
        document = client.submit(content)
        assert client.content(document.id) == content
    assert line.lost == 2


def test_events_go_on_without_gap_or_repeat(server: Served) -> None:
    broken = iter([False, True, False, True])
    key = server.key("listener")

    def cuts(piece: bytes) -> bool:
        return b"event: done" in piece and next(broken, False)

    with cut(server.port, cuts) as line, Client(line.url, key) as client:
        sent = [client.wait(client.submit(b"x")).id for _ in range(5)]
        events = client.events(after=0)
        kinds = [next(events).kind.value for _ in range(2 + 3 * 5)]
    assert kinds == ["customer-added", "key-added", *["submitted", "claimed", "done"] * 5]
    assert len(sent) == 5


def test_events_that_begin_now_miss_nothing_after_a_break(server: Served) -> None:
    key = server.key("quiet")
    cuts_left = iter([True])
    ready = threading.Event()

    def cuts(piece: bytes) -> bool:
        if b"id: " not in piece:
            return False
        ready.set()
        return b"event: submitted" in piece and next(cuts_left, False)

    def read(events: Iterator[Any], seen: list[str]) -> None:
        seen += [next(events).kind.value for _ in range(3)]

    with cut(server.port, cuts) as line, Client(line.url, key) as client:
        events, seen = client.events(), list[str]()
        reader = threading.Thread(target=read, args=(events, seen))
        reader.start()
        assert ready.wait(30)
        with Client(server.url, key) as other:
            other.wait(other.submit(b"while it listens"))
        reader.join(30)
    assert seen == ["submitted", "claimed", "done"]
    assert line.lost == 1


def test_events_go_on_through_any_number_of_breaks(server: Served) -> None:
    """Also when nothing happens for longer than patience lasts."""
    begun = threading.Semaphore(0)

    def passed(piece: bytes) -> None:
        if b"retry:" in piece:
            begun.release()

    with (
        cut(server.port, passed=passed) as line,
        Client(line.url, server.key("long quiet"), patience=0.25) as client,
    ):
        seen: list[str] = []
        events = client.events()
        reader = threading.Thread(target=lambda: seen.append(next(events).kind.value))
        reader.start()
        for _ in range(4):
            assert begun.acquire(timeout=30)
            line.hang_up()
        assert begun.acquire(timeout=30)
        client.submit(b"x")
        reader.join(30)
    assert seen == ["submitted"]


def test_patience_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    with Client("http://127.0.0.1:1", "fl_key", patience=3.0) as client:
        client._line.was_reached = True
        with pytest.raises(errors.NoConnection):
            client.me()
    assert clock[0] == pytest.approx(3.0)


def test_blocks_of_a_stream() -> None:
    lines = [": ping", "", "retry: 1000", "", "id: 7", "", "id: 8", "event: done", "data: a"]
    more = ["data: b", "", "data:c", ""]
    assert list(blocks([*lines, *more])) == [
        ServerSentEvent("7", "message", ""),
        ServerSentEvent("8", "done", "a\nb"),
        ServerSentEvent(None, "message", "c"),
    ]


def test_a_server_that_restarts_is_waited_for(data: Path) -> None:
    with served(data, "--workers", "0") as first:
        key, port = first.key("acme"), first.port
        client = Client(first.url, key, patience=600)
        document = client.submit(b"patience")
        found: list[State] = []
        waiter = threading.Thread(target=lambda: found.append(client.wait(document).state))
        waiter.start()
        first.process.kill()
        first.process.wait()
        with served(data, "--workers", "1", "--port", str(port)):
            waiter.join(60)
    client.close()
    assert found == [State.DONE]


def test_nobody_there_is_said_at_once_and_so_is_patience_at_its_end(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        key = server.key("acme")
        client = Client(server.url, key, patience=0.2)
        document = client.submit(b"x")
    with pytest.raises(errors.NoConnection, match="cannot be reached"):
        client.wait(document)
    client.close()
    with (
        Client(server.url, key, patience=3600) as never,
        pytest.raises(errors.NoConnection, match="is the server running"),
    ):
        never.me()


# --- what it is made with ---


def test_address_and_key_come_from_the_environment(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_URL", f"{server.url}/")
    monkeypatch.setenv("FAIRLEAD_KEY", f"{server.key('surroundings')}\n")
    with Client() as client:
        assert client.me().customer == "surroundings"
        assert repr(client) == f"Client({server.url!r})"
    monkeypatch.delenv("FAIRLEAD_KEY")
    with pytest.raises(errors.UsageError, match="FAIRLEAD_KEY"):
        Client()


@pytest.mark.parametrize(
    "url",
    [
        *("", "ftp://x", "127.0.0.1:8321", "http://", "http://x:y@host", "http://h/?key=fl_1"),
        *("http://127.0.0.1:8321/#", "http://127.0.0.1:99999"),
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(errors.UsageError):
        Client(url or "x", "fl_key")


def test_an_address_may_end_as_those_of_the_api_begin(server: Served) -> None:
    for url in (f"{server.url}/v1", f"{server.url}/v1/", f"{server.url}//v1//"):
        with Client(url, server.key("acme")) as client:
            assert (client.url, client.me().customer) == (server.url, "acme")
    assert Client("http://v1/", "fl_key").url == "http://v1"
    assert Client("http://host/below/v1", "fl_key").url == "http://host/below"


@pytest.mark.parametrize(
    "given",
    [
        *({"language": "é"}, {"language": "de\r\nX-Evil: 1"}, {"language": ""}),
        *({"timeout": None}, {"timeout": -1}, {"timeout": float("nan")}, {"timeout": math.inf}),
        *({"patience": None}, {"patience": -1}),
    ],
)
def test_what_a_client_cannot_be_made_with(given: dict[str, Any]) -> None:
    with pytest.raises(errors.UsageError, match=next(iter(given))):
        Client("http://127.0.0.1:1", "fl_key", **given)


def test_a_closed_client_says_so() -> None:
    client = Client("http://127.0.0.1:1", "fl_key")
    client.close()
    client.close()
    for call in (client.me, lambda: next(client.events()), lambda: client.submit(b"x")):
        with pytest.raises(errors.UsageError, match="closed"):
            call()
    http = httpx.Client()
    http.close()
    with pytest.raises(errors.UsageError, match="closed"):
        Client("http://127.0.0.1:1", "fl_key", http=http).me()


def test_a_download_may_have_the_longest_name_there_is(acme: Client, tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    acme.download(acme.submit(b"content").id, target)
    assert [each.name for each in tmp_path.iterdir()] == [target.name]
    assert target.read_bytes() == b"content"


def test_what_cannot_be_a_key_is_refused_without_being_shown() -> None:
    with pytest.raises(errors.UsageError) as caught:
        Client("http://127.0.0.1:1", "geheim ü\r\nX-Evil: 1")
    assert "geheim" not in str(caught.value)


FOREIGN = [
    b"200 OK\r\nContent-Type: text/html\r\n\r\n<!doctype html>",
    b"200 OK\r\nContent-Type: application/json\r\n\r\nnull",
    b'200 OK\r\nContent-Type: application/json\r\n\r\n{"state": "gone"}',
    b"200 OK\r\nContent-Type: application/json\r\n\r\n[]",
    b"200 OK\r\nContent-Type: application/json\r\n\r\n" + b"[" * 100_000,
    b"200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\nno gzip",
    b"200 OK\r\nContent-Type: text/plain\r\n\r\n\xff",
    b"404 Not Found\r\nContent-Type: application/problem+json\r\n\r\n<html>",
    b"404 Not Found\r\nContent-Type: application/problem+json\r\n\r\n[1]",
]


@pytest.mark.parametrize("answer", FOREIGN)
def test_what_no_fairlead_says_is_no_answer(answer: bytes) -> None:
    with saying(b"HTTP/1.1 " + answer) as url, Client(url, "fl_key") as client:
        for call in (
            client.me,
            lambda: client.document("x"),
            lambda: client.text("x"),
            lambda: client.why("x"),
            lambda: client.submit(b"x"),
            lambda: client.facts("x"),
            lambda: client.content("x"),
            lambda: client.wait("x"),
            lambda: next(client.documents()),
            lambda: next(client.events()),
            client.overview,
            client.keys,
            client.webhooks,
            lambda: client.add_key(None),
            lambda: next(client.deliveries("x")),
            lambda: client.delete("x"),
            lambda: client.remove_webhook("x"),
        ):
            with pytest.raises(errors.ServerFailed, match="is a Fairlead server there"):
                call()


@pytest.mark.parametrize("status", [b"200 OK", b"206 Partial Content"])
def test_a_download_without_a_byte_is_not_asked_for_again_for_ever(
    server: Served, acme: Client, monkeypatch: pytest.MonkeyPatch, status: bytes
) -> None:
    document = acme.submit(b"more than nothing")
    with (
        saying(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n") as url,
        Client(url, "fl_key") as client,
    ):
        monkeypatch.setattr(client, "document", lambda _id: document)
        with pytest.raises(errors.ServerFailed, match="is a Fairlead server there"):
            client.content(document.id)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
EVENT = (
    b'{"seq": 8, "at": "2026-01-01T00:00:00Z", "kind": "%b", "customer": "acme", '
    b'"document": null, "data": {}}'
)


def test_events_of_a_newer_server_are_passed_over() -> None:
    told = b"id: 7\nevent: sung\ndata: " + EVENT % b"sung"
    told += b"\n\nid: 8\nevent: done\ndata: " + EVENT % b"done" + b"\n\n"
    with saying(STREAM + told) as url, Client(url, "fl_key") as client:
        assert next(client.events()).kind.value == "done"


@pytest.mark.parametrize(
    "told",
    [
        *(b"data: no json", b"data: {}", b'data: {"kind": "done"}', b"data: []", b"data: 1"),
        *(b"data: " + (EVENT % b"done").replace(b"2026", b"soon"), b"id: \xff\r\ndata: {}"),
        b"data: " + b"[" * 100_000,
    ],
)
def test_events_that_no_fairlead_tells(told: bytes) -> None:
    with (
        saying(STREAM + told + b"\n\n") as url,
        Client(url, "fl_key") as client,
        pytest.raises(errors.ServerFailed, match="is a Fairlead server there"),
    ):
        next(client.events())


@pytest.mark.parametrize("after", [b"-1", b"NaN", b"Infinity", b'"soon"'])
def test_a_wait_that_cannot_be_is_not_waited_for(after: bytes) -> None:
    answer = b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n\r\n"
    answer += b'{"type": "x", "limit": "requests_a_second", "retry_after": %b}' % after
    with (
        saying(answer) as url,
        Client(url, "fl_key", patience=0.15) as client,
        pytest.raises(errors.TooManyRequests) as caught,
    ):
        client.me()
    assert caught.value.retry_after is None


@pytest.mark.parametrize("call", [Client.retry, Client.test_webhook, Client.resend])
def test_what_may_have_been_done_is_not_to_be_tried_again_unseen(call: Any) -> None:
    with (
        saying(b"") as url,
        Client(url, "fl_key") as client,
        pytest.raises(errors.NoConnection, match="may have been done, so look before"),
    ):
        call(client, "x")


def test_an_answer_that_is_late_may_stand_for_what_was_done() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Client(f"http://127.0.0.1:{silent.getsockname()[1]}", "fl_key", timeout=0.05) as client,
        pytest.raises(errors.NoConnection, match="did not answer in time; it may have been done"),
    ):
        client.add_key("acme")


def test_what_never_arrived_was_not_done() -> None:
    with (
        Client("http://127.0.0.1:1", "fl_key") as client,
        pytest.raises(errors.NoConnection, match="is the server running"),
    ):
        client.add_key("acme")


def test_what_speaks_no_http_is_not_waited_for() -> None:
    told: list[str] = []
    with (
        saying(b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as url,
        Client(url, "fl_key", patience=3600, on_trouble=told.append) as client,
        pytest.raises(errors.NoConnection),
    ):
        client.me()
    assert told == []


def test_every_error_of_a_submission_has_its_key() -> None:
    answer = b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n"
    with (
        saying(answer) as url,
        Client(url, "fl_key", patience=0.0) as client,
        pytest.raises(errors.ServerFailed) as caught,
    ):
        client.submit(b"x")
    assert caught.value.idempotency_key


def test_what_is_no_fairlead_server_is_named(tmp_path: Path) -> None:
    code = (
        "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler);"
    )
    code += "print(s.server_port, flush=True); s.serve_forever()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    ) as other:
        assert other.stdout is not None
        port = other.stdout.readline().strip()
        with (
            Client(f"http://127.0.0.1:{port}", "fl_key") as client,
            pytest.raises(errors.ServerFailed, match="404; is a Fairlead server there"),
        ):
            client.me()
        other.kill()


def test_a_large_file_is_not_read_into_memory(server: Served, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(200_000_000)
    code = (
        "import resource, sys; from fairlead import Client; import fairlead.client.transport\n"
        "with Client() as client:\n"
        "    client.submit(b'small')\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    print(client.submit(sys.argv[1]).size)\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    surroundings = {"FAIRLEAD_URL": server.url, "FAIRLEAD_KEY": server.key("large")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(large)],
        env=os.environ | surroundings,
        capture_output=True,
        text=True,
        check=True,
    )
    size, grown = map(int, done.stdout.split())
    assert size == 200_000_000
    assert grown * 1024 < 20_000_000


def test_fairlead_is_imported_without_httpx_and_names_it_when_needed() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "import fairlead; from fairlead import Client\n"
        "try: Client('http://127.0.0.1:1', 'fl_key')\n"
        "except fairlead.FairleadError as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtra the library httpx is missing; install it: pip")


def test_importing_fairlead_brings_in_neither_httpx_nor_the_house() -> None:
    code = (
        "import fairlead, sys; print([n for n in ('httpx', 'apsw', 'click') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
