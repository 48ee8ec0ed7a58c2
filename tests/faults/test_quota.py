"""A quota over several machines: kept within 10 %, and shared in the order of the policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import httpx
import postgreskit
import pytest
from apikit import Served, served
from fleetkit import every_event, inversions
from stepfleet import step_engines
from stepkit import write_module

from fairlead import Fairlead
from fairlead.model.documents import Event, EventKind
from fairlead.model.states import State

pytestmark = pytest.mark.full

RATE = 15
WORKERS, SERVERS = 3, 2
HEAVY, LIGHT = ("acme", "globex"), ("initech", "umbrella", "hooli")
TOGETHER = 25
SLOWEST = 120.0

SETTINGS = f"""
[pipelines.default]
steps = ["mysteps:call"]
limit = "{RATE}/s"
"""
STEPS = """
from fairlead import step

@step(concurrency=8)
def call(job):
    return {"name": job.name}
"""


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[list[Path]]:
    """Data folders of machines that share a server of PostgreSQL and the files."""
    write_module(tmp_path, STEPS)
    postgreskit.server()
    with postgreskit.lent(tmp_path):
        store, files = postgreskit.url_for(tmp_path), tmp_path / "shared"
        folders = [tmp_path / f"machine-{number}" for number in range(WORKERS + SERVERS)]
        for folder in folders:
            folder.mkdir()
            settings = f'store = "{store}"\nfiles = "{files}"\n{SETTINGS}'
            (folder / "fairlead.toml").write_text(settings)
        yield folders


def test_a_quota_is_kept_and_shared_by_the_policy(folders: list[Path]) -> None:
    with ExitStack() as stack:
        fairlead = stack.enter_context(Fairlead(folders[0]))
        apis = [
            stack.enter_context(served(folder, "--workers", "0")) for folder in folders[WORKERS:]
        ]
        keys = {name: fairlead.keys.add(name)[0] for name in (*HEAVY, *LIGHT)}
        engines = stack.enter_context(step_engines(folders[:WORKERS], "--workers", "1"))
        numbers = count()
        sent = [id_ for _ in range(4) for name in HEAVY for id_ in send(apis, keys[name], numbers)]
        for light in LIGHT:  # each comes while the others wait for the quota
            fairlead.wait(sent[0], timeout=SLOWEST)
            sent += send(apis, keys[light], numbers, 5)
        ended = fairlead.wait(sent, timeout=SLOWEST)
        for engine in engines:
            engine.stop()
        assert {document.state for document in ended} == {State.DONE}
        events = every_event(fairlead)
        check_rate([event.at for event in events if event.kind is EventKind.CLAIMED])
        assert len(workers_of(events)) == WORKERS
        assert inversions(fairlead, events, {document.id: document for document in ended}) == 0


def send(
    apis: list[Served], key: str, numbers: Iterator[int], together: int = TOGETHER
) -> list[str]:
    number = next(numbers)
    files = [
        ("file", (f"{number}-{position}.txt", b"%d" % position)) for position in range(together)
    ]
    headers = {"Authorization": f"Bearer {key}"}
    url = f"{apis[number % len(apis)].url}/v1/documents"
    answer = httpx.post(url, files=files, headers=headers, timeout=60, trust_env=False)
    assert answer.status_code == 202, answer.text
    return [document["id"] for document in answer.json()["documents"]]


def check_rate(starts: list[float]) -> None:
    """No time has more starts than the quota gives it, and in all they are hardly fewer."""
    starts.sort()
    for first, began in enumerate(starts):
        for last in range(first, len(starts)):
            seconds = starts[last] - began
            most = RATE * (1 + seconds)  # a bucket that was full holds those of one second
            assert last - first + 1 <= most + 1, f"{last - first + 1} starts in {seconds:.2f} s"
    steady = (len(starts) - RATE) / (starts[-1] - starts[0])
    print(f"{len(starts)} starts in {starts[-1] - starts[0]:.2f} s: {steady:.2f} per second")
    assert 0.9 * RATE <= steady <= 1.1 * RATE


def workers_of(events: list[Event]) -> set[str]:
    """The processes that claimed: names of workers end with the number of a slot."""
    claims = [event.data for event in events if event.kind is EventKind.CLAIMED]
    return {str(data["worker"]).partition("#")[0] for data in claims}
