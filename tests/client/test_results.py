"""`Client.results` and `AsyncClient.results`: in order, over many requests, after lost lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from apikit import Served, served
from clientkit import Connect
from cutting_proxy import cut
from resultkit import add_done

from fairlead import Client, Fairlead
from fairlead.client import client as async_client
from fairlead.client import sync
from fairlead.errors import InvalidCursor, NotAllowed

TEXTS = [f"text {number}" for number in range(25)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / "data", "--workers", "0") as running:
        with Fairlead(running.data) as fairlead:
            add_done(fairlead, "acme", TEXTS)
            add_done(fairlead, "bolt", ["other"])
        yield running


def test_results_come_over_many_requests(
    acme: Client, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (async_client, sync):
        monkeypatch.setattr(module, "MOST_RESULTS", 10)
    results = list(acme.results(include=["text"]))
    assert [result.text for result in results] == TEXTS
    assert list(acme.results(after=results[19].cursor, include="text")) == results[20:]
    assert len(list(operator.results())) == 26
    assert [result.customer for result in operator.results(customer="bolt")] == ["bolt"]


def test_followed_results_go_on(acme: Client) -> None:
    followed = acme.results(follow=True)
    assert [result.name for result in islice(followed, 25)] == [f"{text}.txt" for text in TEXTS]


def test_wrong_cursors_and_foreign_customers_are_errors(acme: Client) -> None:
    with pytest.raises(InvalidCursor):
        list(acme.results(after="x"))
    with pytest.raises(NotAllowed):
        list(acme.results(customer="bolt"))


def test_results_go_on_after_a_lost_connection(server: Served, connect: Connect) -> None:
    left = [b"text 7.txt", b"text 19.txt"]

    def cuts(answer: bytes) -> bool:
        return bool(left) and left[0] in answer and bool(left.pop(0))

    with cut(server.port, cuts) as proxy, connect(proxy.url, server.key("acme")) as client:
        assert [result.text for result in client.results(include="text")] == TEXTS
        assert proxy.lost == 2
