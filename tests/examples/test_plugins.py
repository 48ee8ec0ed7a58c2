"""Installed packages add steps and readers, and a broken one harms no other."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from stepkit import RunningPool, make_job

from fairlead.read import plugins
from fairlead.read.base import Reader
from fairlead.steps.outcomes import Returned

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CARD = b"BEGIN:VCARD\r\nVERSION:4.0\r\nFN:Ada Love\r\n lace\r\nEMAIL;TYPE=work:ada@example.com\r\n"
READ_CARD = """
import json, sys
from fairlead import Fairlead
with Fairlead("data") as fl:
    document = fl.submit("acme", sys.stdin.buffer.read(), name="ada.vcf")
    fl.run_until_idle(workers=1)
    card = fl.document(document.id)
    print(json.dumps([card.state, card.kind, card.facts["cards"], fl.text(card.id)]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip has installed both example packages."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", f"--target={folder}"]
    names = ("invoice-step", "vcard-reader")
    copies = tmp_path_factory.mktemp("sources")  # building writes beside the sources
    for name in names:
        (copies / name).mkdir()
        for file in (EXAMPLES / name).glob("*.*"):
            if file.is_file():
                (copies / name / file.name).write_bytes(file.read_bytes())
    subprocess.run([*command, *(str(copies / name) for name in names)], check=True)
    return folder


@pytest.mark.full
@pytest.mark.services
def test_a_step_of_an_installed_package_is_known_by_its_name(
    installed: Path, tmp_path: Path
) -> None:
    job = make_job(tmp_path, earlier={"text": "Invoice no. R-7, total: 12.00"})
    with RunningPool(installed, "invoice-fields") as running:
        (outcome,) = running.run(job)
        assert running.pool.options is not None
        assert running.pool.options.concurrency == 4
    assert isinstance(outcome, Returned)
    assert outcome.data is not None
    data = json.loads(outcome.data.read())
    assert data == {"number": "R-7", "currency": "EUR", "total": "12.00"}


@pytest.mark.full
@pytest.mark.services
def test_a_reader_of_an_installed_package_reads_in_the_sandbox(
    installed: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", READ_CARD],
        input=CARD,
        stdout=subprocess.PIPE,
        check=True,
        cwd=tmp_path,
        env=environment,
        timeout=120,
    )
    text = "Name: Ada Lovelace\nE-mail: ada@example.com"
    assert json.loads(done.stdout) == ["done", "vcard", 1, text]


def test_a_broken_reader_is_logged_and_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entries = [
        EntryPoint("absent", "nowhere:READER", plugins.GROUP),
        EntryPoint("wrong", "json:dumps", plugins.GROUP),
        EntryPoint("rtf", "fairlead.read.rtf:READER", plugins.GROUP),
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
    with caplog.at_level(logging.WARNING):
        readers = list(plugins.plugged_in())
    assert [type(reader) for reader in readers] == [Reader]
    assert "the reader absent cannot be used: No module named 'nowhere'" in caplog.text
    assert "json:dumps must be a Reader of fairlead.read" in caplog.text
