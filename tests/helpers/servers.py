"""Real servers for tests: on free loopback ports, with folders of their own, ended by their ids."""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from needs import need
from ports import free_ports

SLOWEST_START = 120.0
"""Seconds that a server may take on a busy machine before the test says so."""

DIES_WITH_US = ["setpriv", "--pdeathsig", "TERM"]
"""Before a command: it ends with the test run, however that ends."""

_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one beside it insists on its user


class Server:
    """A server process that a test may stop, freeze and start again at the same address."""

    def __init__(
        self,
        command: Sequence[str],
        ready: str,
        *,
        url: str,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        end: signal.Signals = signal.SIGTERM,
        data: Path | None = None,
    ) -> None:
        self.url = url
        self.data = data
        self._end = end
        self._command = command
        self._ready = ready
        self._environment = {**os.environ, **(environment or {})}
        self._user = user
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it says that it is ready."""
        self._process = subprocess.Popen(
            [*DIES_WITH_US, *self._command],
            env=self._environment,
            user=self._user,
            group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
            extra_groups=None if self._user is None else [],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        output = Output(self._process)
        if not output.wait_for(self._ready):
            self.stop()
            pytest.fail(f"{self._command[0]} did not start:\n{output.text()}")

    @property
    def pid(self) -> int:
        """The id of its first process; everything else is a descendant of it."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not been stopped since."""
        return self._process is not None

    def stop(self) -> None:
        """End it with everything that it started."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self.thaw()
            os.killpg(self._process.pid, self._end)
        self._process.wait(SLOWEST_START)
        self._process = None

    def kill(self) -> None:
        """End it and all its children at once, as a power cut would; none is left then."""
        if self._process is None:
            return
        self.freeze()  # it has no further children from here on
        ends = []
        for pid in descendants(self._process.pid):
            with suppress(ProcessLookupError):
                ends.append(os.pidfd_open(pid))
        self._signal(signal.SIGKILL)
        self.stop()
        for end in ends:
            select.select([end], [], [])  # readable when the child is gone
            os.close(end)

    def freeze(self) -> None:
        """Let it keep its connections and answer nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def erase(self) -> None:
        """Take away all that it has kept; it must not run."""
        if self.data is not None:
            shutil.rmtree(self.data)

    def _signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        for pid in [self._process.pid, *descendants(self._process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, which)


def descendants(process: int) -> Iterator[int]:
    """The children of a process, their children, and so on."""
    with suppress(OSError):
        for child in Path(f"/proc/{process}/task/{process}/children").read_text("utf-8").split():
            yield int(child)
            yield from descendants(int(child))


class Output:
    """The lines that a process writes, kept as they come, and waited for without polling."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._more = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str, timeout: float = SLOWEST_START) -> bool:
        """Whether some line has the text, as soon as it does; False if the process ends before."""
        return self.wait_until(lambda lines: any(text in line for line in lines), timeout)

    def wait_until(
        self, there: Callable[[Sequence[str]], bool], timeout: float = SLOWEST_START
    ) -> bool:
        """Whether the lines fulfil the condition, as soon as they do."""
        with self._more:
            self._more.wait_for(lambda: self._is_over or there(self._lines), timeout)
            return there(self._lines)

    def lines(self) -> list[str]:
        """All lines so far."""
        with self._more:
            return list(self._lines)

    def text(self) -> str:
        """All that was written so far."""
        return "".join(self.lines())

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                with self._more:
                    self._lines.append(line)
                    self._more.notify_all()
        with self._more:
            self._is_over = True
            self._more.notify_all()


@contextmanager
def redis(*, durable: bool = False) -> Iterator[Server]:
    """A Redis that keeps nothing on disk. Durable: it logs every write, fsynced each second."""
    binary = shutil.which("redis-server")
    need(binary is not None, "redis-server (Debian: redis-server)")
    (port,) = free_ports(1)
    with folder(on_disk=durable) as place:
        command = [str(binary), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(place)]
        command += ["--save", "", "--appendonly", "yes" if durable else "no"]
        with running(
            Server(command, "Ready to accept connections", url=f"redis://127.0.0.1:{port}")
        ) as server:
            yield server


@contextmanager
def pgbouncer(target: Mapping[str, object], mode: str) -> Iterator[Server]:
    """A PgBouncer before a server of PostgreSQL: its port, user, password and database."""
    binary = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if binary is None:  # also in CI: not every image has it, and one case depends on it
        pytest.skip("needs PgBouncer (Debian: pgbouncer)")
    (port,) = free_ports(1)
    user, password = target["user"], target["password"]
    with folder() as place:
        (place / "users").write_text(f'"{user}" "{password}"\n')
        (place / "pgbouncer.ini").write_text(
            f"[databases]\n{target['dbname']} = host=127.0.0.1 port={target['port']}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = plain\nauth_file = {place}/users\npool_mode = {mode}\n"
        )
        for path in (place, *place.iterdir()):
            path.chmod(0o755)
        user_of_process = "nobody" if os.getuid() == 0 else None  # it does not run as root
        command = [str(binary), str(place / "pgbouncer.ini")]
        with running(Server(command, "process up", url=str(port), user=user_of_process)) as server:
            yield server


@contextmanager
def rabbitmq(*, durable: bool = False) -> Iterator[Server]:
    """A RabbitMQ with a register of nodes (epmd) of its own, all on loopback.

    Durable: its data is on a disk, not in memory.
    """
    need(_RABBITMQ.exists() and shutil.which("epmd") is not None, "RabbitMQ (rabbitmq-server)")
    port, between_nodes, register = free_ports(3)
    with folder(on_disk=durable) as place, ExitStack() as stack:
        environment = {"ERL_EPMD_PORT": str(register), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        names = Server(["epmd", "-d", "-d"], "entering the main", url="", environment=environment)
        stack.enter_context(running(names))
        (place / "plugins").write_text("[].\n")
        (place / "rabbit.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
        environment |= {
            "HOME": str(place),
            "RABBITMQ_NODENAME": f"fairlead{port}@localhost",
            "RABBITMQ_DIST_PORT": str(between_nodes),
            "RABBITMQ_MNESIA_BASE": str(place / "data"),
            "RABBITMQ_LOG_BASE": str(place / "log"),
            "RABBITMQ_PID_FILE": str(place / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(place / "rabbit.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(place / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "+S 2:2 -kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }
        url = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
        server = Server(
            [str(_RABBITMQ)],
            "completed with",
            url=url,
            environment=environment,
            data=place / "data",
        )
        stack.enter_context(running(server))
        yield server


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """The server, from its start to its end."""
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def folder(*, on_disk: bool = False) -> Iterator[Path]:
    """A folder of a server's own, in memory where there is one, or on a disk."""
    parent = Path("/var/tmp" if on_disk else "/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="fairlead-", dir=parent if parent.is_dir() else None))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
