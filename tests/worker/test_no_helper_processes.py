"""No error of a helper process, descriptor or fork ends the server or the worker."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import site
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from apikit import PATIENT, served, served_by, upload

import fairlead as package
from fairlead import Fairlead
from fairlead.model.states import State
from fairlead.service import raise_descriptor_limit
from fairlead.worker.sandbox import forkserver

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("own_fork_servers")]


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data") as installation:
        yield installation


def run_until_done(fairlead: Fairlead, id_: str) -> None:
    """Run an engine that would go on for ever, until the document has ended."""

    def tick() -> None:
        if not fairlead.document(id_).state.is_pending:
            engine.stop()

    engine = fairlead.services.engine(1, on_tick=tick)
    engine.run()


@pytest.mark.services
@pytest.mark.parametrize("failure", ["it exits", "no descriptor"])
def test_a_fork_server_that_cannot_start_is_waited_for(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    """Regression: fork server killed, and its successor while it starts: exit 1, 5 of 5."""
    document = fairlead.submit("acme", b"hello")
    failures, spawn = [1, 2, 3], forkserver.spawn

    def fail(command: list[str], **pipes: Any) -> Any:
        if not failures:
            return spawn(command, **pipes)
        failures.pop()
        if failure == "no descriptor":
            raise OSError(errno.EMFILE, "Too many open files")
        return spawn([sys.executable, "-c", "exit(3)"], **pipes)

    monkeypatch.setattr(forkserver, "spawn", fail)
    run_until_done(fairlead, document.id)
    assert not failures
    ended = fairlead.document(document.id)
    assert (ended.state, ended.attempts) == (State.DONE, 1)


@pytest.mark.services
def test_the_server_raises_its_limit_of_descriptors(tmp_path: Path) -> None:
    """Regression: the server kept the soft limit, so 1,200 connections ended it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with served(tmp_path / "data", "--workers", "1") as server:
        limit, _ = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    assert limit == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    """Regression: the soft limit of 1,024 was kept."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_children_find_the_packages_of_a_user_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: after `pip install --user`, children could not import."""
    folder = Path(package.__file__).parent.parent
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(folder))
    assert str(folder) in forkserver._environment()["PYTHONPATH"].split(os.pathsep)


USER_INSTALL = """
import sys
from fairlead import Fairlead, __file__ as place
with Fairlead(sys.argv[1]) as fairlead:
    document = fairlead.submit("acme", b"hello", name="hello.txt")
    fairlead.run_until_idle(workers=1)
    print(place, fairlead.text(document.id))
"""


@pytest.mark.services
def test_a_user_install_reads_documents(tmp_path: Path) -> None:
    """Regression: the children of a `pip install --user` could not import."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = tmp_path / "base" / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    shutil.copytree(Path(package.__file__).parent, packages / "fairlead")
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if entry.suffix != ".pth" and not entry.name.startswith(("fairlead", "__editable__")):
            (packages / entry.name).symlink_to(entry)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [Path(sys.base_prefix, "bin", version), "-c", USER_INSTALL, tmp_path / "data"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment | {"PYTHONUSERBASE": str(tmp_path / "base")},
    )
    assert ran.stdout.split() == [str(packages / "fairlead" / "__init__.py"), "hello"], ran.stderr


FEW_DESCRIPTORS = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
runpy.run_module("fairlead", run_name="__main__")
"""


@pytest.mark.services
def test_half_open_connections_leave_descriptors_for_work(tmp_path: Path) -> None:
    """Regression: soft limit 1024, 1,200 half-open connections, somebody submits: exit 1."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2048:
        pytest.skip("this test needs 1,300 descriptors of its own")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, before[1]))
    try:
        with (
            served_by(("-c", FEW_DESCRIPTORS), tmp_path / "data", "--workers", "1") as server,
            ExitStack() as lines,
        ):
            client = server.customer("acme")
            assert client.get("/v1/documents").status_code == 200  # its connection stays
            for _ in range(1200):
                line = socket.create_connection(("127.0.0.1", server.port), PATIENT)
                lines.enter_context(line)
                with suppress(ConnectionError):  # one too many, which the server has closed
                    line.sendall(b"GET /v1/documents HTTP/1.1\r\nHo")
            id_ = upload(client, b"hello").json()["id"]
            ended = client.get(f"/v1/documents/{id_}", params={"wait": 60}).json()
            assert (ended["state"], ended["attempts"]) == ("done", 1)
            lines.close()
            assert server.stop() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def fork_servers(pid: int) -> set[int]:
    """The children of this process that fork readers, ready or not."""
    children = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                if b"forkserver_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    children.add(int(child))
    return children


@pytest.mark.services
def test_fork_servers_that_are_killed_while_they_start_are_replaced(tmp_path: Path) -> None:
    """Regression: fork server killed, and its successor while it starts: exit 1, 5 of 5."""
    with served(tmp_path / "data", "--workers", "1") as server:
        client = server.customer("acme")
        first = upload(client, b"hello").json()["id"]
        assert client.get(f"/v1/documents/{first}?wait=60").json()["state"] == "done"
        killed: set[int] = set()
        while len(killed) < 3:
            for pid in fork_servers(server.process.pid) - killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            assert server.process.poll() is None
        second = upload(client, b"hello again").json()["id"]
        assert client.get(f"/v1/documents/{second}?wait=60").json()["state"] == "done"
        assert server.stop() == 0
