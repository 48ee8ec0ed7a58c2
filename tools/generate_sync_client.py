"""Write the sync client from the async one: the same source without `async` and `await`.

Usage: python tools/generate_sync_client.py           write src/fairlead/client/sync.py
       python tools/generate_sync_client.py --check   fail if that file is out of date
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "fairlead" / "client"
SOURCE, TARGET = PACKAGE / "client.py", PACKAGE / "sync.py"
HEADER = """\
# Generated from client.py by `python tools/generate_sync_client.py` (`make sync-client`).
# Do not edit: change client.py and run that command.
"""
RULES = [
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\basyncio\b", "time"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\ba(close|read|iter_\w+)\(", r"\1("),
]


def generated(source: str) -> str:
    """The sync client for the source of the async one, formatted."""
    for pattern, replacement in RULES:
        source = re.sub(pattern, replacement, source)
    sorted_imports = ruff("check", "--select=I", "--fix", "--quiet", text=HEADER + source)
    return ruff("format", text=sorted_imports)


def ruff(*arguments: str, text: str) -> str:
    """The text as ruff leaves it."""
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603


def main(arguments: list[str]) -> int:
    """Write the file, or with `--check` compare it."""
    text = generated(SOURCE.read_text("utf-8"))
    if arguments == ["--check"]:
        is_current = TARGET.exists() and TARGET.read_text("utf-8") == text
        if not is_current:
            sys.stderr.write(f"{TARGET.name} is out of date; run: make sync-client\n")
        return 0 if is_current else 1
    TARGET.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
