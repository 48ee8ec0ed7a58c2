"""The command that a missing extra names: it works where it is read, also in a checkout."""

from __future__ import annotations

import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from packagekit import ROOT, included

SAY = "from fairlead.extras import install_command; print(install_command('postgres'))"
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "fairlead"
version = "0.1.0"

[project.optional-dependencies]
postgres = []

[tool.setuptools]
packages = []
"""
"""A checkout that pip can install without an index: names, and no code."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT)
    return folder


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An environment with pip that has the libraries of this one."""
    venv.create(tmp_path / "environment", system_site_packages=False, symlinks=True)
    folder = next((tmp_path / "environment" / "lib").glob("python*/site-packages"))
    theirs = [entry for entry in sys.path if entry.endswith("site-packages")]
    (folder / "libraries.pth").write_text("\n".join([str(ROOT / "src"), *theirs]))
    return tmp_path / "environment" / "bin" / "python"


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, cwd=cwd, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def install(python: Path, *arguments: str | Path, cwd: Path) -> None:
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--ignore-installed")
    run(python, "-m", "pip", "install", "-q", *options, *arguments, cwd=cwd)


@pytest.mark.parametrize("option", [[], ["-e"]], ids=["copied", "editable"])
def test_in_a_checkout_the_command_names_it(
    python: Path, checkout: Path, tmp_path: Path, option: list[str]
) -> None:
    install(python, *option, ".", cwd=checkout)
    pip = [str(python), "-m", "pip", "install", *option]
    assert shlex.split(run(python, "-c", SAY, cwd=checkout)) == [*pip, ".[postgres]"]
    elsewhere = shlex.split(run(python, "-c", SAY, cwd=tmp_path))
    assert elsewhere == [*pip, f"{checkout}[postgres]"]
    offline = ["--no-index", "--no-build-isolation", "--no-deps"]
    assert "Successfully installed fairlead" in run(*elsewhere, *offline, cwd=tmp_path)


def test_a_checkout_that_is_gone_is_not_named(python: Path, checkout: Path, tmp_path: Path) -> None:
    install(python, ".", cwd=checkout)
    (checkout / "pyproject.toml").unlink()
    command = shlex.split(run(python, "-c", SAY, cwd=tmp_path))
    assert command[1:] == ["-m", "pip", "install", "fairlead[postgres]"]


def test_the_pip_of_this_environment_is_called_pip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from fairlead.extras import install_command  # noqa: PLC0415 (the others ask a process)

    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("pip", "python"):
        (programs / name).touch(0o755)
    monkeypatch.setenv("PATH", str(programs))
    assert install_command("s3").startswith(f"{sys.executable} -m pip install ")
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    assert install_command("s3").startswith("pip install ")


def test_the_server_has_what_its_login_and_the_readme_need() -> None:
    assert {"client", "documents"} <= included("server")
