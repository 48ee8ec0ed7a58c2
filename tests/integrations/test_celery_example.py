"""The example of the how-to page, as written, on both brokers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import servers
from celerykit import run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "celery-priorities.md"
FILE = re.compile(r"^```python (\w+\.py)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"processing (\S+)")
TASKS = 35


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with the files of the page, and nothing else."""
    for name, text in FILE.findall(PAGE.read_text("utf-8")):
        (tmp_path / name).write_text(text, "utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["send.py", "tasks.py"]
    return tmp_path


@pytest.fixture
def empty_redis() -> Iterator[servers.Server]:
    """A Redis for this test only: the example's queue has Celery's default name."""
    with servers.redis() as server:
        yield server


@pytest.mark.parametrize("broker", ["redis", pytest.param("rabbitmq", marks=pytest.mark.full)])
def test_the_example_is_received_in_the_order_that_the_page_shows(
    broker: str, example: Path, empty_redis: servers.Server, request: pytest.FixtureRequest
) -> None:
    place = f"{empty_redis.url}/0"
    if broker == "rabbitmq":
        place = request.getfixturevalue("rabbitmq_server").url
    environment = {**os.environ, "BROKER": place, "COUNTERS": f"{empty_redis.url}/1"}
    binaries = Path(sys.executable).parent
    subprocess.run([sys.executable, "send.py"], cwd=example, env=environment, check=True)
    command = [str(binaries / "celery"), "-A", "tasks", "worker", "--concurrency", "1"]
    with run(command, environment, example) as (_, output):
        assert output.wait_until(lambda lines: len(SHOWN.findall("".join(lines))) == TASKS)
        printed = SHOWN.findall(output.text())
    shown = SHOWN.findall(PAGE.read_text("utf-8").partition("```console")[2])
    assert len(shown) == 11
    assert printed[: len(shown)] == shown
    assert printed[len(shown) :] == [f"big/{number}.pdf" for number in range(7, 31)]
