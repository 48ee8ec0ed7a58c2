"""A real PostgreSQL server for the tests: one for each run, with a fresh schema for each store."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import psycopg
from needs import need
from ports import free_port
from psycopg.errors import UniqueViolation

USER, PASSWORD = "fairlead", "pass word/&"  # hostile to URLs
ADDRESS = "POSTGRES_OF_THE_TESTS"
"""Where the server of this run is, for processes that a test starts."""

_free: list[str] = []
_lent: set[str] = set()


def find_binaries() -> Path | None:
    """The folder of the newest server that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: p.parts[4])
    named = shutil.which("postgres")
    every = [each.parent for each in found] + ([Path(named).parent] if named else [])
    return every[-1] if every else None


def need_postgres() -> None:
    """Go on where there is a server program."""
    need(find_binaries() is not None, "the package postgresql")


class Server:
    """A server of one's own, on a free port of the loopback, with its data in a folder of its own.

    It forgets nothing when it is killed, but is not asked to survive a power cut.
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        binaries = find_binaries()
        assert binaries is not None
        self._binaries = binaries
        self.folder = folder
        self.port = free_port()
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        _give_to_the_server(folder)
        password = folder / "password"
        password.write_text(PASSWORD)
        _give_to_the_server(password)
        self._run(
            *("initdb", "--username=postgres", f"--pwfile={password}", "--auth=scram-sha-256"),
            *("--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D", str(folder / "data")),
        )
        self.start()
        with self.as_superuser() as connection:
            connection.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'")
            connection.execute(f"CREATE DATABASE {USER} OWNER {USER}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        fast = [] if self._durable else ["fsync=off", "full_page_writes=off"]
        options = [
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self.folder}",
            "max_connections=200",
            *fast,
        ]
        program = [str(self._binaries / "postgres"), "-D", str(self.folder / "data")]
        words = [*_as_the_server(), *program, *(w for each in options for w in ("-c", each))]
        end = time.monotonic() + 60
        while not self._is_started(words):  # what is left of one that was killed is in its way
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.1)

    def _is_started(self, words: list[str]) -> bool:
        """Start it; False: it ended again."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log)
        while self._process.poll() is None:
            with suppress(psycopg.OperationalError):
                self.as_superuser().close()
                return True
            time.sleep(0.02)
        return False

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT in order, SIGQUIT or SIGKILL without."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def as_superuser(self) -> psycopg.Connection:
        """A connection that may do anything."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=PASSWORD,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )

    def url(self, schema: str | None = None, password: str = PASSWORD) -> str:
        """Where a store may be; of a schema, which is made where it is not."""
        if schema:
            with psycopg.connect(self.url(), autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        secret = password.replace(" ", "%20").replace("/", "%2F").replace("&", "%26")
        options = f"?options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql://{USER}:{secret}@127.0.0.1:{self.port}/{USER}{options}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [*_as_the_server(), str(self._binaries / program), *arguments]
        subprocess.run(command, check=True, capture_output=True)


def _as_the_server() -> list[str]:
    """PostgreSQL does not run as root."""
    if os.getuid():
        return []
    return ["setpriv", f"--reuid={_server_user()}", "--clear-groups"]


def _server_user() -> str:
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _give_to_the_server(path: Path) -> None:
    if not os.getuid():
        shutil.chown(path, _server_user())
    path.chmod(0o700)


@cache
def server() -> Server:
    """The server of this run."""
    need_postgres()
    folder = Path(tempfile.mkdtemp(prefix="fairlead-postgres-"))
    found = Server(folder)
    os.environ[ADDRESS] = found.url()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(found.stop, signal.SIGQUIT)
    return found


def url_for(folder: Path) -> str:
    """The URL of the schema that belongs to a folder, in any process of this run."""
    schema = _schema(folder)
    base = os.environ.get(ADDRESS) or server().url()
    with psycopg.connect(base, autocommit=True) as connection, suppress(UniqueViolation):
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    return f"{base}?options=-csearch_path%3D{schema}"


def address() -> dict[str, str]:
    """What a process that a test starts needs in its environment to find the server."""
    return {ADDRESS: os.environ[ADDRESS]} if ADDRESS in os.environ else {}


@contextmanager
def lent(folder: Path) -> Iterator[None]:
    """Let a store in this folder use a schema of a store of before, emptied: that is quicker."""
    name = _free.pop() if _free else f"lent{len(_lent)}"
    _lent.add(name)
    (folder / "schema").write_text(name)
    yield
    if ADDRESS in os.environ:
        with psycopg.connect(os.environ[ADDRESS], autocommit=True) as connection:
            _empty(connection, name)
        _free.append(name)


def _empty(connection: psycopg.Connection, schema: str) -> None:
    query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
    tables = [row[0] for row in connection.execute(query, (schema,)) if row[0] != "fairlead"]
    if tables:
        names = ", ".join(f"{schema}.{each}" for each in tables)
        connection.execute(
            f"TRUNCATE {names} RESTART IDENTITY;"
            f"INSERT INTO {schema}.line_state (one, next_seq, lane_credit) VALUES (1, 1, 0)"
        )


def _schema(folder: Path) -> str:
    named = folder / "schema"
    if named.exists():
        return named.read_text()
    return f"s{sha256(bytes(folder)).hexdigest()[:16]}"


@contextmanager
def frail_server() -> Iterator[Server]:
    """A server of one's own that may be killed, and forgets nothing.

    Its folder is not one of pytest's, which are closed to the other user that it runs as.
    """
    need_postgres()
    folder = Path(tempfile.mkdtemp(prefix="fairlead-postgres-"))
    server = Server(folder, durable=True)
    try:
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)
