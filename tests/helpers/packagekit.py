"""What pyproject.toml says about extras, and what the pinned files say about versions."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROBE = ROOT / "tests" / "packaging" / "probe.py"


@cache
def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def extras() -> list[str]:
    """The names of all extras."""
    return list(project()["optional-dependencies"])


def requirements(*names: str) -> list[Requirement]:
    """What the project and these extras need directly, with the extras that they name."""
    listed = [Requirement(line) for line in project()["dependencies"]]
    for name in sorted(included(*names)):
        listed += map(Requirement, project()["optional-dependencies"][name])
    return [requirement for requirement in listed if requirement.name != "fairlead"]


def included(*names: str) -> set[str]:
    """These extras and those that they name; `all` itself is none."""
    names_included = set(names)
    for name in names:
        for line in project()["optional-dependencies"][name]:
            requirement = Requirement(line)
            if requirement.name == "fairlead":
                names_included |= included(*requirement.extras)
    return names_included - {"all"}


def pins(name: str) -> dict[str, tuple[str, str]]:
    """Version and hashes by the name of the package, as a file of pins has them."""
    text = (ROOT / name).read_text("utf-8")
    text = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    pinned: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        head, *hashes = re.split(r"\s+--hash=", line)
        requirement = Requirement(head)
        pinned[canonicalize_name(requirement.name)] = (
            str(requirement.specifier).removeprefix("=="),
            " ".join(digest.strip() for digest in hashes),
        )
    return pinned


def run_probe(python: Path | str, folder: Path, *arguments: str) -> dict[str, Any]:
    """What `probe.py` finds, run by this Python in this folder."""
    command = [str(python), "-P", str(PROBE), str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def check_probe(answer: dict[str, Any]) -> None:
    """All that needs no extra works; all else names the command that installs what is missing."""
    assert answer["version"] == [0, "fairlead, version 0.1.0\n"]
    assert answer["helps"] > 25
    assert answer["broken"] == {}
    assert {error.rpartition("; ")[2] for error in answer["names"].values()} <= {
        f"install it: {command}" for command in answer["commands"].values()
    }
    for extra, (code, message) in answer["missing"].items():
        assert (code, message.count("\n")) == (2, 1), message
        assert message.startswith("fairlead: ")
        assert message.endswith(f"; install it: {answer['commands'][extra]}\n"), message
