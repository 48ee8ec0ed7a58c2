"""The Celery engine: real brokers, real workers, PostgreSQL or a file as the truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

import postgreskit
import pytest
import servers
from fleetkit import ENDS, Fleet, every_event, fleet, inversions, wait
from servers import Server
from stepkit import write_module

from fairlead import Fairlead
from fairlead.app.services import Services
from fairlead.errors import BrokerUnreachable, StoreBusy, UsageError
from fairlead.model.states import State
from fairlead.worker.celery.celery_app import CeleryProgram
from fairlead.worker.wakeup import WakeupPublisher

pytestmark = pytest.mark.services

BROKERS = ("redis", pytest.param("rabbitmq", marks=pytest.mark.full))
CELERY = (sys.executable, "-m", "celery", "-A", "fairlead.worker.celery")


@pytest.fixture(scope="module", params=BROKERS)
def one_broker(request: pytest.FixtureRequest) -> Iterator[Server]:
    with getattr(servers, request.param)() as server:
        yield server


@pytest.fixture
def broker(one_broker: Server) -> Iterator[Server]:
    """The broker of all tests, which runs again after a test that left it dead."""
    yield one_broker
    if not one_broker.is_running:
        one_broker.start()


@contextmanager
def machines(folder: Path, broker: Server) -> Iterator[Fleet]:
    postgreskit.server()
    with fleet(folder, postgreskit.url_for(folder), broker.url) as workers:
        yield workers


def test_documents_of_all_machines_are_processed_in_order(tmp_path: Path, broker: Server) -> None:
    with machines(tmp_path, broker) as fleet, fleet.installation() as fairlead:
        documents = []
        for number in range(120):
            customer = f"customer-{number % 7 if number % 2 else 0}"
            documents.append(fairlead.submit(customer, b"text %d" % number, name="a.txt"))
        fleet.add_worker("one", 2)
        fleet.add_worker("two", 1)
        wait(fairlead, *documents)
        late = fairlead.submit("late", b"one more", name="late.txt")  # workers sleep by now
        wait(fairlead, late)
        events = every_event(fairlead)
        known = {document.id: document for document in [*documents, late]}
        assert {fairlead.text(document.id) for document in documents} == {
            f"text {n}" for n in range(120)
        }
        assert sum(event.kind in ENDS for event in events) == len(known)
        assert inversions(fairlead, events, known) == 0
        assert [worker.stop() for worker in fleet.workers] == [0, 0]


@pytest.mark.full
def test_an_erased_broker_costs_delay_and_no_document(tmp_path: Path, broker: Server) -> None:
    with machines(tmp_path, broker) as fleet, fleet.installation() as fairlead:
        api = fleet.add_api("api")
        fleet.add_worker("one", 1)
        first = fairlead.submit("acme", b"first", name="1.txt")
        wait(fairlead, first)
        fairlead.customers.pause("acme")  # a message that the worker has already is of no use
        broker.kill()
        broker.erase()
        document = fairlead.submit("acme", b"accepted without a broker", name="2.txt")
        assert api.operator.get(f"/v1/documents/{document.id}").json()["state"] == "waiting"
        broker.start()
        fairlead.customers.resume("acme")
        wait(fairlead, document)
        assert fairlead.text(document.id) == "accepted without a broker"


@pytest.mark.full
def test_celerys_own_tools_see_the_workers(tmp_path: Path, broker: Server) -> None:
    with machines(tmp_path, broker) as fleet, fleet.installation() as fairlead:
        fleet.add_worker("one", 1)
        wait(fairlead, fairlead.submit("acme", b"x", name="x.txt"))
        environment = {f"FAIRLEAD_{key.upper()}": value for key, value in fleet.settings.items()}
        environment["FAIRLEAD_DATA"] = str(fleet.machine("tool"))
        result = subprocess.run(
            [*CELERY, "inspect", "registered", "--timeout", "5"],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "fairlead.claim_next" in result.stdout, result.stdout + result.stderr


@pytest.mark.full
def test_the_doctor_looks_at_the_broker(tmp_path: Path) -> None:
    with servers.redis() as broker:
        environment = os.environ | {"FAIRLEAD_BROKER": broker.url, "FAIRLEAD_ENGINE": "celery"}
        command = [sys.executable, "-m", "fairlead", "doctor", "--data", str(tmp_path)]
        Fairlead(tmp_path).close()

        def doctor() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )

        assert "the broker is reachable; 0 messages" in doctor().stdout
        broker.kill()
        result = doctor()
        assert result.returncode == 1
        assert "broker cannot be reached" in result.stdout


@pytest.mark.full
def test_the_engine_works_on_a_data_folder_too(tmp_path: Path, broker: Server) -> None:
    environment = os.environ | {"FAIRLEAD_BROKER": broker.url, "FAIRLEAD_ENGINE": "celery"}
    with Fairlead(tmp_path / "data") as fairlead:
        document = fairlead.submit("acme", b"embedded", name="e.txt")
        process = subprocess.Popen(
            [*CELERY, "worker", "--pool", "threads", "--concurrency", "2", "--loglevel", "ERROR"],
            env=environment | {"FAIRLEAD_DATA": str(tmp_path / "data")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait(fairlead, document)
        finally:
            process.terminate()
            process.wait(60)
        assert fairlead.text(document.id) == "embedded"


@pytest.mark.full
def test_the_process_that_forks_a_pool_holds_no_file_of_the_installation(
    tmp_path: Path, broker: Server
) -> None:
    """A fork with a SQLite file open would believe to hold its locks, and lose what it writes."""
    environment = os.environ | {"FAIRLEAD_BROKER": broker.url, "FAIRLEAD_DATA": str(tmp_path)}
    pools: set[str] = set()
    with Fairlead(tmp_path) as fairlead:
        process = subprocess.Popen(
            [*CELERY, "worker", "-c", "1", "--max-tasks-per-child", "1", "--loglevel", "ERROR"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        proc = Path(f"/proc/{process.pid}")
        try:
            while len(pools) < 3:
                wait(fairlead, fairlead.submit("acme", b"x", name="x.txt"))
                pools |= set((proc / f"task/{process.pid}/children").read_text().split())
                assert not [path for path in open_files(proc) if tmp_path in path.parents]
        finally:
            process.terminate()
            process.wait(60)
        assert {document.state for document in fairlead.documents()} == {State.DONE}
        assert fairlead.store.problems() == []


STEPS = """
from pathlib import Path
from threading import Event
from fairlead import Refuse, Result, RetryLater, step

def fields(job):
    count(job, "fields")
    return Result(data={"words": len(job.text.split())}, files={"long.bin": b"x" * 100_000})

@step(attempts=2, timeout=2, concurrency=2)
def export(job):
    calls = count(job, "export")
    if job.name == "refused.txt":
        raise Refuse("no-total", "No total was found.")
    if job.name == "later.txt" and calls < 3:
        raise RetryLater(0.1)
    if job.name == "once.txt" and job.attempt == 1:
        raise ValueError("once")
    if job.name == "hangs.txt":
        Event().wait()
    return {"calls": calls}

def orders(job):
    return {"order": job.json()["order"]}

def count(job, name):
    notes = Path(__file__).with_name(f"{job.name}.{name}")
    with notes.open("a") as file:
        file.write("x")
    return len(notes.read_text())
"""


@pytest.mark.full
def test_steps_run_on_celery_as_they_do_on_the_local_engine(
    tmp_path: Path, broker: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(tmp_path, STEPS, "celery_steps")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    steps = ["read", "celery_steps:fields", "celery_steps:export"]
    pipelines = {"default": {"steps": steps}, "orders": {"steps": ["celery_steps:orders"]}}
    with machines(tmp_path / "machines", broker) as fleet:
        fleet.settings["pipelines"] = json.dumps(pipelines)
        with fleet.installation() as fairlead:
            names = ("good", "refused", "later", "once", "hangs")
            documents = [fairlead.submit("acme", b"two words", name=f"{n}.txt") for n in names]
            order = fairlead.submit("bolt", {"order": 7}, pipeline="orders")
            worker = fleet.add_worker("one", 2)
            wait(fairlead, *documents, order)
            ended = [fairlead.document(document.id) for document in documents]
            good, refused, later, once, hangs = ended
            for document, calls in ((good, 1), (later, 3), (once, 2)):
                assert document.state is State.DONE
                result = fairlead.result(document.id)
                assert result.data == {"words": 2, "calls": calls}
                assert len(result.file("long.bin")) == 100_000
            assert (refused.error, refused.detail) == ("no-total", "No total was found.")
            assert (hangs.error, hangs.step, hangs.step_attempt) == ("step-failed", steps[2], 2)
            assert "longer than 2 s" in (fairlead.cause(hangs.id) or "")
            assert fairlead.result(order.id).data == {"order": 7}
            assert worker.stop() == 0
            assert fairlead.store.problems() == []
    calls_of_first = [len((tmp_path / f"{name}.txt.fields").read_text()) for name in names]
    assert calls_of_first == [1, 1, 1, 1, 1], "a retry resumes at the step that failed"


def test_a_quota_that_is_used_up_wakes_nobody(tmp_path: Path) -> None:
    pipelines = {"default": {"steps": ["read"], "limit": "1/h"}, "other": {"steps": ["read"]}}
    with Fairlead(tmp_path, settings={"pipelines": pipelines}) as fairlead:
        fairlead.services.use_quotas()
        fairlead.submit_many("acme", [(b"x", "x.txt")] * 3)
        assert fairlead.store.claimable(100) == 3
        assert fairlead.store.claim("worker") is not None
        assert fairlead.store.claimable(100) == 0
        fairlead.submit("acme", b"x", name="x.txt", pipeline="other")
        assert fairlead.store.claimable(100) == 1


def open_files(proc: Path) -> Iterator[Path]:
    for path in (proc / "fd").iterdir():
        with suppress(FileNotFoundError):
            yield path.readlink()


def test_a_worker_without_a_broker_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fairlead", "worker", "--engine", "celery"]
    result = subprocess.run(
        [*command, "--data", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "FAIRLEAD_BROKER" in result.stderr
    result = subprocess.run(
        [*command, "--until-idle"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert result.returncode == 2
    assert "local engine" in result.stderr
    with Fairlead(tmp_path) as fairlead, pytest.raises(UsageError, match="FAIRLEAD_BROKER"):
        fairlead.services.wakeup_publisher()


class Recorder:
    """A broker that records the requested numbers of messages, and may be unreachable."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.is_reachable = True
        self.was_called = Event()

    def fill_up_to(self, number: int) -> int:
        self.was_called.set()
        if not self.is_reachable:
            raise BrokerUnreachable("no broker; start it")
        self.requests.append(number)
        return number

    def messages(self) -> int:
        return 0

    def close(self) -> None:
        pass

    def wait_for_call(self) -> None:
        self.was_called.clear()
        assert self.was_called.wait(60)


def started(fairlead: Fairlead, broker: Recorder) -> WakeupPublisher:
    publisher = WakeupPublisher(fairlead.store, broker)
    publisher.start()
    return publisher


def test_one_publisher_at_a_time_and_another_when_it_is_gone(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as first, Fairlead(tmp_path) as second:
        brokers = [Recorder(), Recorder()]
        publishers = [started(first, brokers[0])]
        brokers[0].wait_for_call()
        publishers.append(started(second, brokers[1]))
        first.submit_many("acme", [(b"x", "x.txt")] * 3)
        while 3 not in brokers[0].requests:
            brokers[0].wait_for_call()
        assert brokers[1].requests == []
        publishers[0].stop()
        brokers[1].wait_for_call()
        assert brokers[1].requests[-1] == 3
        publishers[1].stop()


def test_a_broker_that_comes_back_gets_messages_again(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        broker = Recorder()
        broker.is_reachable = False
        fairlead.submit("acme", b"x", name="x.txt")
        publisher = started(fairlead, broker)
        broker.wait_for_call()
        assert broker.requests == []
        broker.is_reachable = True
        while not broker.requests:
            broker.wait_for_call()
        assert broker.requests[0] == 1
        publisher.stop()


def test_a_publisher_that_cannot_start_yet_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else this process publishes nothing until it is started anew."""
    program, broker, tries = CeleryProgram(tmp_path), Recorder(), []
    open_it = program._installation

    def busy_at_first() -> Fairlead:
        tries.append("once more")
        if len(tries) == 1:
            raise StoreBusy("the database is locked")
        return open_it()

    monkeypatch.setattr(program, "_installation", busy_at_first)
    monkeypatch.setattr(
        Services, "wakeup_publisher", lambda self: WakeupPublisher(self._store, broker)
    )
    program.on_process_start()
    broker.wait_for_call()
    program.on_shutdown()
    open_it().close()
    assert len(tries) == 2


DIES_AT_WORK = """
import os, sys
from fairlead import Fairlead
from fairlead.worker.liveness import worker_name

with Fairlead(sys.argv[1], settings={"lease": 3600}) as fairlead:
    fairlead.store.claim(worker_name(1))
    os._exit(0)
"""


def test_a_wakeup_for_the_document_of_a_worker_that_died_here(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings={"lease": 3600}) as fairlead:
        document = fairlead.submit("acme", b"x", name="x.txt")
        subprocess.run([sys.executable, "-c", DIES_AT_WORK, str(tmp_path)], check=True)
        assert fairlead.document(document.id).state is State.PROCESSING
        broker = Recorder()
        publisher = started(fairlead, broker)
        broker.wait_for_call()
        publisher.stop()
        assert broker.requests[0] == 1


def test_documents_that_may_not_run_wake_nobody(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        fairlead.submit_many("paused", [(b"x", "x.txt")] * 5)
        fairlead.customers.pause("paused")
        assert fairlead.store.claimable(100) == 0
        fairlead.submit_many("acme", [(b"x", "x.txt")] * 5)
        assert fairlead.store.claimable(100) == 5
        assert fairlead.store.claimable(3) == 3
