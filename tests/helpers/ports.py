"""Ports of loopback for servers that tests start, stop and start again."""

from __future__ import annotations

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """A port below those that the system gives to whoever connects: it stays free for a restart.

    One of those might be taken by a client that tries to reach the server meanwhile.
    """
    while True:
        port = random.randint(12_000, 30_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def free_ports(number: int) -> list[int]:
    """So many ports on which nobody listens."""
    ports: set[int] = set()
    while len(ports) < number:
        ports.add(free_port())
    return list(ports)
