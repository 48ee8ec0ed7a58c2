"""sd_notify: what a process tells systemd, which has started it as a unit of `Type=notify`."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(state: str) -> None:
    """Send a state to the service manager; without one, do nothing. Signal handlers may call it."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # a name in the abstract namespace
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(state.encode(), address)
