"""Settings of all tests: examples are the same at every run, nothing hangs, markers are right."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
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

SERVICE_FILES = (
    *("client", "faults", "fixtures", "integrations", "packaging", "server", "snapshots"),
    *("app/test_migrate.py", "blobs/test_object_files.py", "demo/test_demo_scenario.py"),
    "cli/test_worker_steps.py",
    *("cli/test_both_ways.py", "cli/test_command_line_postgres.py", "cli/test_signals.py"),
    *("dashboard/test_dashboard_browser.py", "dashboard/test_dashboard_load.py"),
    *(
        "dashboard/test_dashboard_pages.py",
        "storage/test_full_disk.py",
        "storage/test_postgres.py",
        "storage/test_postgres_pipeline.py",
    ),
    "steps/test_pool.py",
    *("storage/test_inotify.py", "storage/test_notify.py"),
    "storage/test_feed_gaps.py",
    *("webhooks/test_deliverer.py", "webhooks/test_sender.py"),
    *("worker/test_celery_engine.py", "worker/test_corpus.py", "worker/test_engine.py"),
    "worker/test_child_pool.py",
    *("worker/test_hostile.py", "worker/test_hostile_documents.py"),
    "worker/test_hostile_steps.py",
    *("worker/test_idle_start.py", "worker/test_killed_engines.py"),
    "worker/test_mutated_documents.py",
    *("worker/test_outages.py", "worker/test_outputs.py", "worker/test_parts.py"),
    *("worker/test_prefetch.py", "worker/test_pulled_steps.py"),
    *("worker/test_sandbox.py", "worker/test_steps.py", "worker/test_warmup.py"),
)
"""Folders and files of which most tests do so, with or without such a fixture."""

_FULL_DISK = "storage/test_full_disk.py::test_a_full_or_read_only_disk"
_SANDBOX = "worker/test_sandbox.py::test"

FULL = (
    "server/test_memory.py::test_an_archive_that_unpacks_to_much_is_not_held",
    f"{_FULL_DISK}[rows_fill_the_disk]",
    f"{_FULL_DISK}[no_room_for_a_database]",
    f"{_FULL_DISK}[new_disk_is_read_only]",
    f"{_FULL_DISK}[short_documents_fill_the_disk]",
    f"{_FULL_DISK}[a_full_disk_without_data_is_said_so]",
    f"{_FULL_DISK}[the_server_starts_on_a_full_disk]",
    "storage/test_many_processes.py::test_the_model_replays_what_eight_processes_did",
    "storage/test_feed_gaps.py::test_a_reader_misses_nothing_while_six_processes_write",
    "simulation/test_against_oracle.py::test_a_hundred_thousand_rows_take_seconds_not_minutes",
    f"{_SANDBOX}_a_page_that_fills_the_memory_is_not_called_damaged[file-piece0]",
    f"{_SANDBOX}_a_page_that_fills_the_memory_is_not_called_damaged[file-piece1]",
    f"{_SANDBOX}_too_much_processor_time_is_the_time_limit[file]",
    f"{_SANDBOX}_processor_time_is_counted_for_each_job[file]",
    f"{_SANDBOX}_closing_ends_an_idle_child_by_asking_and_a_stuck_one_by_force[file]",
    "cli/test_submit.py::test_what_was_accepted_before_a_signal_is_told[SIGTERM-words]",
    "cli/test_submit.py::test_what_was_accepted_before_a_signal_is_told[SIGTERM-json]",
    "cli/test_submit.py::test_what_was_accepted_before_a_signal_is_told[SIGINT-json]",
    "client/test_processes.py",
    "dashboard/test_dashboard_load.py",
    "integrations/test_celery_settings.py",
    "integrations/test_celery_workers.py",
    "integrations/test_dramatiq_taskiq.py",
    "server/test_events.py::test_five_hundred_streams_at_once",
    "server/test_memory.py",
    "server/test_schema.py::test_what_the_document_says_is_true[customer]",
    "server/test_slow_object_storage.py",
    "simulation/test_forecast.py::test_the_range_holds_about_four_of_five_starts_of_recorded_traces",
    "storage/test_concurrency.py::test_processes_get_exact_counts[postgres]",
    "server/test_server.py::test_200_megabytes_need_less_than_20_of_memory",
    "worker/test_celery_engine.py::test_celerys_own_tools_see_the_workers",
    "worker/test_celery_engine.py::test_the_doctor_looks_at_the_broker",
    "worker/test_celery_engine.py::test_the_engine_works_on_a_data_folder_too",
    "worker/test_celery_engine.py::test_steps_run_on_celery_as_they_do_on_the_local_engine",
    "worker/test_celery_engine.py::test_an_erased_broker_costs_delay_and_no_document",
    "worker/test_celery_engine.py::"
    "test_the_process_that_forks_a_pool_holds_no_file_of_the_installation",
    "worker/test_hostile_documents.py::"
    "test_every_hostile_document_has_an_end_and_nobody_else_suffers",
    "worker/test_no_helper_processes.py",
    "examples/test_plugins.py::test_a_step_of_an_installed_package_is_known_by_its_name",
    "examples/test_plugins.py::test_a_reader_of_an_installed_package_reads_in_the_sandbox",
    "faults/test_killed_steps.py::test_some_kills_lose_and_double_nothing",
    "examples/test_pulled_steps.py",
    *("faults/test_quota.py", "worker/test_hostile_steps.py"),
    *("worker/test_corpus.py", "worker/test_killed_engines.py"),
    "worker/test_engine.py::test_twenty_workers_killed_in_mid_work_lose_and_double_nothing",
    "worker/test_mutated_documents.py",
)
"""Files and tests that only `make test-full` runs."""

POSTGRES_DIFFERS = (
    *("storage/test_concurrency.py", "storage/test_flow.py", "storage/test_leases.py"),
    *("storage/test_order.py", "storage/test_postgres.py", "storage/test_schema.py"),
    *("storage/test_feed_gaps.py", "storage/test_many_processes.py", "storage/test_vectors.py"),
)
"""Files of the stores' contract that `make test` runs on PostgreSQL too: locks, leases, order."""

RABBITMQ_HARDLY_DIFFERS = (
    *("worker", "integrations/test_celery_example.py"),
    "integrations/test_priority_assigner.py",
)
"""Tests on both brokers that `make test` runs on Redis only."""

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
for _name in (*SERVICE_FILES, *FULL, *POSTGRES_DIFFERS, *RABBITMQ_HARDLY_DIFFERS):
    assert (TESTS / _name.partition("::")[0]).exists(), f"tests/conftest.py names {_name}"

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
        raise RuntimeError(
            f"{event} in a test without the marker `services`, see tests/conftest.py"
        )


sys.addaudithook(_refuse_starts)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes do not name a test: those with a time in them differ between processes."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by fixture and by file what the quick runs leave out.

    Files that start processes come first: they wait for them, while the others keep a core busy,
    and a long file at the end would leave the second process of the run without work.
    """
    for item in items:
        if needs_services(item):
            item.add_marker("services")
        if is_for_full(item):
            item.add_marker("full")
    waiting = {item.path for item in items if item.get_closest_marker("services")}
    items.sort(key=lambda item: item.path not in waiting)


def needs_services(item: pytest.Item) -> bool:
    fixtures = frozenset(getattr(item, "fixturenames", ()))
    return (
        bool(fixtures & SERVICE_FIXTURES)
        or is_in(item, SERVICE_FILES)
        or is_variant(item, "postgres")
    )


def is_for_full(item: pytest.Item) -> bool:
    """Whether `make test` leaves it out, as it does variants on a server that hardly differ."""
    return (
        is_in(item, FULL)
        or (
            is_in(item, ("storage",))
            and is_variant(item, "postgres")
            and not is_in(item, POSTGRES_DIFFERS)
        )
        or (is_in(item, RABBITMQ_HARDLY_DIFFERS) and is_variant(item, "rabbitmq"))
    )


def is_variant(item: pytest.Item, server: str) -> bool:
    """Whether the test runs on each of several servers, and this is its run on that one."""
    call = getattr(item, "callspec", None)
    return call is not None and server in map(str, call.params.values())


def is_in(item: pytest.Item, names: tuple[str, ...]) -> bool:
    """Whether a folder, a file, a test (`file::test`) or a case of it (`[…]`) has such a name."""
    file, folders = _place(item.path)
    tests = {f"{file}::{name}" for name in (item.name, getattr(item, "originalname", item.name))}
    return not (tests | folders).isdisjoint(names)


@cache
def _place(path: Path) -> tuple[str, frozenset[str]]:
    """A file below tests, and the names of it and of the folders that it is in."""
    file = path.relative_to(TESTS)
    return str(file), frozenset(map(str, (file, *file.parents)))


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
