"""What is imported when: a quick `--help`, public names, and an installation without extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from packagekit import ROOT, check_probe, run_probe

import fairlead
from fairlead.cli import COMMANDS, main

HEAVY = (
    "apsw",
    "celery",
    "fairlead.app",
    "fairlead.config.settings",
    "fastapi",
    "httpx",
    "lxml",
    "psycopg",
    "rich",
    "uvicorn",
)
MISSPELT = "from fairlead import ClassicPolicy, Docment, Fairlead\n\nprint(Docment)\n"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_imports_no_command_and_no_library(option: str) -> None:
    script = (
        "import sys; from fairlead.cli import main; "
        f"main([{option!r}], standalone_mode=False); print('imported:', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    imported = set(done.stdout.rpartition("imported: ")[2].split())
    assert "fairlead.cli" in imported
    assert imported & {*HEAVY, *(f"fairlead.cli.{name}" for name in COMMANDS)} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_line_is_the_one_of_the_command(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert COMMANDS[name].help.rstrip(".") == command.get_short_help_str(limit=1000).rstrip(".")


def test_an_unknown_command_is_none() -> None:
    assert main.get_command(click.Context(main), "nothing") is None


def test_public_names_are_there_and_others_are_not() -> None:
    assert {getattr(fairlead, name).__name__ for name in fairlead.__all__} == set(fairlead.__all__)
    assert set(fairlead.__all__) <= set(dir(fairlead))
    with pytest.raises(AttributeError, match="no attribute 'Docment'"):
        fairlead.__getattr__("Docment")


def test_a_misspelt_public_name_fails_type_checking(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(MISSPELT)
    # Imports are not followed, which takes seconds: only the names of the package count here.
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=skip"]
    command += [f"--cache-dir={tmp_path / 'cache'}", "--explicit-package-bases"]
    command += [str(program), str(ROOT / "src" / "fairlead" / "__init__.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT / "src")
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert len(errors) == 1, done.stdout
    assert 'Module "fairlead" has no attribute "Docment"' in errors[0]


def test_without_extras_all_helps_work_and_errors_name_the_extra(tmp_path: Path) -> None:
    answer = run_probe(sys.executable, tmp_path, "--hide")
    check_probe(answer)
    assert set(answer["missing"]) == {"celery", "client", "demo", "postgres", "s3", "server"}
