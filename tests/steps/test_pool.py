"""Step processes: whatever a step does, its job has a clear end and nobody else is hurt."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from stepkit import LONGEST_WAIT, RunningPool, make_job, write_module

from fairlead.steps.outcomes import (
    Died,
    Invalid,
    Later,
    Raised,
    Returned,
    StepOptions,
    StepRefused,
    TimedOut,
)

pytestmark = pytest.mark.services

STEPS = """
    import ctypes, os, subprocess, sys, threading
    from pathlib import Path
    from fairlead import Job, Refuse, Result, RetryLater, step

    def everything(job: Job) -> Result:
        part = job.path.parent / "own.txt"
        part.write_text("a part")
        return Result(
            text=job.text.upper(),
            markdown="# " + job.markdown,
            data={"total": job.data["net"] * 2, "order": job.metadata["order"], "json": job.json()},
            files={"stamped.pdf": b"%PDF", "own.txt": part},
            parts=[("page1.pdf", b"one"), ("page2.pdf", part, "invoices")],
        )

    def by_name(job):
        return globals()[job.content.decode()](job)

    def text(job): return "text"
    def data(job): return {"total": 7}
    def nothing(job): return None
    def refuse(job): raise Refuse("no-total", "No total was found.")
    def later(job): raise RetryLater(60)
    def error(job): raise ValueError("no such thing")
    def system_exit(job): sys.exit(3)
    def interrupt(job): raise KeyboardInterrupt
    def recursion(job): return recursion(job)
    def memory_error(job): raise MemoryError
    def surrogate(job): raise ValueError("\\ud800")
    def group(job): raise ExceptionGroup("several", [ValueError("a"), OSError("b")])

    class Unprintable(Exception):
        def __str__(self): raise RuntimeError
    def unprintable(job): raise Unprintable

    def a_set(job): return {1, 2}
    def too_much(job): return Result(files={"large": b"x" * 2_000_000})
    def outside(job): return Result(files={"../../large": b"x"})
    def no_file(job): return Result(files={"a.csv": "a,b"})
    def no_json(job): return {"value": object()}
    def no_code(job): raise Refuse("No Total!", "No total.")
    def no_seconds(job): raise RetryLater("soon")
    def no_part(job): return Result(parts=["a"])

    def exits(job): os._exit(3)
    def segfault(job): ctypes.string_at(0)

    @step(timeout=0.5)
    def hangs(job): threading.Event().wait()

    @step(memory_limit=150_000_000)
    def leaks(job):
        kept = [b"x" * 50_000_000 for _ in range(8)]
        threading.Event().wait()

    def prints(job):
        print("a line,", "of", job.id)
        sys.stderr.write("an error of it\\nwithout an end")
        os.write(1, b"from below\\n")
        subprocess.run(["echo", "from a program"], check=True)

    def forks(job):
        if os.fork() == 0:
            print("printed by a fork")
            return "of the fork"
        os.wait()
        return "of the parent"

    def leaves_a_fork(job):
        if os.fork() == 0:
            threading.Event().wait()
        os._exit(9)

    def environment(job): return dict(os.environ)

    barrier = threading.Barrier(3)

    @step(concurrency=3)
    def one_of_three_dies(job):
        if not (job.path.parent / "again").exists():
            (job.path.parent / "again").touch()
            barrier.wait()
            if job.id == "guilty":
                os._exit(1)
            threading.Event().wait()
        if job.id == "guilty":
            os._exit(1)
        return "well"

    @step(concurrency=2, timeout=1)
    def one_of_two_hangs(job):
        if job.id == "guilty":
            threading.Event().wait()
        if not (job.path.parent / "again").exists():
            (job.path.parent / "again").touch()
            threading.Event().wait()
        return "well"

    @step(concurrency=2)
    def meets(job):
        print("in", job.id)
        pair.wait()
        return job.id
    pair = threading.Barrier(2)

    @step(concurrency=4)
    def plain(job):
        return job.id

    def until_cancelled(job):
        job.progress(3, 10)
        while not job.cancelled:
            threading.Event().wait(0.01)
        return "cancelled"
"""
ASYNC = """
    import asyncio
    from fairlead import step

    met = asyncio.Event()
    count = 0

    @step(concurrency=3)
    async def meets(job):
        global count
        count += 1
        if count == 3:
            met.set()
        await met.wait()
        print("met", job.id)
        return job.id

    @step(concurrency=2)
    async def sleeps(job):
        job.progress(1, 2)
        await asyncio.Event().wait()
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    write_module(folder, STEPS)
    write_module(folder, ASYNC, "asteps")
    return folder


def test_what_a_step_returns_is_below_the_folder_of_its_job(modules: Path, tmp_path: Path) -> None:
    earlier = {"text": "text", "data.json": '{"net": 4}'}
    job = make_job(tmp_path, content=b"[1]", earlier=earlier, metadata={"order": 471})
    with RunningPool(modules, "mysteps:everything") as running:
        (outcome,) = running.run(job)
    assert isinstance(outcome, Returned)
    assert outcome.text is not None
    assert outcome.markdown is not None
    assert outcome.data is not None
    assert outcome.text.read().decode() == "TEXT"
    assert outcome.markdown.read().decode() == "# text"
    assert json.loads(outcome.data.read()) == {
        "net": 4,
        "total": 8,
        "order": 471,
        "json": [1],
    }
    stamped, own = outcome.files
    assert (stamped.name, stamped.read(), stamped.size) == ("stamped.pdf", b"%PDF", 4)
    assert stamped.sha256 == hashlib.sha256(b"%PDF").hexdigest()
    assert (own.name, own.read().decode()) == ("own.txt", "a part")
    assert [(part.name, part.pipeline) for part in outcome.parts] == [
        ("page1.pdf", None),
        ("page2.pdf", "invoices"),
    ]


@pytest.fixture(scope="module")
def by_name(modules: Path) -> Iterator[RunningPool]:
    """A pool whose step calls the function that the document names; all tests share it."""
    with RunningPool(modules, "mysteps:by_name", result_limit=1_000_000) as running:
        yield running


def test_a_return_value_is_a_result(by_name: RunningPool, tmp_path: Path) -> None:
    jobs = [make_job(tmp_path, name, name.encode()) for name in ("text", "data", "nothing")]
    texts, datas, nothing = [by_name.run(job)[0] for job in jobs]
    assert isinstance(texts, Returned)
    assert texts.text is not None
    assert texts.data is None
    assert isinstance(datas, Returned)
    assert datas.data is not None
    assert datas.text is None
    assert nothing == Returned()


def test_refusals_and_delays_are_outcomes(by_name: RunningPool, tmp_path: Path) -> None:
    assert by_name.run(make_job(tmp_path, "refuse", b"refuse")) == [
        StepRefused("no-total", "No total was found.")
    ]
    assert by_name.run(make_job(tmp_path, "later", b"later")) == [Later(60.0)]


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("error", "ValueError: no such thing"),
        ("system_exit", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("recursion", "RecursionError: maximum recursion depth exceeded"),
        ("memory_error", "MemoryError"),
        ("surrogate", "ValueError: ?"),
        ("group", "ExceptionGroup: several (2 sub-exceptions)"),
        ("unprintable", "Unprintable: (its text raises an error)"),
    ],
)
def test_every_exception_is_an_outcome(
    by_name: RunningPool, tmp_path: Path, name: str, summary: str
) -> None:
    (outcome,) = by_name.run(make_job(tmp_path, name, name.encode()))
    assert isinstance(outcome, Raised)
    assert outcome.summary.startswith(summary)
    assert f"in {name}" in outcome.traceback
    assert "process_main" not in outcome.traceback


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a_set", "a step must return a Result, a dict, a str or None; got set"),
        ("too_much", "a step may return 1,000,000 bytes in all (setting result_limit)"),
        ("outside", "the name of a file is not valid"),
        ("no_file", "there is no file 'a,b'"),
        ("no_json", "data of a result must be JSON"),
        ("no_code", "the code of a Refuse must be"),
        ("no_seconds", "RetryLater takes a number of seconds"),
        ("no_part", "a part of a result must be a pair of name and content"),
    ],
)
def test_nonsense_is_invalid_and_says_what_would_be_right(
    by_name: RunningPool, tmp_path: Path, name: str, sentence: str
) -> None:
    (outcome,) = by_name.run(make_job(tmp_path, name, name.encode()))
    assert isinstance(outcome, Invalid)
    assert sentence in outcome.sentence


@pytest.mark.parametrize(
    ("name", "how"),
    [("exits", "exit code 3"), ("segfault", "SIGSEGV"), ("leaves_a_fork", "exit code 9")],
)
def test_a_process_that_dies_is_replaced(
    by_name: RunningPool, tmp_path: Path, name: str, how: str
) -> None:
    assert by_name.run(make_job(tmp_path, name, name.encode())) == [Died(how)]
    (outcome,) = by_name.run(make_job(tmp_path, f"after-{name}", b"text"))
    assert isinstance(outcome, Returned)


def test_a_fork_that_runs_on_does_not_end_the_job(
    by_name: RunningPool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (outcome,) = by_name.run(make_job(tmp_path, "forks", b"forks"))
    assert isinstance(outcome, Returned)
    assert outcome.text is not None
    assert outcome.text.read().decode() == "of the parent"


def test_prints_are_logged_with_the_document(
    modules: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with RunningPool(modules, "mysteps:prints") as running:
        assert running.run(make_job(tmp_path)) == [Returned()]
    step = "fairlead: step mysteps:prints"
    for line in ("a line, of d1", "an error of it", "without an end"):
        assert f"{step}, document d1: {line}" in caplog.messages
    for line in ("from below", "from a program"):
        assert f"{step}: {line}" in caplog.messages


def test_a_step_over_its_timeout_ends_and_the_process_is_replaced(
    modules: Path, tmp_path: Path
) -> None:
    with RunningPool(modules, "mysteps:hangs") as running:
        assert running.ready().pool.options == StepOptions(timeout=0.5)
        assert running.run(make_job(tmp_path, "d1")) == [TimedOut(0.5)]
        assert running.ends["d1"].seconds >= 0.5
        assert running.run(make_job(tmp_path, "d2")) == [TimedOut(0.5)]


def test_a_step_over_its_memory_limit_ends(modules: Path, tmp_path: Path) -> None:
    with RunningPool(modules, "mysteps:leaks") as running:
        (outcome,) = running.run(make_job(tmp_path))
    assert outcome == Died("it used more than 150,000,000 bytes of memory")


def test_if_several_jobs_were_in_a_process_only_the_guilty_one_fails(
    modules: Path, tmp_path: Path
) -> None:
    jobs = [make_job(tmp_path, id_) for id_ in ("first", "guilty", "last")]
    with RunningPool(modules, "mysteps:one_of_three_dies") as running:
        first, guilty, last = running.run(*jobs)
        assert isinstance(first, Returned)
        assert isinstance(last, Returned)
        assert guilty == Died("exit code 1")
        assert running.ready().pool.free() == 3


def test_a_timeout_among_others_counts_only_when_it_happens_alone(
    modules: Path, tmp_path: Path
) -> None:
    jobs = [make_job(tmp_path, id_) for id_ in ("guilty", "other")]
    with RunningPool(modules, "mysteps:one_of_two_hangs") as running:
        guilty, other = running.run(*jobs)
    assert guilty == TimedOut(1.0)
    assert isinstance(other, Returned)


def test_a_process_that_ends_before_its_next_job_costs_that_job_nothing(
    modules: Path, tmp_path: Path
) -> None:
    with RunningPool(modules, "mysteps:plain") as running:
        assert running.ready().pool.free()
        running.run(make_job(tmp_path, "first"))
        pid = pid_of(running)
        end = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        poll = select.poll()
        poll.register(end, select.POLLIN)
        assert poll.poll(1000 * LONGEST_WAIT)
        os.close(end)
        (outcome,) = running.run(make_job(tmp_path))  # the pool has not been told yet
        assert isinstance(outcome, Returned)


def test_killed_processes_lose_and_double_no_job(modules: Path, tmp_path: Path) -> None:
    jobs = [make_job(tmp_path, f"d{number}") for number in range(60)]
    waiting = list(jobs)
    with RunningPool(modules, "mysteps:plain") as running:
        while len(running.ends) < len(jobs):
            running.wait_until(lambda: running.pool.free() or len(running.ends) == len(jobs))
            while waiting and running.pool.free():
                running.pool.start(waiting.pop())
                if len(waiting) % 12 == 5:
                    for process in running.pool._processes.values():
                        process.kill()
    for id_, end in running.ends.items():
        if isinstance(end.outcome, Returned):
            assert end.outcome.text is not None
            assert end.outcome.text.read().decode() == id_
        else:
            assert end.outcome == Died("SIGKILL")


def test_jobs_run_side_by_side_and_prints_keep_their_documents(
    modules: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with RunningPool(modules, "mysteps:meets") as running:
        outcomes = running.run(make_job(tmp_path, "d1"), make_job(tmp_path, "d2"))
    assert all(isinstance(outcome, Returned) for outcome in outcomes)
    for id_ in ("d1", "d2"):
        assert f"fairlead: step mysteps:meets, document {id_}: in {id_}" in caplog.messages


def test_progress_and_cancel_reach_the_other_side(modules: Path, tmp_path: Path) -> None:
    job = make_job(tmp_path)
    with RunningPool(modules, "mysteps:until_cancelled") as running:
        running.start(job)
        wait_for_progress(running, {"d1": (3, 10)})
        running.pool.cancel_job("d1")
        (outcome,) = running.outcomes(job)
        assert isinstance(outcome, Returned)
        assert running.pool.progress() == {}


def wait_for_progress(running: RunningPool, expected: dict[str, tuple[int, int]]) -> None:
    """Progress wakes nobody, so it is looked for."""
    while running.pool.progress() != expected:
        running.wait_until(lambda: True)


def test_async_jobs_share_one_event_loop(
    modules: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    jobs = [make_job(tmp_path, id_) for id_ in ("d1", "d2", "d3")]
    with RunningPool(modules, "asteps:meets") as running:
        assert all(isinstance(outcome, Returned) for outcome in running.run(*jobs))
    assert "fairlead: step asteps:meets, document d2: met d2" in caplog.messages


def test_cancelling_an_async_job_ends_it(modules: Path, tmp_path: Path) -> None:
    job = make_job(tmp_path)
    with RunningPool(modules, "asteps:sleeps") as running:
        running.start(job)
        wait_for_progress(running, {"d1": (1, 2)})
        running.pool.cancel_job("d1")
        (outcome,) = running.outcomes(job)
    assert isinstance(outcome, Raised)
    assert outcome.summary == "CancelledError"


def test_a_step_process_has_the_environment_without_ours(modules: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "FAIRLEAD_STORE": "secret", "MODEL_KEY": "its own"}
    with RunningPool(modules, "mysteps:environment", environment=environment) as running:
        (outcome,) = running.run(make_job(tmp_path))
    assert isinstance(outcome, Returned)
    assert outcome.data is not None
    variables = json.loads(outcome.data.read())
    assert variables["MODEL_KEY"] == "its own"
    assert not [name for name in variables if name.startswith("FAIRLEAD_")]


def test_signals_of_the_terminal_do_not_end_it(modules: Path, tmp_path: Path) -> None:
    job = make_job(tmp_path)
    with RunningPool(modules, "mysteps:until_cancelled") as running:
        running.start(job)
        wait_for_progress(running, {"d1": (3, 10)})
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid_of(running), number)
        running.pool.cancel_job("d1")
        (outcome,) = running.outcomes(job)
    assert isinstance(outcome, Returned)


def pid_of(running: RunningPool) -> int:
    """The pid of the only process."""
    running.wait_until(lambda: all(own.pid for own in running.pool._processes.values()))
    (process,) = running.pool._processes.values()
    assert process.pid is not None
    return process.pid


def test_changed_source_files_are_imported_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those that the module imports, and after a change that does not import."""
    write_module(tmp_path, "NUMBER = 1", "mynumbers")
    write_module(tmp_path, "import mynumbers\ndef number(job): return {'n': mynumbers.NUMBER}")
    with RunningPool(tmp_path, "mysteps:number", reloads=True) as running:
        running.run(make_job(tmp_path, "d1"))
        write_module(tmp_path, "NUMBER = ", "mynumbers")
        running.wait_until(lambda: running.pool.problem)
        assert "SyntaxError" in str(running.pool.problem)
        write_module(tmp_path, "NUMBER = 'two'", "mynumbers")
        running.wait_until(running.pool.free)
        (outcome,) = running.run(make_job(tmp_path, "d2"))
    assert isinstance(outcome, Returned)
    assert outcome.data is not None
    assert json.loads(outcome.data.read()) == {"n": "two"}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def other(job): pass", "mysteps has no function fields; it has other"),
        ("import nothing_like_it", "No module named 'nothing_like_it'"),
        (
            "import os\ndef fields(job): return (",
            "SyntaxError: '(' was never closed ({folder}/mysteps.py, line 2)",
        ),
        ("raise ValueError('no model')", "ValueError: no model ("),
        (
            "def fields(): pass",
            "must take one argument, the job: def fields(job); got def fields()",
        ),
        ("def fields(job, model): pass", "got def fields(job, model)"),
        ("fields = 7", "expected a function of one argument, the job; got 7"),
        ("import os; os._exit(4)", "its process ended while it imported the module (exit code 4)"),
        ("import sys; sys.exit(4)", "mysteps cannot be imported: SystemExit: 4"),
        (
            "from fairlead import step\n@step(attempts=0)\ndef fields(job): pass",
            "attempts of a step must be a whole number from 1; got 0 ({folder}/mysteps.py, line 2)",
        ),
        (
            "from fairlead import step\n@step(retries=4)\ndef fields(job): pass",
            "a step has no option retries; it has attempts, timeout, concurrency, memory_limit, "
            "retry_for, processes ({folder}/mysteps.py, line 2)",
        ),
        (
            "from fairlead.steps.reference import reference_of\nreference_of('read')",
            'put that code under if __name__ == "__main__":',
        ),
    ],
)
def test_a_step_that_cannot_be_loaded_says_why(tmp_path: Path, source: str, problem: str) -> None:
    write_module(tmp_path, source)
    with RunningPool(tmp_path, "mysteps:fields") as running:
        running.ready()
        assert running.pool.problem is not None
        assert running.pool.problem.startswith("step mysteps:fields")
        assert problem.replace("{folder}", str(tmp_path)) in running.pool.problem
        assert running.pool.options is None
        assert running.pool.free() == 0


def test_a_process_that_is_killed_during_the_first_import_is_started_again(tmp_path: Path) -> None:
    source = """
        import os, signal
        from pathlib import Path
        marker = Path(__file__).with_name("was-killed")
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        def fields(job): return "text"
    """
    write_module(tmp_path, source)
    with RunningPool(tmp_path, "mysteps:fields") as running:
        (returned,) = running.run(make_job(tmp_path))
        assert isinstance(returned, Returned)
        assert running.pool.problem is None
    assert (tmp_path / "was-killed").exists()


def test_a_module_or_entry_point_that_is_not_there_is_named(tmp_path: Path) -> None:
    for reference, problem in (
        ("nowhere:fields", "there is no module nowhere; install it"),
        ("nowhere", 'expected "module:function", or an entry point of the group fairlead.steps'),
    ):
        with RunningPool(tmp_path, reference) as running:
            running.ready()
            assert running.pool.problem is not None
            assert problem in running.pool.problem


def test_a_script_is_imported_without_its_main_part(tmp_path: Path) -> None:
    write_module(
        tmp_path,
        """
        def fields(job): return __name__
        if __name__ == "__main__":
            raise SystemExit(1)
        """,
        "my-script",
    )
    with RunningPool(tmp_path, f"{tmp_path / 'my-script.py'}:fields") as running:
        (outcome,) = running.run(make_job(tmp_path))
    assert isinstance(outcome, Returned)
    assert outcome.text is not None
    assert outcome.text.read().decode() == "my-script"


def test_a_step_process_dies_with_its_engine(modules: Path, tmp_path: Path) -> None:
    """Another process starts a pool and is killed: the step process must not outlive it."""
    reader, writer = os.pipe()
    engine = os.fork()
    if engine == 0:
        try:
            running = RunningPool(modules, "mysteps:hangs")
            running.start(make_job(tmp_path))
            os.write(writer, str(pid_of(running)).encode())
            signal.pause()
        finally:
            os._exit(1)
    pid = int(os.read(reader, 100))
    pidfd = os.pidfd_open(pid)
    os.kill(engine, signal.SIGKILL)
    os.waitpid(engine, 0)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    assert poll.poll(60_000), "the step process is still there"
    for descriptor in (reader, writer, pidfd):
        os.close(descriptor)
