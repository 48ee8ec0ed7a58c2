"""Wake-ups between processes that hold the same SQLite file open."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from queue import Queue
from threading import Event

import pytest
from storekit import Clock, RulesInForce, sqlite_store, submit_one

from fairlead.storage import Store
from fairlead.storage.sqlite import inotify
from fairlead.storage.sqlite.inotify import (
    POLL_SECONDS,
    WATCHED_POLL_SECONDS,
    InotifyFeed,
    Watch,
)

pytestmark = pytest.mark.services

TIMEOUT = 30.0

WAITING_PROCESS = """
import sys, threading
from pathlib import Path
from storekit import Clock, RulesInForce, sqlite_store
store = sqlite_store(Path(sys.argv[1]), RulesInForce(), Clock())
woken = threading.Event()
with store.changes.subscribe(woken.set):
    print("ready", flush=True)
    print("woken" if woken.wait(30) else "not woken", flush=True)
sys.stdin.readline()
store.close()
"""

COMMITTING_PROCESS = """
import sys
from pathlib import Path
from storekit import Clock, RulesInForce, sqlite_store, submit_one
store = sqlite_store(Path(sys.argv[1]), RulesInForce(), Clock())
submit_one(store, "acme")
store.close()
"""

FORKING_PROCESS = """
import os, select, sys, threading
from pathlib import Path
from fairlead.storage.sqlite.inotify import InotifyFeed
feed, other = (InotifyFeed(Path(sys.argv[1]), lambda: 0) for _ in range(2))
woken = threading.Event()
feed.subscribe(woken.set)
child = os.fork()
if child == 0:
    mine = threading.Event()
    feed.subscribe(mine.set)
    other.committed()
    was_woken = mine.wait(30)
    feed.close()
    os._exit(0 if was_woken else 1)
assert os.waitpid(child, 0)[1] == 0, "the child was woken through a listener of its own"
woken.wait(30)
woken.clear()
other.committed()
assert woken.wait(30), "the parent is woken although the child has closed its copy"
assert feed._listener._service.health().is_running, "and its listener was not stopped"
pipe = select.poll()
pipe.register(feed._listener._stop_pipe, select.POLLIN)
assert pipe.poll(0) == [], "nor woken for ever"
feed.close()
"""


def store_in(folder: Path) -> Store:
    return sqlite_store(folder, RulesInForce(), Clock())


@contextmanager
def process(script: str, argument: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, str(argument)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as running:
        try:
            yield running
        finally:
            running.kill()


def line_of(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


@pytest.fixture
def feeds(tmp_path: Path) -> Iterator[Callable[[], InotifyFeed]]:
    """Feeds of one file, each as another process would have it."""
    with ExitStack() as stack:
        path = tmp_path / "data.db-commits"
        yield lambda: stack.enter_context(closing(InotifyFeed(path, lambda: 0)))


# --- wake-ups ---


def test_a_commit_wakes_another_process(tmp_path: Path) -> None:
    with closing(store_in(tmp_path)) as store, process(WAITING_PROCESS, tmp_path) as waiting:
        assert line_of(waiting) == "ready"
        submit_one(store, "acme")
        assert line_of(waiting) == "woken"


def test_a_commit_of_another_process_wakes_this_one(tmp_path: Path) -> None:
    woken = Event()
    with closing(store_in(tmp_path)) as store, store.changes.subscribe(woken.set) as changes:
        changes.changed()
        with process(COMMITTING_PROCESS, tmp_path) as committing:
            assert woken.wait(TIMEOUT)
            assert committing.wait(TIMEOUT) == 0
        assert changes.changed()


def test_a_commit_has_woken_its_own_process_when_it_returns(tmp_path: Path) -> None:
    woken: list[str] = []
    with closing(store_in(tmp_path)) as store, store.changes.subscribe(lambda: woken.append("")):
        submit_one(store, "acme")
        assert woken


def test_a_claim_in_vain_wakes_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[str] = []
    monkeypatch.setattr(InotifyFeed, "committed", lambda _: signals.append("committed"))
    with closing(store_in(tmp_path)) as store:
        submit_one(store, "acme")
        store.pause("acme")
        store.claim("worker")  # which may tidy up
        signals.clear()
        store.claim("worker")
        assert signals == []
        store.resume("acme")
        assert signals == ["committed"]


def test_all_of_many_subscribers_are_woken(feeds: Callable[[], InotifyFeed]) -> None:
    woken: Queue[int] = Queue()

    def subscribe(number: int) -> None:
        feeds().subscribe(lambda: woken.put(number))

    for number in range(30):
        subscribe(number)
    feeds().committed()
    left = set(range(30))
    while left:
        left.discard(woken.get(timeout=TIMEOUT))


def test_the_last_commit_of_a_burst_is_heard_of(feeds: Callable[[], InotifyFeed]) -> None:
    commits, seen = [0], Queue[int]()
    feeds().subscribe(lambda: seen.put(commits[0]))
    committing = feeds()
    for _ in range(2000):
        commits[0] += 1
        committing.committed()
    wakeups = 1
    while seen.get(timeout=TIMEOUT) < 2000:
        wakeups += 1
    assert wakeups < 1000, "a burst is merged"


def test_a_process_hears_of_its_own_commits_once(feeds: Callable[[], InotifyFeed]) -> None:
    woken: Queue[str] = Queue()
    mine, other = feeds(), feeds()
    mine.subscribe(lambda: woken.put(""))
    for _ in range(5):
        mine.committed()
    assert [woken.get(timeout=TIMEOUT) for _ in range(5)]
    other.committed()
    woken.get(timeout=TIMEOUT)
    assert woken.empty(), "no signal of its own came back"


def test_a_commit_of_another_process_during_an_own_one_is_heard_of(
    feeds: Callable[[], InotifyFeed], monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, seen = [0], Queue[int]()
    mine, other = feeds(), feeds()
    mine.subscribe(lambda: seen.put(commits[0]))
    touch = mine._touch

    def touch_after_another() -> None:
        commits[0] += 1
        other.committed()
        touch()

    monkeypatch.setattr(mine, "_touch", touch_after_another)
    mine.committed()
    assert seen.get(timeout=TIMEOUT) == 1


def test_a_deleted_file_wakes_nobody_and_breaks_nothing(
    feeds: Callable[[], InotifyFeed], tmp_path: Path
) -> None:
    woken: list[str] = []
    feed = feeds()
    feed.subscribe(lambda: woken.append(""))
    (tmp_path / "data.db-commits").unlink()
    woken.clear()
    feed.committed()
    assert woken


# --- where it could go wrong ---


def test_a_killed_process_leaves_nothing_behind(tmp_path: Path) -> None:
    with closing(store_in(tmp_path)) as store:
        submit_one(store, "acme")
        before = set(tmp_path.iterdir())
        with process(WAITING_PROCESS, tmp_path) as waiting:
            assert line_of(waiting) == "ready"
            waiting.send_signal(signal.SIGKILL)
            waiting.wait(TIMEOUT)
        submit_one(store, "acme")
        assert set(tmp_path.iterdir()) == before
        with process(WAITING_PROCESS, tmp_path) as waiting:
            assert line_of(waiting) == "ready"
            submit_one(store, "acme")
            assert line_of(waiting) == "woken"


def test_a_folder_may_have_a_very_long_path(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["long" * 30] * 3)
    folder.mkdir(parents=True)
    with closing(store_in(folder)) as store, process(WAITING_PROCESS, folder) as waiting:
        assert store.changes.subscribe().poll_seconds == WATCHED_POLL_SECONDS
        assert line_of(waiting) == "ready"
        submit_one(store, "acme")
        assert line_of(waiting) == "woken"


def test_without_the_file_commits_are_polled_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "fairlead.db-commits").mkdir()  # so that even root cannot open it
    with (
        caplog.at_level(logging.DEBUG, inotify.__name__),
        closing(store_in(tmp_path)) as store,
        store.changes.subscribe() as changes,
    ):
        assert changes.poll_seconds == POLL_SECONDS
        changes.changed()
        submit_one(store, "acme")
        assert changes.changed()
    assert "Is a directory" in caplog.text


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_without_permission_commits_are_polled_for(tmp_path: Path) -> None:
    path = tmp_path / "data.db-commits"
    path.touch(0o400)
    with closing(InotifyFeed(path, lambda: 0)) as feed:
        assert feed.subscribe().poll_seconds == POLL_SECONDS


def test_if_the_user_has_too_many_watches_commits_are_polled_for(
    feeds: Callable[[], InotifyFeed],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_path: Path) -> Watch:
        raise OSError(errno.EMFILE, "inotify: too many open files")

    feed = feeds()
    with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG, inotify.__name__):
        patch.setattr(inotify, "Watch", fail)
        early = feed.subscribe()
        assert early.poll_seconds == POLL_SECONDS
        assert "too many open files" in caplog.text
    feed.subscribe()
    assert early.poll_seconds == WATCHED_POLL_SECONDS, "the next subscription tried again"


def test_a_file_that_cannot_be_watched_is_an_error(tmp_path: Path) -> None:
    descriptors = _open_descriptors()
    with pytest.raises(FileNotFoundError, match="inotify"):
        Watch(tmp_path / "missing")
    assert _open_descriptors() == descriptors


def test_closing_frees_everything(tmp_path: Path) -> None:
    descriptors = _open_descriptors()
    feed = InotifyFeed(tmp_path / "data.db-commits", lambda: 0)
    first, second = feed.subscribe(), feed.subscribe()
    listener = feed._listener
    assert listener is not None
    first.close()
    second.close()
    feed.close()
    feed.committed()
    assert not listener._service.health().is_running
    assert _open_descriptors() == descriptors


def test_a_fork_has_a_listener_of_its_own_and_leaves_the_parents_alone(tmp_path: Path) -> None:
    with process(FORKING_PROCESS, tmp_path / "data.db-commits") as forking:
        assert forking.wait(4 * TIMEOUT) == 0


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
