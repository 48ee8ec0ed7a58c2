"""The units of systemd: valid, wide enough for what they run, and shown in the documentation."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from needs import need
from packagekit import ROOT

from fairlead.config.settings import Settings
from fairlead.steps.outcomes import StepOptions

UNITS = {
    "fairlead-serve.service": "docs/how-to/serve.md",
    "fairlead-worker.service": "docs/how-to/run-a-worker.md",
}
"""Each unit, with the page that shows it."""
PROGRAM = "/opt/fairlead/.venv/bin/fairlead"


def text_of(unit: str) -> str:
    return (ROOT / "deploy" / "systemd" / unit).read_text("utf-8")


def service(unit: str) -> dict[str, str]:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    parser.read_string(text_of(unit))
    return dict(parser["Service"])


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_no_fault(unit: str, tmp_path: Path) -> None:
    need(shutil.which("systemd-analyze") is not None, "systemd-analyze")
    program = Path(sys.executable).with_name("fairlead")
    assert PROGRAM in text_of(unit)
    (tmp_path / unit).write_text(text_of(unit).replace(PROGRAM, str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if unit in line]  # others are the machine's
    assert (done.returncode, said) == (0, []), done.stderr


@pytest.mark.parametrize("unit", UNITS)
def test_the_command_of_a_unit_is_one(unit: str) -> None:
    command = service(unit)["ExecStart"].removeprefix(f"{PROGRAM} ").split()
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", *command, "--help"], capture_output=True, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_leaves_time_to_finish_a_document(unit: str) -> None:
    document = Settings().time_limit + StepOptions().timeout
    assert float(service(unit)["TimeoutStopSec"]) > document
    assert service(unit)["TimeoutStartSec"] == "infinity"  # a store that is away is waited for


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_permits_webhooks_databases_and_steps_that_call_services(unit: str) -> None:
    families = set(service(unit)["RestrictAddressFamilies"].split())
    assert families == {"AF_UNIX", "AF_INET", "AF_INET6"}


@pytest.mark.parametrize(("unit", "page"), UNITS.items())
def test_the_page_shows_the_unit_as_it_is(unit: str, page: str) -> None:
    blocks = re.findall(r"^```ini\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.M)
    assert text_of(unit) in blocks
    assert sum("[Service]" in block for block in blocks) == 1
