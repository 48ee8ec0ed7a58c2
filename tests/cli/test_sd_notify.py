"""What `serve` and `worker` tell systemd, over the datagram socket that it gives to its units."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apikit import PATIENT, served
from servers import descendants, redis

from fairlead.sd_notify import READY, STOPPING, notify

pytestmark = pytest.mark.services


@pytest.fixture(params=["file", "abstract"])
def manager(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """The service manager's end of the socket that NOTIFY_SOCKET names."""
    name = str(tmp_path / "notify") if request.param == "file" else f"@fairlead-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(name.replace("@", "\0"))
        datagrams.settimeout(PATIENT)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield datagrams


@contextmanager
def worker(
    data: Path, engine: str = "local", broker: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "fairlead", "worker", "--data", str(data), "--quiet"]
    environment = os.environ | {"FAIRLEAD_ENGINE": engine}
    environment |= {"FAIRLEAD_BROKER": broker} if broker else {}
    with subprocess.Popen([*command, "--workers", "1"], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def received(manager: socket.socket) -> str:
    return manager.recv(1024).decode()


def is_silent(manager: socket.socket) -> bool:
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(1024)
    return True


def test_a_server_says_that_it_accepts_requests_and_that_it_stops(
    manager: socket.socket, tmp_path: Path
) -> None:
    with served(tmp_path / "data", "--workers", "0") as server:
        assert received(manager) == READY
        assert server.operator.get("/readyz").status_code == 200
        assert server.stop() == 0
        assert received(manager) == STOPPING
    assert is_silent(manager)


def test_a_worker_says_that_its_processes_have_started_and_that_it_stops(
    manager: socket.socket, tmp_path: Path
) -> None:
    with worker(tmp_path / "data") as process:
        assert received(manager) == READY
        assert len([*descendants(process.pid)]) > 1  # the fork server, and a reader
        process.send_signal(signal.SIGTERM)
        assert received(manager) == STOPPING
        assert process.wait(PATIENT) == 0
    assert is_silent(manager)


@pytest.mark.full
@pytest.mark.parametrize("manager", ["file"], indirect=True)
def test_a_celery_worker_does_so_too(manager: socket.socket, tmp_path: Path) -> None:
    with redis() as broker, worker(tmp_path / "data", "celery", broker.url) as process:
        assert received(manager) == READY
        process.send_signal(signal.SIGTERM)
        assert received(manager) == STOPPING
        assert process.wait(PATIENT) == 0


def test_without_a_service_manager_nothing_is_said(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for absent in ("", str(tmp_path / "nobody")):
        monkeypatch.setenv("NOTIFY_SOCKET", absent)
        notify(READY)
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify(READY)
    assert is_silent(manager)
