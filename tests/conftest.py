"""Settings of all tests: examples are the same at every run, nothing hangs, markers are right."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis_profiles import register_profiles

LONGEST_TEST = 600.0
"""Seconds after which a test that waits for something that never comes ends the whole run."""

SERVICE_FIXTURES = frozenset(
    {
        *("server", "full", "empty", "chromium"),
        *("redis_server", "postgres_server", "rabbitmq_server", "broker_url", "counters_url"),
        *("own_mounts", "served"),
    }
)
"""Fixtures that start a process, open a port or start a browser."""

SERVICE_FOLDERS = frozenset(
    {"client", "faults", "fixtures", "integrations", "packaging", "server", "snapshots"}
)
"""Folders of which most tests do so, with or without such a fixture."""

MEMORY = Path("/dev/shm")
"""Where tests keep their files: on a disk they would wait for fsync most of the time."""

MEMORY_NEEDED = 2 << 30
"""Bytes that must be free there; else, as in a container of few, files go to the usual folder."""


def _has_room(folder: Path) -> bool:
    """Whether tests may keep their files there; some run programs that they write."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    place = os.statvfs(folder)
    return not place.f_flag & os.ST_NOEXEC and place.f_bavail * place.f_frsize > MEMORY_NEEDED


STARTS = frozenset({"os.fork", "os.posix_spawn", "socket.bind", "subprocess.Popen"})
"""Events of the interpreter that only tests with the marker `services` may cause."""

TESTS = Path(__file__).parent

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has none
os.environ["LC_ALL"] = "C.UTF-8"  # what is said must not depend on whose computer this is
# Tests start hundreds of processes; without compiled modules, half of their time is compilation.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if _has_room(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
register_profiles()
_starts_allowed = [True]


def _refuse_starts(
    event: str,
    _arguments: object,
    starts: frozenset[str] = STARTS,  # globals are gone before the last events of a process
    allowed: list[bool] = _starts_allowed,
) -> None:
    if event in starts and not allowed[0]:
        raise RuntimeError(f"{event} in a test without the marker `services`, see tests/README.md")


sys.addaudithook(_refuse_starts)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes do not name a test: those with a time in them differ between processes."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by fixture, by folder and by store what the quick runs leave out.

    Files that start processes come first: they wait for them, while the others keep a core busy,
    and a long file at the end would leave the second process of the run without work.
    """
    for item in items:
        if needs_services(item):
            item.add_marker("services")
        if hardly_differs_on_postgres(item):
            item.add_marker("full")
    waiting = {item.path for item in items if item.get_closest_marker("services")}
    items.sort(key=lambda item: item.path not in waiting)


def needs_services(item: pytest.Item) -> bool:
    fixtures = frozenset(getattr(item, "fixturenames", ()))
    return (
        bool(fixtures & SERVICE_FIXTURES)
        or folder_of(item) in SERVICE_FOLDERS
        or is_on_postgres(item)
    )


def hardly_differs_on_postgres(item: pytest.Item) -> bool:
    """Whether `make test` runs it on SQLite only, because its file lacks `postgres_differs`."""
    return (
        folder_of(item) == "storage"
        and is_on_postgres(item)
        and item.get_closest_marker("postgres_differs") is None
    )


def is_on_postgres(item: pytest.Item) -> bool:
    """Whether the test runs on each of several stores, and this is its run on PostgreSQL."""
    call = getattr(item, "callspec", None)
    return call is not None and "postgres" in map(str, call.params.values())


def folder_of(item: pytest.Item) -> str:
    """The folder in `tests` that the test is in."""
    return item.path.relative_to(TESTS).parts[0]


@pytest.fixture(autouse=True)
def starts_nothing_unmarked(request: pytest.FixtureRequest) -> Iterator[None]:
    _starts_allowed[0] = request.node.get_closest_marker("services") is not None
    yield
    _starts_allowed[0] = True


@pytest.fixture
def own_fork_servers() -> None:
    """For tests whose engines must start fork servers of their own."""


@pytest.fixture(autouse=True)
def shares_fork_servers(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, starts_nothing_unmarked: None
) -> None:
    """Let engines in this process share a fork server: starting one takes half a second."""
    is_marked = request.node.get_closest_marker("services") is not None
    if is_marked and "own_fork_servers" not in request.fixturenames:
        import forkkit  # noqa: PLC0415 (tests without processes need not import the readers)

        forkkit.shared().start()
        monkeypatch.setattr("fairlead.worker.worker_pool.ForkServer", forkkit.LentForkServer)


@pytest.fixture(autouse=True)
def stays_interruptible() -> Iterator[None]:
    """Commands that run in this process may install handlers; Ctrl-C must still end the run."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    faulthandler.dump_traceback_later(LONGEST_TEST, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
