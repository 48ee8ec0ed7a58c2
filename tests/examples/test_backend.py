"""The example backend serves fifty customers with one service key and one webhook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from apikit import served

from fairlead import Fairlead

BACKEND = Path(__file__).resolve().parents[2] / "examples" / "backend" / "backend.py"
CUSTOMERS = 50

pytestmark = pytest.mark.services


def test_fifty_customers_get_their_texts_by_one_key_and_one_webhook(tmp_path: Path) -> None:
    inbox, outbox, data = tmp_path / "inbox", tmp_path / "outbox", tmp_path / "data"
    for number in range(CUSTOMERS):
        folder = inbox / f"customer {number}"
        folder.mkdir(parents=True)
        (folder / "letter.txt").write_text(f"Dear customer {number}")
    data.mkdir()
    (data / "fairlead.toml").write_text('webhook_networks = ["127.0.0.0/8"]\n')
    with served(data, "--workers", "1") as server:
        with Fairlead(data) as fairlead:
            key, _ = fairlead.keys.add(service="backend")
        subprocess.run(
            [sys.executable, str(BACKEND), str(inbox), str(outbox)],
            env=os.environ | {"FAIRLEAD_URL": server.url, "FAIRLEAD_KEY": key},
            timeout=300,
            check=True,
        )
    for number in range(CUSTOMERS):
        text = (outbox / f"customer {number}" / "letter.txt").read_text()
        assert text.strip() == f"Dear customer {number}"
