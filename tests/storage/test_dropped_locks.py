"""A program may open and close the files of the data folder that it holds open, also by a copy.

The kernel then drops all POSIX locks of the process on these files, and with them SQLite's locks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import apsw
import pytest
from folder_user import TOGETHER, fork, open_and_close_all, open_store, submit

from fairlead.storage.sqlite import SqliteStore, wal_locks
from fairlead.storage.sqlite.wal_locks import WalLocks

HELPERS = Path(__file__).parents[1] / "helpers"
SHORT, LONG = 15, 300

SUBMIT = "submit(store, 'other')"
TRY_TO_SUBMIT = f"""
store._writer.hurry()
try:
    {SUBMIT}
except StoreBusy:
    print("busy")
"""
SUBMIT_AND_CHECKPOINT = f"""
for _ in range(50):
    {SUBMIT}
print(store._truncate_wal())
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "fairlead.db"


def program(database: Path, code: str) -> list[str]:
    """Python with an open store."""
    lines = [
        "from folder_user import *",
        "from fairlead.errors import StoreBusy",
        f"with closing(open_store(Path({str(database)!r}))) as store:",
        *(f"    {line}" for line in code.splitlines()),
    ]
    return [sys.executable, "-c", "\n".join(lines)]


def in_another_process(database: Path, code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(HELPERS)}
    done = subprocess.run(
        program(database, code), env=environment, check=True, text=True, stdout=subprocess.PIPE
    )
    return done.stdout.strip()


def all_ids(database: Path) -> set[str]:
    """What is in the database once all have closed it."""
    with closing(open_store(database)) as store:
        assert store.problems() == []
        return {document.id for document in store.documents(limit=10_000)}


@pytest.mark.services
def test_another_process_does_not_take_itself_for_the_last_user(database: Path) -> None:
    with closing(open_store(database)) as store:
        ids = set(submit(store, "here"))
        open_and_close_all(database.parent)
        in_another_process(database, SUBMIT)
        ids.update(submit(store, "here"))
        assert in_another_process(database, "print(len(store.documents(limit=10)))") == "3"
    assert ids < all_ids(database)


@pytest.mark.services
def test_another_program_does_not_take_itself_for_the_last_user(database: Path) -> None:
    code = f"import apsw; apsw.Connection({str(database)!r}).execute('SELECT 1 FROM documents')"
    with closing(open_store(database)) as store:
        submit(store, "here")
        open_and_close_all(database.parent)
        subprocess.run([sys.executable, "-c", code], check=True)
        submit(store, "here")
        assert in_another_process(database, "print(len(store.documents(limit=10)))") == "2"


@pytest.mark.services
def test_nobody_else_writes_during_a_transaction(database: Path) -> None:
    def write(connection: Any) -> str:
        open_and_close_all(database.parent)
        fork(database.parent)
        return in_another_process(database, TRY_TO_SUBMIT)

    with closing(open_store(database)) as store:
        submit(store, "here")
        assert store._writer.run(write) == "busy"
        in_another_process(database, SUBMIT)
    assert len(all_ids(database)) == 2


@pytest.mark.services
def test_no_checkpoint_overwrites_the_pages_of_a_snapshot(database: Path) -> None:
    with closing(open_store(database)) as store:
        ids = submit(store, "here")
        store._truncate_wal()
        with store._reading() as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            open_and_close_all(database.parent)
            assert in_another_process(database, SUBMIT_AND_CHECKPOINT) == "False"
            assert [id_ for (id_,) in connection.execute("SELECT id FROM documents")] == ids
    assert len(all_ids(database)) == 51


@pytest.mark.services
def test_the_last_process_leaves_one_file_with_all_documents(database: Path) -> None:
    with closing(open_store(database)) as store:
        open_and_close_all(database.parent)
        in_another_process(database, SUBMIT)
        submit(store, "here")
    wal = database.with_name(f"{database.name}-wal")
    assert not wal.exists()
    assert len(all_ids(database)) == 2


def test_two_stores_of_one_process_exclude_each_other(database: Path) -> None:
    with closing(open_store(database)) as store, closing(open_store(database)) as other:
        submit(store, "here")
        other.close()
        submit(store, "here")
        wal = database.with_name(f"{database.name}-wal")
        assert wal.exists()
    assert len(all_ids(database)) == 2


@pytest.mark.services
def test_a_forked_process_does_not_prolong_the_lock_of_a_killed_one(database: Path) -> None:
    code = """
store._writer._begin(durable=True)
if os.fork():
    print("holds", flush=True)
sys.stdin.read()
os._exit(0)
"""
    with subprocess.Popen(
        program(database, code),
        env={**os.environ, "PYTHONPATH": str(HELPERS)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        with closing(open_store(database)) as store:
            assert not can_write(database)
            process.send_signal(signal.SIGKILL)
            process.wait()
            submit(store, "here")  # the child still runs


def test_closed_locks_stay_closed(database: Path) -> None:
    with closing(open_store(database)):
        locks = WalLocks(database)
        locks.close()
        with pytest.raises(apsw.ConnectionClosedError):
            locks.begin_read()


def can_write(database: Path) -> bool:
    with closing(WalLocks(database)) as locks:
        try:
            locks.begin_write(lambda _attempts: False)
        except apsw.BusyError:
            return False
        return True


def test_readers_who_take_turns_do_not_keep_a_checkpoint_waiting(database: Path) -> None:
    with (
        closing(open_store(database)),
        closing(WalLocks(database)) as first,
        closing(WalLocks(database)) as second,
        closing(WalLocks(database)) as third,
    ):
        history: list[str] = []

        def checkpoint() -> None:
            with third.checkpointing(60) as is_free:
                history.append(f"checkpoint {is_free}")

        def read() -> None:
            second.begin_read()
            history.append("second reader")
            second.end_read()

        first.begin_read()
        checkpointing = Thread(target=checkpoint)
        checkpointing.start()
        while can_read(database):
            """Until the checkpoint waits."""
        reading = Thread(target=read)
        reading.start()
        history.append("first reader")
        first.end_read()
        checkpointing.join()
        reading.join()
        assert history == ["first reader", "checkpoint True", "second reader"]


def can_read(database: Path) -> bool:
    with closing(WalLocks(database)) as locks:
        return locks._try(wal_locks._GATE_AND_READ.shared)


def test_a_checkpoint_gives_way_to_a_long_reader(database: Path) -> None:
    with closing(open_store(database)) as store, closing(WalLocks(database)) as locks:
        with store._reading(), locks.checkpointing(0) as is_free:
            assert not is_free
        with locks.checkpointing(0) as is_free:
            assert is_free
        assert_reads(store)


def assert_reads(store: SqliteStore) -> None:
    with store._reading() as connection:
        assert connection.execute("SELECT 1").get == 1


@pytest.mark.services
@pytest.mark.parametrize("rounds", [SHORT, pytest.param(LONG, marks=pytest.mark.faults)])
def test_copies_and_forks_lose_and_double_nothing(database: Path, rounds: int) -> None:
    """Four processes work at once; two of them do all that drops their locks."""
    open_store(database).close()
    environment = {**os.environ, "PYTHONPATH": str(HELPERS)}
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-W", "ignore", HELPERS / "folder_user.py"),
                *(database, f"p{number}", str(rounds), how),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, how in enumerate(["keep", "keep", "reopen", "reopen"])
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    check_all(database, rounds, outputs)


def check_all(database: Path, rounds: int, outputs: list[str]) -> None:
    accepted = {id_ for output in outputs for id_ in json.loads(output)[0]}
    finished = [id_ for output in outputs for id_ in json.loads(output)[1]]
    assert len(accepted) == len(outputs) * rounds * TOGETHER
    assert len(set(finished)) == len(finished), "a document was processed twice"
    with closing(open_store(database)) as store:
        assert store.problems() == []
        documents = store.documents(limit=10_000)
        assert {document.id for document in documents} == accepted
        done = {document.id for document in documents if document.state == "done"}
        assert done == set(finished)
        assert all(document.attempts == (document.id in done) for document in documents)
