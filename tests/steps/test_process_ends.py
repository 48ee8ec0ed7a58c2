"""How step processes begin and end, and which job is to blame for an end."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from stepkit import LONGEST_WAIT, RunningPool, make_job, write_module

from fairlead.errors import TemporarilyUnavailable
from fairlead.steps import process_main
from fairlead.steps.messages import Printed, Ready, decode_answer, encode
from fairlead.steps.outcomes import Outcome, Raised, Returned, TimedOut
from fairlead.steps.process_slots import ProcessSlots

pytestmark = pytest.mark.services

STEPS = """
    import asyncio, os, threading
    from pathlib import Path
    from fairlead import step

    def wait_for(path):
        while not path.exists():
            threading.Event().wait(0.005)

    def held(job):
        here = Path(job.metadata["folder"])
        (here / job.id).touch()
        job.progress(1, 1)
        if job.id.startswith("long"):
            wait_for(here / "released")
        return {"pid": os.getpid()}

    @step(processes=1, concurrency=2)
    def on_gpu(job):
        return held(job)

    @step(timeout=0.3)
    def hangs(job): threading.Event().wait()

    def until_cancelled(job):
        while not job.cancelled:
            threading.Event().wait(0.005)
        return "cancelled"

    def ends_later(job):
        '''The first job ends the process after its own end, when the second one has begun.'''
        here = Path(job.metadata["folder"])
        if job.id == "first":
            def end():
                wait_for(here / "second")
                os._exit(5)
            threading.Thread(target=end).start()
        elif job.id == "second" and not (here / "second").exists():
            (here / "second").touch()
            threading.Event().wait()
        return "well"

    @step(concurrency=2)
    async def blocks_loop(job):
        if job.id == "long":
            held(job)
        else:
            await asyncio.Event().wait()
"""
HANGS_AT_SECOND_IMPORT = """
    import os, socket, threading
    from pathlib import Path
    here = Path(__file__).parent
    connection = socket.socketpair()  # so that each process imports it
    if (here / "imported").exists() and (here / "hang").exists():
        threading.Event().wait()
    (here / "imported").touch()
    def own(job): return "well"
"""
REDIRECTED = """
    import os
    log = os.open(os.devnull, os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    def own(job): return "well"
"""
BABBLES = """
    import os
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                os.write(int(name), b"no message")
        except OSError:
            pass
    def own(job): return "well"
"""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """The folder by which jobs and the test tell each other what they do."""
    write_module(tmp_path, STEPS)
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


@pytest.fixture
def job(tmp_path: Path, shared: Path) -> Callable[[str], Any]:
    return lambda id_: make_job(tmp_path, id_, metadata={"folder": str(shared)})


def pid_in(outcome: Outcome) -> int:
    assert isinstance(outcome, Returned), outcome
    assert outcome.data is not None
    pid = json.loads(outcome.data.read())["pid"]
    assert isinstance(pid, int)
    return pid


def kill_and_wait(pid: int, number: int = signal.SIGKILL) -> None:
    """End a process; the pool is not told."""
    end = os.pidfd_open(pid)
    os.kill(pid, number)
    wait_for_end(end)


def wait_for_end(pidfd: int) -> None:
    readable, _, _ = select.select([pidfd], [], [], LONGEST_WAIT)
    assert readable, "the process runs on"
    os.close(pidfd)


def lay_behind_long_one(running: RunningPool, job: Callable[[str], Any]) -> None:
    """A job waits for a file, and another lies ready behind it."""
    running.run(job("quick"))
    running.pool.mean = 0.001  # however slow this machine is
    running.start(job("long"))
    running.wait_until(running.pool.running_since)
    assert running.pool.has_room_behind()
    running.pool.start(job("behind"))
    running.pool.flush()


def test_nothing_is_put_behind_a_job_that_takes_long(
    tmp_path: Path, shared: Path, job: Callable[[str], Any]
) -> None:
    with RunningPool(tmp_path, "mysteps:held") as running:
        lay_behind_long_one(running, job)
        returned: list[Any] = []
        while not returned:
            assert running.pool.poll() == []
            running.select()
            returned += running.pool.take_returned()
        assert [own.id for own in returned] == ["behind"]
        assert not running.pool.has_room_behind()
        assert running.pool.ahead() == 0
        (shared / "released").touch()
        running.wait_until(lambda: "long" in running.ends)


def test_a_cancelled_job_that_has_not_begun_ends_with_its_process(
    tmp_path: Path, job: Callable[[str], Any], shared: Path
) -> None:
    with RunningPool(tmp_path, "mysteps:held") as running:
        lay_behind_long_one(running, job)
        running.pool.cancel_job("behind")
        kill_and_wait(running.pool.pids()[0])
        running.wait_until(lambda: len(running.ends) == 3)
        assert running.ends["behind"].outcome == Raised("the document was cancelled", "")
    assert not (shared / "behind").exists()


def test_a_job_that_is_cancelled_before_its_process_is_ready_does_not_begin(
    tmp_path: Path, job: Callable[[str], Any]
) -> None:
    with RunningPool(tmp_path, "mysteps:until_cancelled") as running:
        only = job("d1")
        running.start(only)
        running.pool.cancel_job("d1")
        assert running.outcomes(only) == [Raised("the document was cancelled", "")]


def test_an_async_job_that_is_cancelled_before_it_begins_ends(
    tmp_path: Path, shared: Path, job: Callable[[str], Any]
) -> None:
    cancelled = job("cancelled")
    with RunningPool(tmp_path, "mysteps:blocks_loop") as running:
        running.start(job("long"))
        running.wait_until(running.pool.progress)
        running.start(cancelled)
        running.pool.cancel_job("cancelled")
        (shared / "released").touch()
        (outcome,) = running.outcomes(cancelled)
    assert isinstance(outcome, Raised)
    assert outcome.summary == "CancelledError"


def test_a_job_that_could_not_be_sent_has_not_ended_its_process(
    tmp_path: Path, job: Callable[[str], Any]
) -> None:
    second = job("second")
    with RunningPool(tmp_path, "mysteps:held") as running:
        first = pid_in(running.run(job("first"))[0])
        kill_and_wait(first)
        running.pool.start(second)
        assert pid_in(running.outcomes(second)[0]) != first


def test_an_end_that_the_last_job_may_have_caused_costs_the_next_one_nothing(
    tmp_path: Path, job: Callable[[str], Any]
) -> None:
    first, second = job("first"), job("second")
    with RunningPool(tmp_path, "mysteps:ends_later") as running:
        running.run(job("zero"))
        running.pool.mean = 0.001
        end = os.pidfd_open(running.pool.pids()[0])
        running.pool.start(first)
        running.pool.start(second)
        running.pool.flush()
        wait_for_end(end)
        assert all(isinstance(outcome, Returned) for outcome in running.outcomes(first, second))


def test_processes_of_old_source_count_where_a_step_bounds_them(
    tmp_path: Path, shared: Path, job: Callable[[str], Any]
) -> None:
    long, second = job("long"), job("second")
    with RunningPool(tmp_path, "mysteps:on_gpu", workers=4, reloads=True) as running:
        running.start(long)
        running.wait_until(running.pool.progress)
        assert running.pool.free() == 1
        write_module(tmp_path, STEPS + "\n    # changed")
        running.wait_until(lambda: not running.pool.is_loaded)
        running.wait_until(lambda: running.pool.is_loaded)
        assert running.pool.free() == 0, "a second process would run beside the first"
        (shared / "released").touch()
        old = pid_in(running.outcomes(long)[0])
        assert pid_in(running.run(second)[0]) != old


def test_a_process_that_hangs_while_it_imports_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_module(tmp_path, HANGS_AT_SECOND_IMPORT)
    (tmp_path / "hang").touch()
    with RunningPool(tmp_path, "mysteps:own", import_limit=1.5) as running:
        only = make_job(tmp_path)
        running.start(only)
        running.wait_until(lambda: "was not ready within 1.5 s (import_limit)" in caplog.text)
        (tmp_path / "hang").unlink()
        assert isinstance(running.outcomes(only)[0], Returned)


def test_a_process_that_is_being_killed_keeps_nobody_awake(
    tmp_path: Path, job: Callable[[str], Any]
) -> None:
    only = job("d1")
    with RunningPool(tmp_path, "mysteps:hangs") as running:
        running.start(only)
        running.wait_until(running.pool.running_since)
        process = next(iter(running.pool._processes.values()))
        running.wait_until(lambda: process.is_ending)
        assert running.pool.deadline() == float("inf")
        assert running.outcomes(only) == [TimedOut(0.3)]


def test_a_module_that_redirects_its_output_keeps_nobody_awake(tmp_path: Path) -> None:
    write_module(tmp_path, REDIRECTED)
    with RunningPool(tmp_path, "mysteps:own") as running:
        assert isinstance(running.run(make_job(tmp_path))[0], Returned)
        assert not running.readable()


def test_a_template_that_breaks_the_protocol_leaves_no_descriptors(tmp_path: Path) -> None:
    write_module(tmp_path, BABBLES)
    with RunningPool(tmp_path, "mysteps:own") as running:
        template = running.pool._template
        assert template is not None
        running.wait_until(lambda: running.pool._template is not template)
        assert template._socket.fileno() == -1
        assert not Path(f"/proc/{template.pid}").exists()


def test_slots_that_cannot_be_counted_are_an_outage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TemporarilyUnavailable, match="cannot be counted"):
        ProcessSlots(tmp_path / "file" / "slots", "mysteps:own").held(1, of=1)


def test_a_finalizer_that_prints_while_a_message_is_sent_locks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The garbage collector may run it at any moment, such as amid `send`."""
    monkeypatch.setattr(os, "register_at_fork", lambda **_hooks: None)  # for a step process only
    ours, theirs = socket.socketpair()
    connection = process_main.EngineSocket(theirs.detach())
    monkeypatch.setattr(process_main, "encode", with_a_print_of(connection))
    sender = Thread(target=connection.send, args=[Ready()], daemon=True)
    sender.start()
    sender.join(LONGEST_WAIT)
    assert not sender.is_alive()
    with ours, ours.makefile("rb") as lines:
        answers = [decode_answer(lines.readline()) for _ in range(2)]
    assert answers == [Printed(None, "by a finalizer"), Ready()]
    connection._lines.close()
    connection._socket.close()


def with_a_print_of(connection: process_main.EngineSocket) -> Callable[[Any], bytes]:
    """The encoder, which prints when it is called for the first time."""
    prints = ["by a finalizer"]

    def encode_and_print(message: Any) -> bytes:
        if prints:
            connection.print(None, prints.pop())
        return encode(message)

    return encode_and_print
