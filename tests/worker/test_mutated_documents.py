"""Documents that went wrong in a thousand ways: each has an end, and nobody hangs or dies."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutations import mutated

from fairlead import Fairlead
from fairlead.model.documents import EventKind
from fairlead.model.states import State

pytestmark = [pytest.mark.services, pytest.mark.full]

ENDS = (EventKind.DONE, EventKind.FAILED)
SETTINGS = {"time_limit": 20.0, "retry_delay": 0.01, "memory_limit": 1_000_000_000}


def read_all(folder: Path, number: int) -> None:
    with Fairlead(folder, settings=SETTINGS) as fairlead:
        contents = [(content, f"{at}.bin") for at, content in enumerate(mutated(number))]
        documents = fairlead.submit_many("acme", contents)
        fairlead.run_until_idle(workers=2)
        everything = fairlead.documents(limit=10**6)  # with what came out of archives and letters
        states = {document.state for document in everything}
        assert states == {State.DONE, State.FAILED}  # both, else they were not worth much
        assert {document.id for document in documents} <= {document.id for document in everything}
        ends = [
            event.document for event in fairlead.store.events(limit=10**6) if event.kind in ENDS
        ]
        assert sorted(map(str, ends)) == sorted(document.id for document in everything)
        assert fairlead.store.problems() == []


def test_a_hundred_mutated_documents_have_an_end(tmp_path: Path) -> None:
    read_all(tmp_path, 100)


@pytest.mark.faults
def test_a_thousand_mutated_documents_have_an_end(tmp_path: Path) -> None:
    read_all(tmp_path, 1_000)
