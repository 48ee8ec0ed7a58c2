"""The virtual environment of the peers, installed from pins with hashes where it is missing."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINS = ROOT / "bench" / "peers-requirements.txt"
VENV = ROOT / ".bench-peers"


def python() -> Path:
    """The interpreter of the peers' environment, which has what the pins name."""
    program, marker = VENV / "bin" / "python", VENV / ".ready"
    version = hashlib.sha256(PINS.read_bytes()).hexdigest()
    if not marker.exists() or marker.read_text("ascii") != version:
        print(f"installing the peers into {VENV}", file=sys.stderr)
        run(sys.executable, "-m", "venv", "--clear", str(VENV))
        pip = [str(program), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        # The pins are complete; pip's own search may prefer a newer release, without a hash.
        run(*pip, "--no-deps", "--require-hashes", "-r", str(PINS))
        marker.write_text(version, "ascii")
    return program


def run(*command: str) -> None:
    """Run a command whose output belongs to standard error."""
    subprocess.run(command, check=True, stdout=sys.stderr)
