"""Steps that fail in every way, through a whole engine: a clear end each, and nobody else hurt."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stepkit import write_module

from fairlead import Fairlead
from fairlead.model.states import State

pytestmark = [pytest.mark.services, pytest.mark.full]

STEPS = """
import ctypes, os, sys, threading
from fairlead import Refuse, Result, RetryLater, step

@step(attempts=2, timeout=3, memory_limit=300_000_000, concurrency=2, retry_for=0.01)
def any_of_them(job):
    return globals()[job.name.removesuffix(".txt")](job)

def good(job):
    return Result(text=job.text.upper(), data={"customer": job.customer}, files={"a.txt": b"a"})

def hangs(job): threading.Event().wait()
def exits(job): os._exit(3)
def segfault(job): ctypes.string_at(0)
def leaks(job):
    kept = [b"x" * 50_000_000 for _ in range(10)]
    threading.Event().wait()
def forks(job):
    if os.fork() == 0:
        threading.Event().wait()
    os._exit(9)
def raises(job): raise ValueError("no such thing")
def system_exit(job): sys.exit(3)
def interrupt(job): raise KeyboardInterrupt
def recursion(job): return recursion(job)
def memory_error(job): raise MemoryError
def later(job): raise RetryLater(60)
def a_set(job): return {1, 2}
def outside(job): return Result(files={"../../large": b"x"})
def unknown(job): return Result(parts=[("a.txt", b"a", "no-such-pipeline")])
def too_much(job):
    path = job.path.parent / "large"
    with path.open("wb") as file:
        file.truncate(101_000_000)
    return Result(files={"large": path})
def refuses(job): raise Refuse("no-total", "No total was found.")
"""

CAUSES = {
    "hangs": "longer than 3 s",
    "exits": "exit code 3",
    "segfault": "SIGSEGV",
    "leaks": "bytes of memory",
    "forks": "exit code 9",
    "raises": "ValueError: no such thing",
    "system_exit": "SystemExit",
    "interrupt": "KeyboardInterrupt",
    "recursion": "RecursionError",
    "memory_error": "MemoryError",
    "later": "retry_for",
    "a_set": "set",
    "outside": "../../large",
    "unknown": "no-such-pipeline",
    "too_much": "100,000,000",
}


def test_every_bad_step_has_a_clear_end_and_hurts_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(tmp_path, STEPS, "hostile_steps")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    settings = {"retry_delay": 0.01, "workers": 2}
    steps = ["read", "hostile_steps:any_of_them"]
    with Fairlead(tmp_path / "data", settings=settings, steps=steps) as fairlead:
        bad, good = {}, []
        for name in CAUSES:
            bad[name] = fairlead.submit("mallory", b"words", name=f"{name}.txt")
            good += [fairlead.submit("acme", b"words", name="good.txt") for _ in range(3)]
        refused = fairlead.submit("mallory", b"words", name="refuses.txt")
        fairlead.run_until_idle()

        for name, document in bad.items():
            ended = fairlead.document(document.id)
            assert (name, ended.state, ended.error) == (name, State.FAILED, "step-failed")
            assert CAUSES[name] in (fairlead.cause(document.id) or ""), name
            assert CAUSES[name] not in (ended.detail or ""), "that is the operator's"
        ended = fairlead.document(refused.id)
        assert (ended.error, ended.detail) == ("no-total", "No total was found.")

        for document in good:
            done = fairlead.document(document.id)
            assert (done.state, done.attempts) == (State.DONE, 1)
            result = fairlead.result(document.id)
            assert (result.text, result.data) == ("WORDS", {"customer": "acme"})
            assert result.file("a.txt") == b"a"
        assert fairlead.store.problems() == []
        assert fairlead.store.interim_keys() == set()
        assert [path for path in fairlead.folder.job_dirs.rglob("*") if path.is_file()] == []
        assert not (tmp_path / "large").exists()
