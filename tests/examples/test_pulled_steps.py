"""The example steps in curl and Node, and the sync client, take documents of a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from apikit import served

from fairlead import Client, Fairlead, Job, Refuse, Result
from fairlead.model.states import State

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pulled-steps"
PROGRAMS = {"curl": ["sh", "count-words.sh"], "node": ["node", "count-words.mjs"]}

pytestmark = [pytest.mark.full, pytest.mark.services]


class Site:
    def __init__(self, url: str, fairlead: Fairlead) -> None:
        self.url, self.fairlead = url, fairlead
        self.key, _ = fairlead.keys.add(worker="words")

    def submit(self) -> tuple[list[str], str]:
        """Ten documents with words, and one without; all of them are read."""
        contents = [b"word " * number for number in range(1, 11)]
        documents = self.fairlead.submit_many("acme", contents, pipeline="words")
        empty = self.fairlead.submit("acme", b"\n", pipeline="words")
        return [document.id for document in documents], empty.id

    def check(self, documents: list[str], empty: str) -> None:
        for number, id_ in enumerate(documents, 1):
            result = self.fairlead.result(id_)
            assert result.data == {"words": number}
            assert result.file("text.txt").split() == number * [b"word"]
        failed = self.fairlead.document(empty)
        assert (failed.state, failed.error) == (State.FAILED, "no-words")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    data = tmp_path_factory.mktemp("pulled") / "data"
    data.mkdir()
    (data / "fairlead.toml").write_text('[pipelines.words]\nsteps = ["read", "pull:words"]\n')
    with served(data, "--workers", "0") as server, Fairlead(data) as fairlead:
        yield Site(server.url, fairlead)


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_counts_the_words_of_all_documents(site: Site, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    documents, empty = site.submit()
    site.fairlead.run_until_idle(workers=1)
    environment = os.environ | {"FAIRLEAD_URL": site.url, "FAIRLEAD_KEY": site.key}
    subprocess.run(PROGRAMS[program], cwd=FOLDER, env=environment, timeout=120, check=True)
    site.check(documents, empty)


def words(job: Job) -> Result:
    if not job.text.split():
        raise Refuse("no-words", "The document has no words.")
    return Result(data={"words": len(job.text.split())}, files={"text.txt": job.text.encode()})


def test_the_sync_client_runs_a_step(site: Site) -> None:
    documents, empty = site.submit()
    site.fairlead.run_until_idle(workers=1)
    with Client(site.url, site.key) as client:
        client.run_step(words, concurrency=3, until_idle=True)
    site.check(documents, empty)
