"""The settings of the peers' programs, in environment variables."""

from __future__ import annotations

import os

URL = os.environ.get("PEERS_URL", "")
PROCESSES = int(os.environ.get("PEERS_PROCESSES", "2"))
BATCH = int(os.environ.get("PEERS_BATCH", "1"))
DOCUMENTS = int(os.environ.get("PEERS_DOCUMENTS", "1000"))
POLICY = os.environ.get("PEERS_POLICY", "classic")
SECONDS = float(os.environ.get("PEERS_SECONDS", "inf"))
"""How long filling may take; then fewer documents have to do."""

CUSTOMERS = int(os.environ.get("PEERS_CUSTOMERS", "20"))
"""0: each document is another customer's."""

AT_ONCE = 500
"""Documents of one bulk call."""


def payload(number: int) -> str:
    """The same for every queue: a short id."""
    return f"document-{number:08d}"
