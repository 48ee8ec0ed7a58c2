"""The virtual environment of the peers, installed from pins with hashes where it is missing."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(name: str = "peers") -> Path:
    """The interpreter of an environment that has what the pins of that name list."""
    pins, venv = ROOT / "bench" / f"{name}-requirements.txt", ROOT / f".bench-{name}"
    program, marker = venv / "bin" / "python", venv / ".ready"
    version = hashlib.sha256(pins.read_bytes()).hexdigest()
    if not marker.exists() or marker.read_text("ascii") != version:
        print(f"installing {pins.name} into {venv}", file=sys.stderr)
        run(sys.executable, "-m", "venv", "--clear", str(venv))
        pip = [str(program), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        # The pins are complete; pip's own search may prefer a newer release, without a hash.
        run(*pip, "--no-deps", "--require-hashes", "-r", str(pins))
        marker.write_text(version, "ascii")
    return program


def run(*command: str) -> None:
    """Run a command whose output belongs to standard error."""
    subprocess.run(command, check=True, stdout=sys.stderr)
