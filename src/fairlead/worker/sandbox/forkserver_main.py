"""The fork server: a process that has imported the libraries and forks children to read documents.

Starting Python and importing the libraries takes as long as reading dozens of documents. A forked
child is ready at once, so children can be replaced often. The fork server itself opens no document.
Run as `python -P -s -B -m fairlead.worker.sandbox.forkserver_main PARENT_PID`;
`fairlead.worker.sandbox.forkserver` starts it and talks to it.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from fairlead.errors import MissingExtra
from fairlead.read import readers
from fairlead.worker.sandbox import child
from fairlead.worker.sandbox.landlock import rules
from fairlead.worker.sandbox.rlimits import die_with
from fairlead.worker.sandbox.seccomp import prepare_filter
from fairlead.worker.sandbox.warmup import warm_up

MAX_REQUEST_BYTES = 65_536


def main(parent: int) -> int:
    pipes = child.take_pipes()
    os.close(pipes.answers)
    requests = socket.socket(fileno=pipes.jobs)
    die_with(parent)
    with suppress(MissingExtra):  # each child reports a missing library itself
        readers()
        warm_up()
    rules(os.environ.get("TESSDATA_PREFIX"))
    prepare_filter()
    gc.collect()
    gc.freeze()  # so that a garbage collection in a child leaves these pages shared
    while True:
        packet, descriptors, _flags, _sender = socket.recv_fds(requests, MAX_REQUEST_BYTES, 2)
        if not packet:
            return 0
        reply = _serve(json.loads(packet), requests, descriptors)
        requests.send(json.dumps(reply).encode())


def _serve(
    request: dict[str, Any], requests: socket.socket, descriptors: list[int]
) -> int | list[int] | None:
    """The pid of a new child; or the exit code of a child and its peak memory in kilobytes."""
    if "wait" in request:
        _pid, status, usage = os.wait4(request["wait"], 0)
        return [os.waitstatus_to_exitcode(status), usage.ru_maxrss]
    try:
        return _fork(request["fork"], requests, descriptors) if _may_fork() else None
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _may_fork() -> bool:
    """Whether no other thread runs: a lock that one holds would stay locked in the child."""
    return len(list(Path("/proc/self/task").iterdir())) == 1


def _fork(arguments: list[str], requests: socket.socket, descriptors: list[int]) -> int | None:
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:  # too many processes, or no memory; the other children keep running
        return None
    if pid == 0:
        _run_child(parent, arguments, requests, descriptors)
    return pid


def _run_child(
    parent: int, arguments: list[str], requests: socket.socket, descriptors: list[int]
) -> NoReturn:
    """Run the child, with its pipes as standard input and output. Never returns."""
    code = 1
    try:
        requests.close()
        os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        memory, _parent, *others = arguments
        code = child.run_as(memory, str(parent), *others)
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
