"""The wheel, installed into an empty environment with each extra."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from needs import need
from packagekit import ROOT, check_probe, extras, included, pins, run_probe

pytestmark = pytest.mark.full
SECONDS = 240
"""How long an installation may take."""


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=SECONDS,
        check=False,
    )


def pip(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: setuptools leaves files behind in the folder it builds in."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder)
    built = pip("wheel", *options, folder)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pinned versions without hashes, as the wheel that is tested has none."""
    folder = tmp_path_factory.mktemp("constraints")
    versions = pins("requirements.txt")
    tried = pip("download", "--no-deps", "--dest", folder, f"mdurl=={versions['mdurl'][0]}")
    need(tried.returncode == 0, "a package index that pip can reach")
    file = folder / "constraints.txt"
    file.write_text("".join(f"{name}=={version}\n" for name, (version, _) in versions.items()))
    return file


def installed(folder: Path, wheel: Path, constraints: Path, extra: str) -> Path:
    """The folder of programs of an empty environment with the wheel and one extra."""
    made = run(sys.executable, "-m", "venv", "--without-pip", folder)
    assert made.returncode == 0, made.stderr
    name = f"fairlead[{extra}]" if extra else "fairlead"
    done = pip(
        *("--python", folder / "bin" / "python", "install", "--no-compile"),
        *("--constraint", constraints, f"{name} @ {wheel.as_uri()}"),
    )
    assert done.returncode == 0, done.stderr
    return folder / "bin"


@pytest.mark.parametrize("extra", ["", *extras()])
def test_the_wheel_works_with_each_extra(
    extra: str, wheel: Path, constraints: Path, tmp_path: Path
) -> None:
    there = included(extra) if extra else set()
    programs = installed(tmp_path / "environment", wheel, constraints, extra)
    work = tmp_path / "work"
    work.mkdir()
    check_probe(run_probe(programs / "python", work, *sorted(there)))

    def fairlead(*words: str) -> subprocess.CompletedProcess[str]:
        return run(programs / "fairlead", *words, cwd=work)

    assert fairlead("--version").stdout == "fairlead, version 0.1.0\n"
    (work / "letter.txt").write_text("Dear Sir or Madam")
    sent = fairlead("docs", "submit", "letter.txt", "--customer", "acme", "--data", "data")
    assert sent.returncode == 0, sent.stderr
    worked = fairlead("worker", "--until-idle", "--quiet", "--data", "data")
    health = fairlead("doctor", "--data", "data", "--json")
    listed = json.loads(fairlead("docs", "list", "--json", "--data", "data").stdout)
    state = listed["documents"][0]["state"]
    if "documents" in there:
        assert (worked.returncode, state) == (0, "done"), worked.stderr
        assert health.returncode == 0, health.stdout
    else:  # what is not installed is no verdict on a document
        assert (worked.returncode, state) == (2, "waiting"), worked.stderr
        assert worked.stderr.endswith(" -m pip install 'fairlead[documents]'\n")
        assert "pip install 'fairlead[documents]'" in health.stdout
