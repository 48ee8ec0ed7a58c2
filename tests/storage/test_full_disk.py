"""A disk that is really full or read-only: what was accepted is safe, the rest is refused whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import smalldisk

pytestmark = pytest.mark.services

APART = ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.fixture(scope="session")
def own_mounts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How to start a program that may mount a disk of its own."""
    folder = str(tmp_path_factory.mktemp("mount"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    for apart in (APART, ["unshare", "--mount"]):
        if (
            shutil.which("unshare")
            and not subprocess.run([*apart, *mount], check=False, capture_output=True).returncode
        ):
            return apart
    reason = "mounting a small disk is not permitted here"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.mark.parametrize(
    "scenario",
    [
        *smalldisk.SCENARIOS,
        *(pytest.param(name, marks=pytest.mark.full) for name in smalldisk.FULL_SCENARIOS),
        *(pytest.param(name, marks=pytest.mark.faults) for name in smalldisk.LONG_SCENARIOS),
    ],
)
def test_a_full_or_read_only_disk(own_mounts: list[str], tmp_path: Path, scenario: str) -> None:
    run_scenario(own_mounts, scenario, tmp_path)


@pytest.mark.parametrize("scenario", smalldisk.SUPERUSER_SCENARIOS)
def test_a_disk_that_becomes_read_only(tmp_path: Path, scenario: str) -> None:
    if os.getuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("mounting a disk in a file needs root and mkfs.ext4")
    run_scenario(["unshare", "--mount"], scenario, tmp_path)


def run_scenario(apart: list[str], scenario: str, folder: Path) -> None:
    program = [sys.executable, smalldisk.__file__, scenario, str(folder)]
    ran = subprocess.run([*apart, *program], check=False, capture_output=True, text=True)
    if ran.returncode == smalldisk.SKIPPED:
        pytest.skip("mounting a disk in a file is not permitted here")
    assert ran.returncode == 0, ran.stderr
