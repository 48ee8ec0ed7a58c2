"""A real PostgreSQL server for the tests: one for each run, with a fresh schema for each store."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest
import servers
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
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: p.parts[4])
    named = shutil.which("postgres")
    every = [program.parent for program in programs] + ([Path(named).parent] if named else [])
    return every[-1] if every else None


def need_postgres() -> None:
    """Go on where there is a server program."""
    need(find_binaries() is not None, "the package postgresql")


class Server(servers.Server):
    """A server of one's own, on a free port of the loopback, with its data in a folder of its own.

    It forgets nothing when it is killed, but is not asked to survive a power cut. It runs from now
    on.
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        binaries = find_binaries()
        assert binaries is not None
        self.port = free_port()
        _give_to_the_server(folder)
        _init(binaries, folder)
        fast = [] if durable else ["fsync=off", "full_page_writes=off"]
        options = [
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={folder}",
            "max_connections=200",
            "track_commit_timestamp=on",
            *fast,
        ]
        program = [str(binaries / "postgres"), "-D", str(folder / "data")]
        super().__init__(
            [*program, *(word for option in options for word in ("-c", option))],
            "database system is ready to accept connections",
            url=self.url_of(),
            user=_server_user(),
            end=signal.SIGINT,  # "fast" mode: disconnects clients
        )
        self.start()
        with self.as_superuser() as connection:
            connection.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'")
            connection.execute(f"CREATE DATABASE {USER} OWNER {USER}")

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

    def url_of(self, schema: str | None = None, password: str = PASSWORD) -> str:
        """Where a store may be; of a schema, which is made where it is not."""
        if schema:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        secret = password.replace(" ", "%20").replace("/", "%2F").replace("&", "%26")
        options = f"?options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql://{USER}:{secret}@127.0.0.1:{self.port}/{USER}{options}"


def _init(binaries: Path, folder: Path) -> None:
    password = folder / "password"
    password.write_text(PASSWORD)
    _give_to_the_server(password)
    command = [
        *(str(binaries / "initdb"), "--username=postgres", f"--pwfile={password}"),
        *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"),
        *("-D", str(folder / "data")),
    ]
    user = _server_user()
    extra: list[str] | None = None if user is None else []
    result = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        user=user,
        extra_groups=extra,
        cwd=folder,
    )
    if result.returncode:
        pytest.fail(f"initdb ended with {result.returncode}:\n{result.stdout}{result.stderr}")


def _server_user() -> str | None:
    """The user for PostgreSQL, which does not run as root; None: the current user."""
    if os.getuid():
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _give_to_the_server(path: Path) -> None:
    user = _server_user()
    if user is not None:
        shutil.chown(path, user)
    path.chmod(0o700)


@cache
def server() -> Server:
    """The server of this run."""
    need_postgres()
    folder = Path(tempfile.mkdtemp(prefix="fairlead-postgres-"))
    server = Server(folder)
    os.environ[ADDRESS] = server.url
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    return server


def url_for(folder: Path) -> str:
    """The URL of the schema that belongs to a folder, in any process of this run."""
    schema = _schema(folder)
    base = os.environ.get(ADDRESS) or server().url
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
    tables = [
        row[0]
        for row in connection.execute(query, (schema,))
        if row[0] not in ("fairlead", "history")
    ]
    if tables:
        names = ", ".join(f"{schema}.{table}" for table in tables)
        connection.execute(
            f"DROP TABLE IF EXISTS {schema}.history;"  # of tests that record what happened
            f"TRUNCATE {names} RESTART IDENTITY;"
            f"ALTER SEQUENCE {schema}.document_numbers RESTART;"
            f"INSERT INTO {schema}.queue_state "
            "VALUES (1, 0, 'classic', 0, 0, 0, '{}', 0, 0, 0)"
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
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
