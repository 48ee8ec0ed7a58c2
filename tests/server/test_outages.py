"""Outages of the database and the disk: the server responds 503, and recovers by itself."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from apikit import PATIENT, Served, problem, served, served_by, upload, wait_until_claimed
from locked_database import BUSY_LONG, locked

from fairlead import Fairlead
from fairlead.config import data_folder
from fairlead.config.data_folder import DataFolder
from fairlead.demo.samples import samples
from fairlead.model.states import State

_SOON = """
from fairlead.cli import main
from fairlead.storage.sqlite import lock_wait
lock_wait.BUSY_SECONDS = 0.2
lock_wait.STILL_BUSY_SECONDS = 0.05
main()
"""
BUSY_SOON = ("-c", _SOON)
"""A server that waits for a lock only for a moment, not for half a minute."""
_WANTS_MUCH = """
from fairlead.config import data_folder
from fairlead.cli import main
data_folder.NO_ROOM = 1 << 60
main()
"""


def wait_until_ready(server: Served, *, ready: bool) -> httpx.Response:
    while True:
        answer = server.operator.get("/readyz")
        if (answer.status_code == 200) == ready:
            return answer


def work_log(server: Served) -> list[str]:
    """The log lines about its work, after it has ended. Each refused request has a line too."""
    server._reader.join()
    return [line for line in server.log if "fairlead: work" in line]


def test_a_database_locked_for_long_is_borne_and_nothing_is_lost(data: Path) -> None:
    content = next(samples(1, seed=4, pages=(150, 150))).content
    with served_by(BUSY_SOON, data, "--workers", "2") as server:
        client = server.customer("acme")
        first = upload(client, content).json()["id"]
        wait_until_claimed(client)
        with locked(data):
            problem(wait_until_ready(server, ready=False), "unavailable", 503)
            assert client.get(f"/v1/documents/{first}").json()["state"] == "processing"
            assert client.get(f"/v1/documents/{first}/file").content == content
            refused = upload(client, b"another")
            problem(refused, "unavailable", 503)
            assert refused.headers["Retry-After"]
            problem(client.post(f"/v1/documents/{first}/cancel"), "unavailable", 503)
            assert server.operator.get("/livez").status_code == 200
        wait_until_ready(server, ready=True)
        ended = client.get(f"/v1/documents/{first}", params={"wait": 60}).json()
        assert (ended["state"], ended["attempts"]) == ("done", 1)
        assert upload(client, b"another").status_code == 202
        assert server.stop() == 0
        began, over = work_log(server)
        assert "is locked by another process" in began
        assert "continue" in over


def test_a_server_that_is_held_up_ends_when_it_is_told_to(data: Path) -> None:
    with served_by(BUSY_SOON, data, "--workers", "1") as server, locked(data):
        wait_until_ready(server, ready=False)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENT) == 0


def test_no_lock_keeps_a_server_from_ending_and_nothing_is_lost(data: Path) -> None:
    """It loses neither what it reads nor the outcome of an upload, and stops in time."""
    with served_by(BUSY_LONG, data, "--workers", "1") as server:
        client = server.customer("acme")
        first = upload(client, next(samples(1, seed=4, pages=(150, 150))).content).json()["id"]
        wait_until_claimed(client)
        with locked(data), ThreadPoolExecutor(1) as pool:
            answer = pool.submit(upload, client, b"another")
            server.wait_until_logged("waits for a lock")
            server.process.send_signal(signal.SIGTERM)
            problem(answer.result(), "unavailable", 503)
            server.process.wait(PATIENT)
    with Fairlead(data) as fairlead:
        fairlead.run_until_idle(workers=1)
        [document] = fairlead.documents()
        assert (document.id, document.state) == (first, State.DONE)


def test_no_lock_keeps_a_server_from_ending_that_has_just_begun(data: Path) -> None:
    with Fairlead(data) as fairlead:
        fairlead.keys.operator_key()
    with locked(data), served_by(BUSY_LONG, data, "--workers", "1") as server:
        server.wait_until_logged("waits for a lock")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENT) == 0


def test_a_server_without_room_is_not_ready(data: Path) -> None:
    with served_by(("-c", _WANTS_MUCH), data, "--workers", "0") as server:
        answer = server.operator.get("/readyz", headers={"Accept-Language": "de"})
        assert "fast voll" in problem(answer, "unavailable", 503)["detail"]
    with served(data, "--workers", "0") as server:
        assert server.operator.get("/readyz").status_code == 200


def test_room_is_looked_for_where_something_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DataFolder(tmp_path / "data", files=tmp_path / "shared")
    assert folder.has_room()  # the folder does not exist yet
    folder.make()
    assert folder.has_room()
    monkeypatch.setattr(data_folder, "NO_ROOM", 1 << 60)
    assert not folder.has_room()
