"""The process that opens documents: one job after another, under limits, until input ends.

Run as `python -P -s -B -m fairlead.work.child MEMORY_BYTES PARENT_PID`. It reads jobs from its
standard input and writes answers to its standard output; `fairlead.work.wire` has the format.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import math
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import NamedTuple

from fairlead.errors import MissingExtra
from fairlead.work.extract import JSON, CannotRead, ReadLimits, extract, readers
from fairlead.work.wire import HEADER, pack, read_exactly, write_all

_PR_SET_PDEATHSIG = 1
_OPEN_FILES = 64
# Ready before they are needed: at that moment there may be no memory to build them.
_OUT_OF_MEMORY = pack(
    {
        "error": "memory-limit",
        "detail": "Reading the document needed more memory than is allowed.",
        "kind": None,
    }
)


class Pipes(NamedTuple):
    """The descriptors that carry jobs in and answers out."""

    jobs: int
    answers: int


def main(memory: int, parent: int) -> int:
    """Serve jobs until input ends; the return value is the exit code."""
    pipes = take_pipes()
    die_with(parent)
    set_limits(memory)
    try:
        readers()
    except MissingExtra as error:
        write_all(pipes.answers, pack({"ready": False, "detail": str(error)}))
        return 1
    write_all(pipes.answers, pack({"ready": True}))
    while (job := next_job(pipes)) is not None:
        reply = answer(job)
        write_all(pipes.answers, reply)
        if reply is _OUT_OF_MEMORY:
            return 1  # what a library left behind in that state is not to be trusted
    return 0


def take_pipes() -> Pipes:
    """Keep the two pipes privately: what a library prints goes nowhere."""
    pipes = Pipes(os.dup(0), os.dup(1))
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return pipes


def die_with(parent: int) -> None:
    """Let the parent alone decide when this process ends, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have ended before the line above.
    if os.getppid() != parent:
        sys.exit(1)


def set_limits(memory: int) -> None:
    """Bound memory and open files; no core dumps, no writing to files."""
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)  # noqa: PLW2901
        resource.setrlimit(limit, (value, value))


def limit_cpu(seconds: int) -> None:
    """From now on this much processor time; the kernel ends the process that uses more."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(usage.ru_utime + usage.ru_stime) + seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def next_job(pipes: Pipes) -> dict[str, JSON] | None:
    """The next job; None when input ends."""
    header = read_exactly(pipes.jobs, HEADER.size)
    body = read_exactly(pipes.jobs, HEADER.unpack(header)[0]) if header else None
    if body is None:
        return None
    job: dict[str, JSON] = json.loads(body)
    return job


def answer(job: dict[str, JSON]) -> bytes:
    """What became of a job, packed. Every failure of a library becomes an answer."""
    try:
        return pack(run(job))
    except CannotRead as error:
        if error.__cause__:
            report()
        return failure(error.code, error.detail, error.kind)
    except MemoryError:
        return _OUT_OF_MEMORY
    except Exception:
        report()
        return failure("damaged", "The document is damaged and could not be read.")


def run(job: dict[str, JSON]) -> dict[str, JSON]:
    """Check that the bytes are the accepted ones, then read them."""
    path = Path(str(job["path"]))
    limit_cpu(int(str(job["cpu_seconds"])))
    check_bytes(path, str(job["sha256"]))
    found = extract(path, limits=ReadLimits(characters=int(str(job["max_characters"]))))
    return {"kind": found.kind, "text": found.text, "facts": found.facts}


def check_bytes(path: Path, sha256: str) -> None:
    """Raise CannotRead("corrupt") unless the file holds the bytes that were accepted."""
    try:
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        detail = "The stored bytes of the document are missing or cannot be read."
        raise CannotRead("corrupt", detail) from error
    if actual != sha256:
        detail = "The stored bytes of the document are not those that were accepted."
        raise CannotRead("corrupt", detail)


def failure(code: str, detail: str, kind: str | None = None) -> bytes:
    """An answer that says why there is no text."""
    return pack({"error": code, "detail": detail, "kind": kind})


def report() -> None:
    """The operator's cause goes to standard error; where that fails, it is lost."""
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc(limit=20)
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
