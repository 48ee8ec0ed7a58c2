"""A real server process for tests, and functions for requests to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from warmpython import WarmProcess

from fairlead import Fairlead

PATIENT = 60.0
Process = subprocess.Popen[str] | WarmProcess


class Served:
    """A running server, with its URL and its keys."""

    def __init__(self, data: Path, process: Process) -> None:
        self.data = data
        self.process = process
        self.log: list[str] = []
        self._logged = threading.Condition()
        self._clients: list[httpx.Client] = []
        self.url = self._read_greeting()
        self.port = int(self.url.rsplit(":", 1)[1])
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self.operator = self.client((data / "operator.key").read_text().strip())

    @property
    def login(self) -> str:
        """A new login link; each works once."""
        return f"{self.url}{self.operator.post('/v1/login-links').json()['path']}"

    def _read_greeting(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if "serving " in line:
                url = line.split("serving ")[1].partition(" on ")[0]
            if "log in with " in line:
                return url
        raise AssertionError("".join(self.log))

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._logged:
                self.log.append(line)
                self._logged.notify_all()

    def wait_until_logged(self, text: str) -> None:
        with self._logged:
            assert self._logged.wait_for(lambda: any(text in line for line in self.log), PATIENT), (
                "".join(self.log)
            )

    def client(self, key: str | None) -> httpx.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=PATIENT, trust_env=False)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def key(self, customer: str) -> str:
        with Fairlead(self.data) as fairlead:
            return fairlead.keys.add(customer)[0]

    def customer(self, name: str) -> httpx.Client:
        return self.client(self.key(name))

    def raw(self, content: bytes, *, end: bool = False) -> bytes:
        """The bytes that the server sends back, until it closes or a response is complete."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENT) as connection:
            connection.sendall(content)
            if end:
                connection.shutdown(socket.SHUT_WR)
            return answer_on(connection)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENT)

    def memory(self) -> int:
        """The peak memory of the process in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def answer_on(connection: socket.socket) -> bytes:
    """The bytes of one response."""
    received = b""
    while True:
        chunk = connection.recv(65_536)
        received += chunk
        head, separator, body = received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if not chunk or (separator and length and len(body) >= int(length)):
            return received


@contextmanager
def served(data: Path, *options: str, **settings: Any) -> Iterator[Served]:
    """A server with these settings in its environment."""
    environment = {f"FAIRLEAD_{name.upper()}": str(value) for name, value in settings.items()}
    with _running(data, WarmProcess(_command(data, *options), os.environ | environment)) as server:
        yield server


@contextmanager
def served_by(
    program: tuple[str, ...],
    data: Path,
    *options: str,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Served]:
    """As `served`, run by a program that may kill it at a certain point."""
    process = subprocess.Popen(
        [sys.executable, *program, *_command(data, *options)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | dict(environment),
    )
    with _running(data, process) as server:
        yield server


def _command(data: Path, *options: str) -> list[str]:
    return ["serve", "--data", str(data), "--port", "0", *options]


@contextmanager
def _running(data: Path, process: Process) -> Iterator[Served]:
    try:
        server = Served(data, process)
    except AssertionError:
        process.communicate()
        raise
    try:
        yield server
    finally:
        server.close()


def upload(client: httpx.Client, *contents: bytes, **named: Any) -> httpx.Response:
    files = [("file", (f"{number}.txt", content)) for number, content in enumerate(contents)]
    return client.post("/v1/documents", files=files, **named)


def wait_until_claimed(client: httpx.Client) -> None:
    """Wait for the event that a worker has claimed a document of this key's customer."""
    with client.stream("GET", "/v1/events", params={"after": 0}) as answer:
        assert any(
            json.loads(line[6:])["kind"] == "claimed"
            for line in answer.iter_lines()
            if line.startswith("data: ")
        )


def problem(response: httpx.Response, kind: str, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    details: dict[str, Any] = response.json()
    assert details["type"] == f"urn:fairlead:problem:{kind}"
    assert details["status"] == status
    return details


def raw_problem(answer: bytes, kind: str, status: int) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert json.loads(body)["type"] == f"urn:fairlead:problem:{kind}"


def files_in(data: Path) -> list[Path]:
    return [path for path in (data / "files").rglob("*") if path.is_file()]
