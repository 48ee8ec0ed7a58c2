"""One of several processes that use one data folder at once, and what drops POSIX locks.

    folder_user.py DATABASE NAME ROUNDS keep|reopen

`reopen` opens the store anew in each round. `keep` holds it open, and meanwhile copies the folder,
opens and closes each of its files, and forks, again and again. The output is the ids of the
documents that were accepted and of those that were finished, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from threading import Event, Thread

from storekit import DONE, new_document

from fairlead.model.documents import Submission
from fairlead.policy.rules import Rules
from fairlead.storage.sqlite import SqliteStore

TOGETHER = 5
"""Documents that a process submits, and claims, in a round."""


def open_store(database: Path) -> SqliteStore:
    return SqliteStore(database, rules=Rules, clock=time.time)


def open_and_close_all(folder: Path) -> None:
    """Drops all POSIX locks that this process has on files of the folder."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            path.open("rb").close()


def copy(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as target, suppress(shutil.Error):  # files come and go
        shutil.copytree(folder, Path(target) / "copy")


def fork(folder: Path) -> None:
    """A child closes what it inherited."""
    child = os.fork()
    if child == 0:
        try:
            open_and_close_all(folder)
            os.closerange(3, 256)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@contextmanager
def dropping_locks(folder: Path) -> Iterator[None]:
    """Meanwhile a thread does all that drops locks, at least once each."""
    is_over = Event()
    ways: list[Callable[[Path], None]] = [copy, open_and_close_all, fork]

    def drop() -> None:
        for number, way in enumerate(cycle(ways)):
            way(folder)
            if is_over.is_set() and number >= len(ways):
                return

    thread = Thread(target=drop)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def submit(store: SqliteStore, name: str, number: int = 1) -> list[str]:
    """The ids differ in all processes."""
    new = [new_document(content=b"x" * 2000) for _ in range(number)]
    unique = tuple(each._replace(id=f"{name}{os.urandom(12).hex()}"[:26]) for each in new)
    return [document.id for document in store.submit(Submission(name, unique))]


def work(store: SqliteStore, name: str, accepted: list[str], finished: list[str]) -> None:
    """Submit some documents, then finish as many of anybody's."""
    accepted += submit(store, name, TOGETHER)
    for _ in range(TOGETHER):
        if claim := store.claim(name):
            store.finish(claim, DONE)
            finished.append(claim.id)


def main(database: Path, name: str, rounds: int, *, keeps: bool) -> None:
    accepted: list[str] = []
    finished: list[str] = []
    if keeps:
        with closing(open_store(database)) as store, dropping_locks(database.parent):
            for _ in range(rounds):
                work(store, name, accepted, finished)
                store.documents(limit=100)
    else:
        for _ in range(rounds):
            with closing(open_store(database)) as store:
                work(store, name, accepted, finished)
    json.dump([accepted, finished], sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), keeps=sys.argv[4] == "keep")
