"""Accepted is never lost: submitters and servers die again and again, by kill -9.

Each submitter writes down the id of a document after `submit` has returned, on a pipe that
outlives it. In the end every id on the pipes must have come to exactly one end.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fairlead import Fairlead
from fairlead.model.documents import EventKind
from fairlead.model.states import State

pytestmark = pytest.mark.faults

ROUNDS = 20
ENDS = (EventKind.DONE, EventKind.FAILED, EventKind.CANCELLED)

SUBMITTER = """
import sys
from fairlead import Fairlead

with Fairlead(sys.argv[1]) as fairlead:
    for number in range(10**9):
        long = b"%d " % number * 20_000  # a file; the others are kept in the store
        batch = [(b"%d" % number, f"{number}-{position}.txt") for position in range(1 + number % 7)]
        batch += [(long, f"{number}-long.txt")] if number % 3 == 0 else []
        documents = fairlead.submit_many(sys.argv[2], batch)
        print("\\n".join(document.id for document in documents), flush=True)
"""


def start_submitter(data: Path, customer: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SUBMITTER, str(data), customer]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def start_server(data: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fairlead", "worker", "--data", str(data)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def children(pid: int) -> list[int]:
    """Those of the process, and theirs: readers are forked by a child of the worker."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    own = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return own + [descendant for child in own for descendant in children(child)]


def read_lines(process: subprocess.Popen[str], number: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(number)]


def kill(process: subprocess.Popen[str]) -> str:
    """Kill the process at once; return what it had still said."""
    process.kill()
    output, _ = process.communicate()
    return output or ""


def hear_of_documents(server: subprocess.Popen[str], number: int) -> None:
    """Wait until the server has told of so many documents at their end."""
    assert server.stderr is not None
    for line in server.stderr:
        number -= line.startswith("done")
        if number == 0:
            return
    raise AssertionError("the server ended by itself")


def test_nothing_accepted_is_lost_when_everybody_dies(tmp_path: Path) -> None:
    chance = random.Random(1)
    acknowledged: list[str] = []
    for number in range(ROUNDS):
        submitters = [start_submitter(tmp_path, name) for name in ("acme", "globex", "initech")]
        for submitter in submitters:
            acknowledged += read_lines(submitter, chance.randint(1, 20))
        server = start_server(tmp_path)
        hear_of_documents(server, chance.randint(1, 30))
        if number % 2:
            os.kill(chance.choice(children(server.pid)), signal.SIGKILL)
            hear_of_documents(server, 5)
        acknowledged += [line for submitter in submitters for line in kill(submitter).split()]
        kill(server)

    with Fairlead(tmp_path) as fairlead:
        fairlead.run_until_idle(workers=2)
        ends = Counter(
            event.document for event in fairlead.store.events(limit=10**7) if event.kind in ENDS
        )
        assert len(acknowledged) > 20 * ROUNDS
        assert set(acknowledged) <= ends.keys()
        assert set(ends.values()) == {1}
        documents = [fairlead.document(id_) for id_ in acknowledged]
        assert [document for document in documents if document.state is not State.DONE] == []
        for id_ in acknowledged:
            assert fairlead.text(id_) == fairlead.original(id_).decode().strip()
        are_in_store = [fairlead.store.original(id_) is not None for id_ in acknowledged]
        assert any(are_in_store)
        assert not all(are_in_store)
        assert fairlead.store.problems() == []
        counts_are_whole(fairlead)


def counts_are_whole(fairlead: Fairlead) -> None:
    """Each customer's accepted documents have the counts 0, −1, −2 … without gap or repeat."""
    for customer in fairlead.store.customers():
        counts = [
            document.count for document in fairlead.documents(customer=customer.name, limit=10**7)
        ]
        assert sorted(counts, reverse=True) == [-number for number in range(len(counts))]
