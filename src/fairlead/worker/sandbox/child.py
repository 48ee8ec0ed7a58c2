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
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fairlead.errors import MissingExtra
from fairlead.read import CannotRead, ReadLimits, extract, readers
from fairlead.worker.sandbox.kernel_features import NO_LANDLOCK, NO_SECCOMP
from fairlead.worker.sandbox.landlock import lock_files
from fairlead.worker.sandbox.limits import out_of_memory
from fairlead.worker.sandbox.protocol import (
    HEADER,
    Tag,
    pack,
    pack_part,
    pack_progress,
    pack_which,
    read_exactly,
    write_all,
)
from fairlead.worker.sandbox.rlimits import lock_process
from fairlead.worker.sandbox.seccomp import lock_calls

PROGRESS_SECONDS = 0.25
COLLECT_AFTER = 10_000  # new objects before a garbage collection; documents leave little behind


class Pipes(NamedTuple):
    """The descriptors that carry jobs in and answers out."""

    jobs: int
    answers: int


class ReceivedJob(NamedTuple):
    """A job as the child receives it: the number of a file in the job directory, and options."""

    document: int
    path: Path
    sha256: str
    password: str | None
    outputs: tuple[str, ...]


def main(
    memory: int, parent: int, job_dir: Path, *, limits: ReadLimits, strict: bool = False
) -> int:
    gc.set_threshold(COLLECT_AFTER)
    pipes = take_pipes()
    # Built in advance: when it is needed, there may be no memory left for it.
    memory_limit = failure("memory-limit", out_of_memory(memory))
    try:
        missing = lock(memory, parent, job_dir)
    except MissingExtra as error:
        return refuse(pipes, "extra", str(error))
    if strict and missing:
        return refuse(pipes, "sandbox", "; ".join(missing))
    write_all(pipes.answers, pack({"ready": True}))
    while (job := next_job(pipes, job_dir)) is not None:
        began, no_time = time.monotonic(), pack_which(job.document, 0.0)
        reply = answer(job, limits, pipes, memory_limit)
        if reply is memory_limit:
            write_all(pipes.answers, no_time)
            write_all(pipes.answers, reply)
            return 1  # a library may be in an undefined state after that
        write_all(pipes.answers, pack_which(job.document, time.monotonic() - began) + reply)
    return 0


def take_pipes() -> Pipes:
    """Take the two pipes away from libraries, whose output goes to /dev/null."""
    pipes = Pipes(os.dup(0), os.dup(1))
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return pipes


def lock(memory: int, parent: int, job_dir: Path) -> list[str]:
    """Import the libraries and apply all locks; return the locks that the kernel lacks.

    Landlock must come first: a library may start a thread when it is imported, and Landlock applies
    only to threads that start after it. The seccomp filter applies to all threads.
    """
    lock_process(memory, parent)
    has_files = lock_files(job_dir, os.environ.get("TESSDATA_PREFIX"))
    readers()
    has_calls = lock_calls()
    locks = (NO_LANDLOCK, has_files), (NO_SECCOMP, has_calls)
    return [name for name, is_locked in locks if not is_locked]


def refuse(pipes: Pipes, why: str, detail: str) -> int:
    write_all(pipes.answers, pack({"ready": False, "why": why, "detail": detail}))
    return 1


def next_job(pipes: Pipes, job_dir: Path) -> ReceivedJob | None:
    header = read_exactly(pipes.jobs, HEADER.size)
    body = read_exactly(pipes.jobs, HEADER.unpack(header)[1]) if header else None
    if body is None:
        return None
    message = json.loads(body)
    document = message["document"]
    outputs = tuple(message["outputs"])
    path = job_dir / str(document)
    return ReceivedJob(document, path, message["sha256"], message["password"], outputs)


def answer(job: ReceivedJob, limits: ReadLimits, pipes: Pipes, memory_limit: bytes) -> bytes:
    """The answer to a job. Every failure of a library becomes an answer."""
    try:
        check_bytes(job)
        extracted = extract(
            job.path,
            limits=limits,
            password=job.password,
            on_progress=reporter(pipes),
            outputs=job.outputs,
            on_file=file_sender(pipes),
        )
        for part in extracted.parts:
            write_all(pipes.answers, pack_part(part.name, part.content))
        return pack(
            {
                "kind": extracted.kind,
                "text": extracted.text,
                "markdown": extracted.markdown,
                "facts": extracted.facts,
            }
        )
    except CannotRead as error:
        if error.__cause__:
            report()
        return failure(error.code, error.detail, error.kind)
    except MemoryError:
        return memory_limit
    except BaseException:  # a panic of a Rust library is not an Exception
        report()
        return failure("damaged", "The document is damaged and could not be read.")


def check_bytes(job: ReceivedJob) -> None:
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
    """A callback for readers that reports progress to the parent, four times a second."""
    reported = time.monotonic()

    def on_progress(done: int, pages: int) -> None:
        nonlocal reported
        now = time.monotonic()
        if now >= reported + PROGRESS_SECONDS:
            reported = now
            write_all(pipes.answers, pack_progress(done, pages))

    return on_progress


def file_sender(pipes: Pipes) -> Callable[[str, bytes], None]:
    """A callback for readers that sends an output at once, so that it does not stay in memory."""

    def on_file(name: str, content: bytes) -> None:
        write_all(pipes.answers, pack_part(name, content, Tag.FILE))

    return on_file


def failure(code: str, detail: str, kind: str | None = None) -> bytes:
    return pack({"error": code, "detail": detail, "kind": kind})


def report() -> None:
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc(limit=20)
        sys.stderr.flush()


def run_as(memory: str, parent: str, job_dir: str, mode: str, limits: str) -> int:
    values = json.loads(limits)
    read = ReadLimits(**values | {"languages": tuple(values["languages"])})
    return main(int(memory), int(parent), Path(job_dir), limits=read, strict=mode == "strict")


if __name__ == "__main__":
    sys.exit(run_as(*sys.argv[1:]))
