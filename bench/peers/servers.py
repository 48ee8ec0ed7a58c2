"""Servers from Debian's packages, started when they are first needed, with data on a disk."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
import servers
from postgreskit import USER, find_binaries
from postgreskit import Server as Postgres

DISK = "/var/tmp"
"""Data is kept here: /tmp may be in memory, where fsync costs nothing."""


class Servers:
    """The servers of one run of the benchmark, each started once."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._postgres: Postgres | None = None
        self._redis: servers.Server | None = None
        self._rabbitmq: servers.Server | None = None

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def postgres(self) -> Postgres:
        if self._postgres is None:
            folder = Path(tempfile.mkdtemp(prefix="fairlead-peers-", dir=DISK))
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            self._postgres = Postgres(folder, durable=True)
            self._stack.callback(self._postgres.stop)
        return self._postgres

    @property
    def redis(self) -> servers.Server:
        if self._redis is None:
            self._redis = self._stack.enter_context(servers.redis(durable=True))
        return self._redis

    @property
    def rabbitmq(self) -> servers.Server:
        if self._rabbitmq is None:
            self._rabbitmq = self._stack.enter_context(servers.rabbitmq(durable=True))
        return self._rabbitmq


def missing(server: str) -> str | None:
    """The Debian package of a server that is not installed; None: it is."""
    if server == "postgres":
        return None if find_binaries() else "postgresql"
    if server == "redis":
        return None if shutil.which("redis-server") else "redis-server"
    if server == "rabbitmq":
        there = Path("/usr/lib/rabbitmq/bin/rabbitmq-server").exists() and shutil.which("epmd")
        return None if there else "rabbitmq-server"
    return None


def create_database(server: Postgres, name: str) -> str:
    """A new database of the server, as a URL."""
    with server.as_superuser() as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER {USER}")
    return f"{server.url.rpartition('/')[0]}/{name}"


def drop_database(server: Postgres, name: str) -> None:
    with server.as_superuser() as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def tidy(server: Postgres, url: str) -> None:
    """Run the server's maintenance now, not during the measurement."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
    with server.as_superuser() as connection:
        connection.execute("CHECKPOINT")
