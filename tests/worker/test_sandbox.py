"""A real child process: it answers, it is bounded, and its end is never a riddle."""

from __future__ import annotations

import hashlib
import io
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forkkit import Scripted
from needs import need_languages
from PIL import Image, ImageDraw, ImageFont

from fairlead.errors import DiskFull, MissingExtra
from fairlead.model.documents import Broken, Failed
from fairlead.worker.sandbox.answer import Extraction, parse_answer
from fairlead.worker.sandbox.job_dir import JobDir, JobDirGone
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import MOST_JOBS, ChildDied, JobAnswer, ReadJob, Sandbox

pytestmark = pytest.mark.services

short_in_make_test = pytest.mark.parametrize(
    "job", [pytest.param("file", marks=pytest.mark.full), "short"], indirect=True
)
"""For tests that take long: `make test` runs them with the short document only."""

PATIENCE_MS = 60_000
MakeJob = Callable[[bytes], ReadJob]


def doing(statement: str) -> str:
    return (
        "def extract(path, **how):\n"
        f"    {statement}\n"
        "    return honest(path, **how)\n"
        "child.extract = extract"
    )


@pytest.fixture
def scripted(start: Any) -> Callable[..., Any]:
    return lambda script, limits=None: start(Scripted(script, limits))


def ends(pidfd: int) -> bool:
    """Whether the process ends in time. Closes the descriptor."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    try:
        return bool(poll.poll(PATIENCE_MS))
    finally:
        os.close(pidfd)


def text_of(answer: JobAnswer) -> str:
    outcome = parse_answer(answer.raw)
    assert isinstance(outcome, Extraction)
    return outcome.text


def test_two_jobs_in_a_row(start: Any, job: MakeJob) -> None:
    reading = start()
    assert not reading.sandbox.ready
    sandbox = reading.until_ready()
    for number, text in enumerate(("first", "second"), start=1):
        sandbox.send(job(text.encode()))
        outcome = parse_answer(reading.answer().raw)
        assert isinstance(outcome, Extraction)
        assert (outcome.kind, outcome.text) == ("text", text)
        assert sandbox.jobs_done == number


def test_jobs_that_lie_ready_are_answered_in_their_order(start: Any, job: MakeJob) -> None:
    reading = start()
    sandbox = reading.until_ready()
    texts = [f"number {number}" for number in range(MOST_JOBS)]
    for text in texts:
        sandbox.send(job(text.encode()))
    answers = reading.answers(MOST_JOBS)
    assert [text_of(answer) for answer in answers] == texts
    assert all(answer.took > 0 for answer in answers)
    assert not sandbox.busy
    assert list(sandbox.job_dir.folder.iterdir()) == []


def test_what_was_answered_before_a_death_counts(scripted: Any, job: MakeJob) -> None:
    reading = scripted(doing("path.read_bytes() == b'bad' and os.abort()"))
    sandbox = reading.until_ready()
    for content in (b"first", b"second", b"bad", b"last"):
        sandbox.send(job(content))
    assert [text_of(answer) for answer in reading.answers(2)] == ["first", "second"]
    with pytest.raises(ChildDied, match="SIGABRT"):
        reading.answer()


def test_sending_more_to_a_child_that_died_is_no_news(scripted: Any, job: MakeJob) -> None:
    reading = scripted(doing("os.abort()"))
    sandbox = reading.until_ready()
    pidfd = os.pidfd_open(sandbox.pid)
    sandbox.send(job(b"first"))
    assert ends(pidfd)
    sandbox.send(job(b"second"))
    with pytest.raises(ChildDied, match="SIGABRT"):
        reading.answer()


def test_what_is_withdrawn_is_answered_as_missing(scripted: Any, job: MakeJob) -> None:
    go_on = "while not (path.parent / 'go').exists(): pass"
    reading = scripted(doing(go_on))
    sandbox = reading.until_ready()
    for content in (b"first", b"second", b"third"):
        sandbox.send(job(content))
    sandbox.withdraw()
    go = sandbox.job_dir.folder / "go"
    go.touch()
    first, *others = reading.answers(3)
    go.unlink()
    assert text_of(first) == "first"
    missing = [parse_answer(other.raw) for other in others]
    assert [isinstance(outcome, Broken) and outcome.code for outcome in missing] == [
        "corrupt",
        "corrupt",
    ]


def test_an_answer_too_many_spoils_the_last_one_only(scripted: Any, job: MakeJob) -> None:
    reading = scripted(
        "answer = child.answer\n"
        "def twice(job, *others):\n"
        "    return answer(job, *others) * int(job.path.name)\n"
        "child.answer = twice"
    )
    sandbox = reading.until_ready()
    for content in (b"first", b"second"):
        sandbox.send(job(content))
    assert text_of(reading.answer()) == "first"
    with pytest.raises(ChildDied) as caught:
        reading.answer()
    assert caught.value.code == "bad-answer"


def test_a_failure_leaves_the_child_usable(start: Any, job: MakeJob) -> None:
    reading = start()
    sandbox = reading.until_ready()
    sandbox.send(job(b"%PDF-1.4 nothing"))
    outcome = parse_answer(reading.answer().raw)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.kind) == ("damaged", "pdf")
    sandbox.send(job(b"and on"))
    assert isinstance(parse_answer(reading.answer().raw), Extraction)


def test_a_long_answer_arrives_whole(start: Any, job: MakeJob) -> None:
    text = "wörter und wörter " * 300_000
    reading = start()
    reading.until_ready().send(job(text.encode()))
    outcome = parse_answer(reading.answer().raw)
    assert isinstance(outcome, Extraction)
    assert outcome.text == text.strip()


def test_other_bytes_than_accepted_are_corrupt(start: Any, job: MakeJob, tmp_path: Path) -> None:
    reading = start()
    sandbox = reading.until_ready()
    changed = job(b"as it was")._replace(sha256=hashlib.sha256(b"as it is").hexdigest())
    sandbox.send(changed)
    outcome = parse_answer(reading.answer().raw)
    assert isinstance(outcome, Broken)
    assert outcome.code == "corrupt"
    with pytest.raises(FileNotFoundError):
        sandbox.send(ReadJob(tmp_path / "nowhere", changed.sha256))
    sandbox.send(job(b"still free"))
    assert isinstance(parse_answer(reading.answer().raw), Extraction)


def test_a_short_document_needs_room_in_the_job_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_dir = JobDir(tmp_path / "jobs")
    place = job_dir.folder / str(job_dir.add(b"first"))
    assert place.read_bytes() == b"first"
    assert place.stat().st_mode & 0o077 == 0
    job_dir.clear()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        with pytest.raises(DiskFull, match="no document can be read"):
            job_dir.add(b"second")
    job_dir.add(b"third")
    job_dir.remove()
    with pytest.raises(JobDirGone):
        job_dir.add(b"fourth")


def test_what_a_library_prints_does_not_reach_the_protocol(scripted: Any, job: MakeJob) -> None:
    reading = scripted(doing("print('noise', flush=True); os.write(1, b'noise'); os.read(0, 9)"))
    reading.until_ready().send(job(b"words"))
    outcome = parse_answer(reading.answer().raw)
    assert isinstance(outcome, Extraction)
    assert outcome.text == "words"


def test_an_unforeseen_error_is_damage_without_its_traceback(scripted: Any, job: MakeJob) -> None:
    reading = scripted(doing("raise OSError('/secret/path')"))
    reading.until_ready().send(job(b"words"))
    outcome = parse_answer(reading.answer().raw)
    assert isinstance(outcome, Failed)
    assert outcome.code == "damaged"
    assert "secret" not in outcome.detail


def test_too_much_memory_is_answered_and_ends_the_child(scripted: Any, job: MakeJob) -> None:
    reading = scripted(doing("bytearray(10**10)"), SandboxLimits(memory=500_000_000))
    reading.until_ready().send(job(b"words"))
    outcome = parse_answer(reading.answer().raw)
    assert isinstance(outcome, Broken)
    assert outcome.code == "memory-limit"
    with pytest.raises(ChildDied, match="exit code 1"):
        reading.answer()


@pytest.mark.parametrize("piece", [b"<a>x</a>", b"<i title='abc'>"])
@short_in_make_test
def test_a_page_that_fills_the_memory_is_not_called_damaged(
    start: Any, job: MakeJob, piece: bytes
) -> None:
    reading = start(Sandbox(SandboxLimits(memory=250_000_000)))
    reading.until_ready().send(job(b"<html><p>" + (piece + b"<p>y</p></i>") * 1_500_000))
    try:
        outcome = parse_answer(reading.answer().raw)
    except ChildDied as died:
        outcome = Broken(died.code, died.how)
    assert isinstance(outcome, Broken)
    assert outcome.code in ("memory-limit", "crashed")


@short_in_make_test
def test_too_much_processor_time_is_the_time_limit(scripted: Any, job: MakeJob) -> None:
    reading = scripted(doing("while True: pass"), SandboxLimits(seconds=0.5))
    reading.until_ready().send(job(b"words"))
    with pytest.raises(ChildDied) as caught:
        reading.answer()
    assert (caught.value.how, caught.value.code) == ("SIGXCPU", "time-limit")


@short_in_make_test
def test_processor_time_is_counted_for_each_job(scripted: Any, job: MakeJob) -> None:
    burn = "end = sum(os.times()[:2]) + 0.7\n    while sum(os.times()[:2]) < end: pass"
    reading = scripted(doing(burn), SandboxLimits(seconds=1.0))
    sandbox = reading.until_ready()
    for number in range(2):
        sandbox.send(job(b"words %d" % number))
        assert isinstance(parse_answer(reading.answer().raw), Extraction)
    assert sandbox.is_worn  # the hard limit might not leave the time of another job


def test_a_killed_child_names_its_signal(start: Any, job: MakeJob) -> None:
    reading = start()
    sandbox = reading.until_ready()
    os.kill(sandbox.pid, signal.SIGKILL)
    with pytest.raises(ChildDied) as caught:
        reading.answer()
    assert (caught.value.how, caught.value.code) == ("SIGKILL", "worker-lost")


def test_a_crash_within_a_job_names_its_signal(scripted: Any, job: MakeJob) -> None:
    reading = scripted(doing("os.abort()"))
    reading.until_ready().send(job(b"words"))
    with pytest.raises(ChildDied, match="SIGABRT"):
        reading.answer()
    assert not reading.sandbox.ready


def test_sending_to_a_dead_child_says_so(start: Any, job: MakeJob) -> None:
    sandbox = start().until_ready()
    pidfd = os.pidfd_open(sandbox.pid)
    sandbox.kill()
    assert ends(pidfd)
    with pytest.raises(ChildDied, match="SIGKILL"):
        sandbox.send(job(b"words"))


def test_a_job_needs_a_child_that_is_ready_and_has_room(start: Any, job: MakeJob) -> None:
    reading = start()
    with pytest.raises(RuntimeError):
        reading.sandbox.send(job(b"words"))
    sandbox = reading.until_ready()
    for number in range(MOST_JOBS):
        sandbox.send(job(b"words %d" % number))
    with pytest.raises(RuntimeError):
        sandbox.send(job(b"words"))


def test_a_child_that_speaks_unasked_is_killed(scripted: Any) -> None:
    reading = scripted(
        "child.next_job = lambda pipes, desk: child.write_all(pipes.answers, child.pack({}))"
    )
    with pytest.raises(ChildDied, match=r"without a job|more than one answer"):
        reading.until_ready() and reading.answer()


def test_the_child_writes_no_files_and_dumps_no_core(
    scripted: Any, job: MakeJob, tmp_path: Path
) -> None:
    target = tmp_path / "written"
    reading = scripted(doing(f"os.write(os.open({str(target)!r}, os.O_CREAT | os.O_WRONLY), b'x')"))
    sandbox = reading.until_ready()
    limits = Path(f"/proc/{sandbox.pid}/limits").read_text()
    assert "Max core file size        0 " in limits
    assert "Max file size             0 " in limits
    sandbox.send(job(b"words"))
    assert isinstance(parse_answer(reading.answer().raw), Failed)
    assert not target.exists() or not target.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a locked process")
def test_the_child_sees_little_of_its_parent(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_SECRET", "x")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    sandbox = start(Sandbox()).until_ready()
    names = {
        entry.partition(b"=")[0]
        for entry in Path(f"/proc/{sandbox.pid}/environ").read_bytes().split(b"\0")
    }
    assert names - {b""} == {
        *(b"PATH", b"LANG", b"HOME"),
        *(b"OMP_THREAD_LIMIT", b"RAYON_NUM_THREADS", b"MALLOC_ARENA_MAX"),
    }
    assert os.readlink(f"/proc/{sandbox.pid}/cwd") == "/"  # noqa: PTH115 - of another process
    assert len(os.listdir(f"/proc/{sandbox.pid}/fd")) <= 5  # noqa: PTH208


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a locked process")
def test_the_child_finds_modules_where_its_parent_does(
    start: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"here{os.pathsep}/there")
    sandbox = start(Sandbox()).until_ready()
    environment = Path(f"/proc/{sandbox.pid}/environ").read_bytes().split(b"\0")
    assert f"PYTHONPATH={tmp_path}/here{os.pathsep}/there".encode() in environment


def test_signals_meant_for_the_parent_do_not_end_the_child(start: Any, job: MakeJob) -> None:
    reading = start()
    sandbox = reading.until_ready()
    os.kill(sandbox.pid, signal.SIGTERM)
    os.kill(sandbox.pid, signal.SIGINT)
    sandbox.send(job(b"words"))
    assert isinstance(parse_answer(reading.answer().raw), Extraction)


@short_in_make_test
def test_closing_ends_an_idle_child_by_asking_and_a_stuck_one_by_force(
    start: Any, scripted: Any, job: MakeJob
) -> None:
    idle = start().until_ready()
    idle.close()
    assert idle.process.returncode == 0
    stuck = scripted(doing("while True: pass")).until_ready()
    stuck.send(job(b"words"))
    stuck.close()
    assert stuck.process.returncode == -signal.SIGKILL


def test_the_child_reports_a_missing_library(start: Any) -> None:
    reading = start(Scripted("sys.modules['pypdfium2'] = None", spawned=True))
    with pytest.raises(MissingExtra, match=r"pip install .*\[documents\]"):
        reading.until_ready()


PARENT = """
import selectors, sys
from fairlead.worker.sandbox.process import Sandbox
sandbox = Sandbox()
sandbox.start()
with selectors.DefaultSelector() as selector:
    selector.register(sandbox, selectors.EVENT_READ)
    while not sandbox.ready:
        selector.select()
        sandbox.receive()
    print(sandbox.pid, flush=True)
    sys.stdin.read()
"""


def test_the_parents_death_is_the_childs() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        pidfd = os.pidfd_open(pid)
        # A stopped child cannot notice that its input ended: only the kernel's kill reaches it.
        os.kill(pid, signal.SIGSTOP)
        parent.kill()
        assert ends(pidfd)


def test_a_picture_on_its_side_is_read(start: Any) -> None:
    """Tesseract crashed: it opens a file for messages, and the sandbox refuses that."""
    need_languages("eng", "osd")
    image = Image.new("L", (1_240, 400), 255)
    words = "The invoice is due on the first of May.\nPlease pay it to the account below."
    draw = ImageDraw.Draw(image)
    draw.multiline_text((60, 90), words, font=ImageFont.load_default(44), fill=0, spacing=20)
    image.rotate(90, expand=True).save(buffer := io.BytesIO(), "PNG")
    reading = start()
    content = buffer.getvalue()
    reading.until_ready().send(ReadJob(content, hashlib.sha256(content).hexdigest()))
    assert text_of(reading.answer()) == words
