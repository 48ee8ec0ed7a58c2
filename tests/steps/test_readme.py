"""The snippet about steps in the README runs as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

README = Path(__file__).resolve().parents[2] / "README.md"
SNIPPET = re.compile(r"^```python\n(# invoices\.py\n.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.services
def test_the_snippet_runs_as_written(tmp_path: Path) -> None:
    snippet = SNIPPET.search(README.read_text("utf-8"))
    assert snippet is not None
    (tmp_path / "invoices.py").write_text(snippet[1])
    page = Canvas(str(tmp_path / "invoice.pdf"))
    page.drawString(72, 720, "Total: 119.00 EUR")
    page.save()
    done = subprocess.run(
        [sys.executable, "invoices.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{'total': 'Total: 119.00 EUR'} b'Total: 119.00 EUR'\n", done.stderr
