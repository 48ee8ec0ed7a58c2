"""The process that reads documents: one job after another, sandboxed, until its input ends.

Run by the fork server or as `python -P -s -B -m fairlead.worker.sandbox.child` with the arguments
MEMORY PARENT_PID JOB_DIR best|strict LIMITS.
Jobs arrive on its standard input, answers leave on its standard output, in the format of
`fairlead.worker.sandbox.protocol`. The document of each job is a file in the job directory.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairlead.errors import MissingExtra
from fairlead.read import JSON, CannotRead, Extracted, Part, ReadLimits, extract, readers
from fairlead.worker.sandbox.locks import (
    NO_LANDLOCK,
    NO_SECCOMP,
    lock_calls,
    lock_files,
    lock_process,
)
from fairlead.worker.sandbox.protocol import (
    HEADER,
    pack,
    pack_part,
    pack_progress,
    pack_which,
    read_exactly,
    write_all,
)

PROGRESS_SECONDS = 0.25
"""How often progress is told at most."""
COLLECT_AFTER = 10_000
"""New objects after which Python looks for garbage: less often than usual, as a document leaves
little behind, and the process does not live long."""


class Pipes(NamedTuple):
    """The descriptors that carry jobs in and answers out."""

    jobs: int
    answers: int


class Job(NamedTuple):
    """A document by its number on the desk, the hash its bytes must have, and what opens it."""

    document: int
    path: Path
    sha256: str
    password: str | None


def main(
    memory: int, parent: int, job_dir: Path, *, limits: ReadLimits, strict: bool = False
) -> int:
    """Serve jobs until input ends; the return value is the exit code."""
    gc.set_threshold(COLLECT_AFTER)
    pipes = take_pipes()
    # Built before it is needed: at that moment there may be no memory to do so.
    out_of_memory = failure(
        "memory-limit", f"Reading it needed more than {memory / 1e6:,.0f} MB of memory."
    )
    try:
        missing = lock(memory, parent, job_dir)
    except MissingExtra as error:
        return refuse(pipes, "extra", str(error))
    if strict and missing:
        return refuse(pipes, "sandbox", "; ".join(missing))
    write_all(pipes.answers, pack({"ready": True}))
    while (job := next_job(pipes, job_dir)) is not None:
        began, no_time = time.monotonic(), pack_which(job.document, 0.0)
        reply = answer(job, limits, pipes, out_of_memory)
        if reply is out_of_memory:
            write_all(pipes.answers, no_time)
            write_all(pipes.answers, reply)
            return 1  # what a library left behind in that state is not to be trusted
        write_all(pipes.answers, pack_which(job.document, time.monotonic() - began) + reply)
    return 0


def take_pipes() -> Pipes:
    """Keep the two pipes privately: what a library prints goes nowhere."""
    pipes = Pipes(os.dup(0), os.dup(1))
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return pipes


def lock(memory: int, parent: int, job_dir: Path) -> list[str]:
    """Import the libraries, and turn all keys; return which locks there are not.

    Files are locked first, as a library may start a thread when it is imported, and Landlock
    holds for threads that come after it. The filter of calls holds for all, also for those that
    are there.
    """
    lock_process(memory, parent)
    has_files = lock_files(job_dir, os.environ)
    readers()
    has_calls = lock_calls()
    locks = (NO_LANDLOCK, has_files), (NO_SECCOMP, has_calls)
    return [name for name, is_locked in locks if not is_locked]


def refuse(pipes: Pipes, why: str, detail: str) -> int:
    """Tell the parent that this child will not serve; return the exit code."""
    write_all(pipes.answers, pack({"ready": False, "why": why, "detail": detail}))
    return 1


def next_job(pipes: Pipes, job_dir: Path) -> Job | None:
    """The next job; None when input ends."""
    header = read_exactly(pipes.jobs, HEADER.size)
    body = read_exactly(pipes.jobs, HEADER.unpack(header)[1]) if header else None
    if body is None:
        return None
    message = json.loads(body)
    document = message["document"]
    return Job(document, job_dir / str(document), message["sha256"], message["password"])


def answer(job: Job, limits: ReadLimits, pipes: Pipes, out_of_memory: bytes) -> bytes:
    """What became of a job, packed. Every failure of a library becomes an answer."""
    try:
        found = run(job, limits, reporter(pipes))
        send_parts(found.parts, pipes)
        return pack(described(found))
    except CannotRead as error:
        if error.__cause__:
            report()
        return failure(error.code, error.detail, error.kind)
    except MemoryError:
        return out_of_memory
    except BaseException:  # a panic of a Rust library is no Exception
        report()
        return failure("damaged", "The document is damaged and could not be read.")


def run(job: Job, limits: ReadLimits, on_progress: Callable[[int, int], None]) -> Extracted:
    """Check that the bytes are the accepted ones, then read them."""
    check_bytes(job)
    return extract(job.path, limits=limits, password=job.password, on_progress=on_progress)


def check_bytes(job: Job) -> None:
    """Raise CannotRead("corrupt") unless the file holds the bytes that were accepted."""
    try:
        with job.path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        detail = "The stored bytes of the document are missing or cannot be read."
        raise CannotRead("corrupt", detail) from error
    if actual != job.sha256:
        detail = "The stored bytes of the document are not those that were accepted."
        raise CannotRead("corrupt", detail)


def reporter(pipes: Pipes) -> Callable[[int, int], None]:
    """What a reader calls with its pages; it tells the parent now and then."""
    told = time.monotonic()

    def on_progress(done: int, pages: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now >= told + PROGRESS_SECONDS:
            told = now
            write_all(pipes.answers, pack_progress(done, pages))

    return on_progress


def send_parts(parts: tuple[Part, ...], pipes: Pipes) -> None:
    """Hand over the files that were found inside the document."""
    for part in parts:
        write_all(pipes.answers, pack_part(part.name, part.content))


def described(found: Extracted) -> Mapping[str, Any]:
    """An answer that has the text."""
    return {
        "kind": found.kind,
        "text": found.text,
        "markdown": found.markdown,
        "facts": found.facts,
    }


def failure(code: str, detail: str, kind: str | None = None) -> bytes:
    """An answer that says why there is no text."""
    message: dict[str, JSON] = {"error": code, "detail": detail, "kind": kind}
    return pack(message)


def report() -> None:
    """The operator's cause goes to standard error; where that fails, it is lost."""
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc(limit=20)
        sys.stderr.flush()


def read_limits(text: str) -> ReadLimits:
    """What reading a document may yield, as the parent has written it."""
    values = json.loads(text)
    return ReadLimits(**values | {"languages": tuple(values["languages"])})


def run_as(memory: str, parent: str, job_dir: str, manner: str, limits: str) -> int:
    """Be the child that these words ask for; they are the command line's."""
    return main(
        *(int(memory), int(parent), Path(job_dir)),
        limits=read_limits(limits),
        strict=manner == "strict",
    )


if __name__ == "__main__":
    sys.exit(run_as(*sys.argv[1:]))
