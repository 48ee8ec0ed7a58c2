"""The interpreters that make and CI use: those that are named, those that are found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest
from packagekit import ROOT

SUPPORTED = ["3.11", "3.12", "3.13", "3.14"]


def run(*command: str | Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), env=dict(env), capture_output=True, text=True, check=False
    )


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def another_python(path: Path, version: str) -> Path:
    """An interpreter that answers as one of another version and place would."""
    return program(
        path, f'case "$2" in *"%d.%d"*) echo {version};; *) echo {version}.0 elsewhere;; esac'
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose environment is complete, to judge by its stamps."""
    folder = tmp_path / "checkout"
    (folder / "tools").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "tools/setup.sh"):
        shutil.copy(ROOT / name, folder / name)
    for pins in ROOT.glob("requirements*.txt"):
        shutil.copy(pins, folder)
    venv.create(folder / ".venv", symlinks=True)
    for part in ("", "-demo", "-server"):
        (folder / ".venv" / f".ready{part}").touch()
    return folder


def plan(checkout: Path, *arguments: str) -> str:
    """What make would run, without the variables that another make has set."""
    environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    done = run("make", "-C", checkout, "-n", *arguments, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", ["setup", "demo", "run"])
def test_an_environment_is_made_anew_for_another_interpreter_only(
    checkout: Path, tmp_path: Path, target: str
) -> None:
    same = f"PYTHON={Path(sys.executable).resolve()}"
    other = f"PYTHON={another_python(tmp_path / 'python9.9', '9.9')}"
    assert "tools/setup.sh" not in plan(checkout, target)
    assert "tools/setup.sh" not in plan(checkout, target, same)
    assert f"{other} VENV=.venv tools/setup.sh" in plan(checkout, target, other)
    assert f"{other} VENV=.venv-9.9 tools/setup.sh" in plan(
        checkout, target, other, "VENV=.venv-9.9"
    )


def test_an_environment_whose_interpreter_is_gone_is_made_anew(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3.10")
    assert "tools/setup.sh all" in plan(checkout, "setup")


def test_setup_says_that_it_makes_an_environment_anew(checkout: Path, tmp_path: Path) -> None:
    answers = '*sys.base_prefix*) echo 9.9;; *"-m venv"*) echo "$@"; exit 3'
    script = f'case "$*" in {answers};; *) exec {sys.executable} "$@";; esac'
    other = program(tmp_path / "python9.9", script)
    environment = os.environ | {"PYTHON": str(other), "VENV": ".venv"}
    done = run(checkout / "tools" / "setup.sh", "demo", env=environment)
    assert done.returncode == 3
    assert done.stdout == "-m venv --clear .venv\n"
    assert done.stderr.startswith("setup: making .venv anew, with Python")


def test_ci_tests_with_every_supported_interpreter_that_it_finds(tmp_path: Path) -> None:
    programs, pyenv = tmp_path / "bin", tmp_path / "pyenv"
    (tmp_path / "checkout" / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", tmp_path / "checkout" / ".ci")
    own = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else "python3"
    asked = [own, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = run(*asked, env=os.environ).stdout.strip()
    on_path, in_pyenv, *absent = [known for known in SUPPORTED if known != version]
    program(programs / "make", f'echo "$@" >> {tmp_path}/calls')
    one = another_python(programs / f"python{on_path}", on_path)
    two = another_python(pyenv / "versions" / f"{in_pyenv}.4" / "bin" / "python", in_pyenv)
    for name in (in_pyenv, *absent):  # what pyenv has for versions that are not chosen
        program(programs / f"python{name}", "exit 127")
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "PYENV_ROOT": str(pyenv)}
    done = run(tmp_path / "checkout" / ".ci" / "run", env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"test PYTHON={own}",
        f"test-full PYTHON={own}",
        f"test-fast PYTHON={one.name} VENV=.venv-{on_path}",
        f"test-fast PYTHON={two} VENV=.venv-{in_pyenv}",
    ]
    assert done.stdout.count(f"not found: {' '.join(absent)}\n") == 2
