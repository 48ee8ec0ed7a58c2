"""A disk that is really full or read-only: what was accepted is safe, the rest is refused whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import smalldisk

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
        *(pytest.param(name, marks=pytest.mark.faults) for name in smalldisk.LONG_SCENARIOS),
    ],
)
def test_a_full_or_read_only_disk(own_mounts: list[str], tmp_path: Path, scenario: str) -> None:
    program = [sys.executable, smalldisk.__file__, scenario, str(tmp_path)]
    ran = subprocess.run([*own_mounts, *program], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
