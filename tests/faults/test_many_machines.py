"""Several machines while everything dies: nothing is lost, and no result becomes visible twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import httpx
import postgreskit
import pytest
import servers
from apikit import Served
from fleetkit import ENDS, Fleet, every_event, fleet, inversions

from fairlead import Fairlead
from fairlead.errors import StoreUnreachable
from fairlead.model.states import State

pytestmark = pytest.mark.faults

DOCUMENTS, CUSTOMERS = 5_000, 50
TOGETHER = 25


class Faults:
    """What is killed, in an order that is the same every time."""

    def __init__(self, fleet: Fleet, broker: servers.Server, database: postgreskit.Server) -> None:
        self._fleet = fleet
        self._broker = broker
        self._database = database
        self._dice = random.Random(1)
        workers = [self.kill_in_a_pool] * 15 + [self.kill_a_worker] * 5
        others = [self.kill_the_broker] * 4 + [self.erase_the_broker] + [self.kill_the_database] * 3
        self.left: list[Callable[[], None]] = [*workers, *others]
        self._dice.shuffle(self.left)
        self.happened: Counter[str] = Counter()

    def next(self) -> None:
        fault = self.left.pop()
        self.happened[fault.__name__] += 1
        fault()

    def kill_in_a_pool(self) -> None:
        self._dice.choice(self._fleet.workers).kill_one(self._dice.randrange(9))

    def kill_a_worker(self) -> None:
        worker = self._dice.choice(self._fleet.workers)
        worker.kill()
        worker.start()

    def kill_the_broker(self) -> None:
        self._broker.kill()
        self._broker.start()

    def erase_the_broker(self) -> None:
        self._broker.kill()
        self._broker.erase()
        self._broker.start()

    def kill_the_database(self) -> None:
        self._database.kill()
        self._database.start()


@pytest.fixture(params=["redis", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with getattr(servers, request.param)() as server:
        yield server


def test_nothing_is_lost_on_many_machines(tmp_path: Path, broker: servers.Server) -> None:
    postgreskit.need_postgres()
    with TemporaryDirectory(prefix="fairlead-postgres-") as folder:
        database = postgreskit.Server(Path(folder), durable=True)
        try:
            with fleet(tmp_path, database.url, broker.url) as machines:
                _run(machines, broker, database)
        finally:
            database.kill()


def _run(machines: Fleet, broker: servers.Server, database: postgreskit.Server) -> None:
    apis = [machines.add_api("api-1"), machines.add_api("api-2")]
    for number in range(4):
        machines.add_worker(f"machine-{number % 2}/worker-{number}", 2)
    faults = Faults(machines, broker, database)
    with machines.installation() as fairlead:
        keys = [fairlead.keys.add(f"customer-{n}")[0] for n in range(CUSTOMERS)]
        stop = Event()
        with ThreadPoolExecutor(5) as pool:
            sent = [
                pool.submit(_send, apis, key, number, stop)
                for number, key in enumerate(keys * (DOCUMENTS // CUSTOMERS // TOGETHER))
            ]
            try:
                for batch in sent:
                    batch.result()
                    if faults.left:
                        faults.next()
            finally:
                stop.set()
        while faults.left:
            faults.next()
        ids = [id_ for batch in sent for id_ in batch.result()]
        _wait(fairlead, ids)
        documents = {id_: fairlead.document(id_) for id_ in ids}
        assert len(documents) == DOCUMENTS
        assert {document.state for document in documents.values()} == {State.DONE}
        events = every_event(fairlead)
        ends = Counter(event.document for event in events if event.kind in ENDS)
        assert ends == dict.fromkeys(ids, 1)
        assert inversions(fairlead, events, documents) == 0
        texts = {fairlead.text(id_) for id_ in ids}
        assert len(texts) == DOCUMENTS
        counts = Counter((document.customer, document.count) for document in documents.values())
        assert set(counts.values()) == {1}
        assert fairlead.store.problems() == []
    assert faults.happened.total() == 28


def _content(name: str, number: int) -> bytes:
    """One of those that are sent together is long, and becomes a file."""
    return f"text {name} {number}".encode() + (b" and so on" * 7_000 if number == 0 else b"")


def _send(apis: list[Served], key: str, number: int, stop: Event) -> list[str]:
    """Submit some documents, again and again until the answer has come."""
    name = f"{number}"
    files = [("file", (f"{name}-{n}.txt", _content(name, n))) for n in range(TOGETHER)]
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": name}
    tries = 0
    while not stop.is_set():
        url = f"{apis[(number + tries) % len(apis)].url}/v1/documents"
        tries += 1
        try:
            answer = httpx.post(url, files=files, headers=headers, timeout=60, trust_env=False)
        except httpx.TransportError:
            continue
        if answer.status_code == 202:
            return [document["id"] for document in answer.json()["documents"]]
        assert answer.status_code >= 500, answer.text
        stop.wait(0.1)
    raise AssertionError("stopped before it was accepted")


def _wait(fairlead: Fairlead, ids: list[str]) -> None:
    while True:
        try:
            fairlead.wait(ids)
        except StoreUnreachable:
            continue
        return
