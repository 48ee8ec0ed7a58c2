"""Processes of a step: how many there are, which jobs they get, and how they are started."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from stepkit import RunningPool, make_job, write_module

from fairlead.steps.outcomes import Died, Returned, StepEnd

pytestmark = pytest.mark.services

STEPS = """
    import os, socket, threading
    from pathlib import Path
    from fairlead import step

    IMPORTED_BY = os.getpid()

    def meet(job, number):
        '''Return when so many jobs are in this step at once.'''
        here = Path(job.metadata["folder"])
        (here / job.id).touch()
        while len(list(here.iterdir())) < number:
            threading.Event().wait(0.005)
        return {"pid": os.getpid(), "imported_by": IMPORTED_BY}

    def four_meet(job): return meet(job, 4)

    @step(concurrency=2)
    def four_meet_by_two(job): return meet(job, 4)

    @step(processes=1)
    def alone(job):
        folder = Path(job.metadata["folder"])
        (folder / "entered").mkdir()  # fails while another job is in here
        (folder / "entered").rmdir()
        return {"pid": os.getpid()}

    def told(job):
        '''Short, but for the job that waits until all others have ended.'''
        here = Path(job.metadata["folder"])
        if job.id == "long":
            while len(list(here.iterdir())) < 10:
                threading.Event().wait(0.005)
        (here / job.id).touch()
        return {"pid": os.getpid()}

    def babbles(job):
        raised = '{"type":"raised","summary":"","traceback":""}'
        end = '{"type":"ended","id":"x","seconds":1,"outcome":' + raised + "}"
        kinds = {"junk": "no message", "unknown": end}
        if job.attempt == 1:
            for name in os.listdir("/proc/self/fd"):
                if name.isdigit() and int(name) > 2:
                    try:
                        if os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                            os.write(int(name), kinds[job.metadata["kind"]].encode() + bytes([10]))
                    except OSError:
                        pass
            threading.Event().wait()
        return "well"
"""
THREADED = """
    import os, threading
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    PID = os.getpid()
    def own(job): return {"pid": os.getpid(), "imported_by": PID}
"""
SOCKET = """
    import os, socket
    connection = socket.socketpair()
    PID = os.getpid()
    def own(job): return {"pid": os.getpid(), "imported_by": PID}
"""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    write_module(tmp_path, STEPS)
    write_module(tmp_path, THREADED, "threaded")
    write_module(tmp_path, SOCKET, "connected")
    return tmp_path


@pytest.fixture
def shared(tmp_path: Path) -> dict[str, str]:
    """Metadata with a folder in which jobs meet."""
    (tmp_path / "shared").mkdir()
    return {"folder": str(tmp_path / "shared")}


def data_of(end: StepEnd) -> dict[str, int]:
    assert isinstance(end.outcome, Returned), end.outcome
    assert end.outcome.data is not None
    data: dict[str, int] = json.loads(end.outcome.data.read())
    return data


def test_as_many_documents_as_workers_are_in_a_step_at_once(
    modules: Path, shared: dict[str, str]
) -> None:
    jobs = [make_job(modules, f"d{number}", metadata=shared) for number in range(4)]
    with RunningPool(modules, "mysteps:four_meet", workers=4) as running:
        assert running.ready().pool.capacity == 4
        running.run(*jobs)
        pids = {data_of(end)["pid"] for end in running.ends.values()}
    assert len(pids) == 4


def test_the_module_is_imported_once_for_all_processes(
    modules: Path, shared: dict[str, str]
) -> None:
    jobs = [make_job(modules, f"d{number}", metadata=shared) for number in range(4)]
    with RunningPool(modules, "mysteps:four_meet", workers=4) as running:
        running.run(*jobs)
        ends = [data_of(end) for end in running.ends.values()]
    (importer,) = {end["imported_by"] for end in ends}
    assert importer not in {end["pid"] for end in ends}


def test_jobs_that_wait_share_processes_after_all_cores_have_some(
    modules: Path, shared: dict[str, str]
) -> None:
    jobs = [make_job(modules, f"d{number}", metadata=shared) for number in range(4)]
    with RunningPool(modules, "mysteps:four_meet_by_two", workers=2) as running:
        assert running.ready().pool.capacity == 4
        running.run(*jobs)
        pids = [data_of(end)["pid"] for end in running.ends.values()]
    assert sorted(map(pids.count, set(pids))) == [2, 2]


def test_processes_are_bounded_on_a_machine_over_all_engines(
    modules: Path, shared: dict[str, str]
) -> None:
    """Two engines of one data folder have one process of the step between them."""
    with RunningPool(modules, "mysteps:alone", workers=4) as first:
        assert first.ready().pool.capacity == 1
        with RunningPool(modules, "mysteps:alone", workers=4, slots=first.slots()) as second:
            second.wait_until(lambda: second.pool.is_loaded)
            assert second.pool.capacity == 0
            first.run(*(make_job(modules, f"d{number}", metadata=shared) for number in range(3)))
            first.pool.close()
            second.wait_until(second.pool.free)
            second.run(make_job(modules, "last", metadata=shared))
    assert len({data_of(end)["pid"] for end in first.ends.values()}) == 1


@pytest.mark.parametrize("module", ["threaded", "connected"])
def test_a_module_that_cannot_be_forked_is_imported_by_each_process(
    modules: Path, module: str
) -> None:
    jobs = [make_job(modules, f"d{number}") for number in range(2)]
    with RunningPool(modules, f"{module}:own", workers=2) as running:
        running.run(*jobs)
        ends = [data_of(end) for end in running.ends.values()]
    assert all(end["pid"] == end["imported_by"] for end in ends)


def test_what_lies_ready_behind_a_long_job_begins_elsewhere(
    modules: Path, shared: dict[str, str]
) -> None:
    """The long job ends when all others have ended, so none may stay behind it."""
    short = [
        make_job(modules, f"s{number}", metadata={"folder": str(modules / "shared")})
        for number in range(3)
    ]
    with RunningPool(modules, "mysteps:told", workers=2) as running:
        running.run(*short)
        running.pool.mean = 0.001  # however slow this machine is
        long = make_job(modules, "long", metadata=shared)
        others = [make_job(modules, f"o{number}", metadata=shared) for number in range(7)]
        running.start(long)
        running.wait_until(running.pool.running_since)
        for job in others:
            assert running.pool.free() or running.pool.has_room_behind()
            running.pool.start(job)
        running.outcomes(long, *others)
    assert data_of(running.ends["long"])["pid"]


@pytest.mark.parametrize("kind", ["junk", "unknown"])
def test_what_is_no_message_ends_its_process_only(modules: Path, kind: str) -> None:
    with RunningPool(modules, "mysteps:babbles") as running:
        (outcome,) = running.run(make_job(modules, "d1", metadata={"kind": kind}))
        assert isinstance(outcome, Died)
        assert "no message" in outcome.how or "which it does not have" in outcome.how
        again = make_job(modules, "d2", metadata={"kind": kind})._replace(attempt=2)
        assert isinstance(running.run(again)[0], Returned)


def test_a_killed_template_is_replaced_and_its_jobs_run_again(
    modules: Path, shared: dict[str, str]
) -> None:
    jobs = [make_job(modules, f"d{number}", metadata=shared) for number in range(3)]
    with RunningPool(modules, "mysteps:four_meet", workers=4) as running:
        running.start(*jobs)
        running.wait_until(lambda: len(running.pool.running_since()) == 3)
        assert running.pool._template is not None
        os.kill(running.pool._template.pid, signal.SIGKILL)
        assert running.outcomes(*jobs) == [Died("SIGKILL")] * 3
        again = [make_job(modules, f"again{number}", metadata=shared) for number in range(4)]
        assert all(isinstance(outcome, Returned) for outcome in running.run(*again))


def test_an_import_has_a_deadline(tmp_path: Path) -> None:
    write_module(tmp_path, "import threading\nthreading.Event().wait()")
    with RunningPool(tmp_path, "mysteps:fields", import_limit=0.5) as running:
        running.wait_until(lambda: running.pool.problem)
        assert running.pool.problem == (
            "step mysteps:fields: its module was not imported within 0.5 s (import_limit)"
        )
        assert running.pool.capacity == 0


def test_a_repaired_module_is_imported_soon(tmp_path: Path) -> None:
    write_module(tmp_path, "def other(job): return 'text'")
    with RunningPool(tmp_path, "mysteps:fields") as running:
        running.wait_until(lambda: running.pool.problem)
        write_module(tmp_path, "def fields(job): return 'text'")
        running.wait_until(running.pool.free)
        assert isinstance(running.run(make_job(tmp_path))[0], Returned)
