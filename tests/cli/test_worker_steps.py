"""`fairlead worker` with steps: from the present folder, of some pipelines, and with bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from stepkit import write_module

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.cli.options import warn_of_unread_settings

pytestmark = pytest.mark.services

SETTINGS = """
[pipelines.invoices]
steps = ["mysteps:fields"]
[pipelines.broken]
steps = ["mysteps:nothing_like_it"]
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with two pipelines, beside the module of their steps."""
    source = "def fields(job): return {'name': job.name, 'paid': False, 'lines': [{'n': 1.0}]}"
    write_module(tmp_path, source)
    folder = tmp_path / "data"
    with Fairlead(folder):
        (folder / "fairlead.toml").write_text(SETTINGS)
    return folder


def work(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command as it is installed: its path has not the present folder."""
    command = [str(Path(sys.executable).with_name("fairlead")), "worker", "--until-idle"]
    return subprocess.run(
        [*command, "--data", str(data), *options],
        cwd=data.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_worker_serves_only_the_pipelines_that_it_is_given(data: Path) -> None:
    with Fairlead(data) as fairlead:
        served = fairlead.submit("acme", b"one", name="a.txt", pipeline="invoices")
        left = fairlead.submit("acme", b"two", name="b.txt")
        done = work(data, "--pipelines", "invoices", "--reload")
        assert done.returncode == 0, done.stderr
        expected = {"name": "a.txt", "paid": False, "lines": [{"n": 1.0}]}
        assert fairlead.result(served.id).data == expected
        assert fairlead.result(served.id).text is None
        shown = CliRunner().invoke(main, ["docs", "show", served.id, "--data", str(data)]).output
        assert json.loads(shown.partition("data:\n")[2]) == expected
        assert fairlead.document(left.id).state == "waiting"


def test_unknown_pipelines_and_steps_are_said_at_the_start(data: Path) -> None:
    unknown = work(data, "--pipelines", "invoices,orders")
    assert unknown.returncode != 0
    assert "orders" in unknown.stderr
    broken = work(data, "--pipelines", "broken")
    assert broken.returncode != 0
    assert "step mysteps:nothing_like_it: mysteps has no function nothing_like_it" in broken.stderr
    assert "Traceback" not in unknown.stderr + broken.stderr


def test_a_settings_file_beside_the_data_folder_is_said_to_be_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    warn_of_unread_settings(Path("data"))
    Path("fairlead.toml").touch()
    warn_of_unread_settings(Path("data"))
    Path("data/fairlead.toml").touch()
    warn_of_unread_settings(Path("data"))
    assert capsys.readouterr().err == (
        "fairlead: fairlead.toml in this folder is not read; move it to data/fairlead.toml\n"
    )
