"""What a document would do that had taken over the process that reads it.

Loaded into a real child before it locks itself in. A document whose text begins with "hostile:"
names one of the behaviours below and its argument; any other is read as ever. What a behaviour
returns, or how it was refused, becomes the text of the document.
"""

# A behaviour returns whatever its call does, and the child is changed from outside:
# mypy: disable-error-code="func-returns-value, attr-defined"

from __future__ import annotations

import _thread
import contextlib
import ctypes
import fcntl
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.read import Extracted
from fairlead.worker.sandbox import child
from fairlead.worker.sandbox.protocol import HEADER, Tag, frame, pack, pack_part, pack_progress

MARK = "hostile:"
PARENT = os.getppid()
honest = child.extract
libc = ctypes.CDLL(None, use_errno=True)
IS_X86 = platform.machine() == "x86_64"
pipes: list[child.Pipes] = []


def extract(path: Path, **how: Any) -> Extracted:
    text = path.read_bytes()[:4096].decode("utf-8", "replace")
    if not text.startswith(MARK):
        return honest(path, **how)
    name, _, argument = text.removeprefix(MARK).partition(" ")
    return Extracted("text", attempt(BEHAVIOURS[name], argument), None, {})


def attempt(behaviour: Callable[[str], object], argument: str) -> str:
    try:
        return f"done: {behaviour(argument)!r}"
    except OSError as error:
        return f"refused: {error.strerror}"
    except ValueError as error:  # Python's word for a limit that may not be raised
        return f"refused: {error}"


def install(*, unlocked: bool) -> None:
    take = child.take_pipes

    def take_pipes() -> child.Pipes:
        pipes[:] = [take()]  # those of the fork server are not its child's
        return pipes[0]

    child.take_pipes = take_pipes
    child.extract = extract
    if unlocked:
        child.lock_process = lambda memory, parent: None
        child.lock_files = lambda job_dir, models: True
        child.lock_calls = lambda: True


def write(data: bytes) -> None:
    """To the parent, past all rules."""
    child.write_all(pipes[0].answers, data)


def call(x86: int, arm: int, *arguments: Any) -> int:
    result = int(libc.syscall(ctypes.c_long(x86 if IS_X86 else arm), *arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# --- network ---


def tcp(port: str) -> object:
    return socket.create_connection(("127.0.0.1", int(port)), 5).send(b"stolen")


def udp(port: str) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"stolen", ("127.0.0.1", int(port)))


def unix(path: str) -> object:
    with socket.socket(socket.AF_UNIX) as sender:
        sender.connect(path.replace("@", "\0"))
        return sender.send(b"stolen")


def netlink(_: str) -> object:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).fileno()


def pair(_: str) -> object:
    return len(socket.socketpair())


# --- files ---


def read_file(path: str) -> object:
    return Path(path.replace("PARENT", str(PARENT))).read_bytes()[:20]


def list_folder(path: str) -> object:
    return sorted(entry.name for entry in Path(path).iterdir())


def write_file(path: str) -> object:
    return Path(path).expanduser().write_bytes(b"customer's text")


def make_empty(path: str) -> object:
    return os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def make_folder(path: str) -> object:
    return Path(path).mkdir()


def remove(path: str) -> object:
    return Path(path).unlink()


def rename(path: str) -> object:
    return Path(path).rename(path + ".stolen")


def link(path: str) -> object:
    return Path(path + ".stolen").symlink_to(path)


def truncate(path: str) -> object:
    return os.truncate(path, 0)


def change_mode(path: str) -> object:
    return Path(path).chmod(0o777)


def memory_file(_: str) -> object:
    return os.memfd_create("room")


# --- processes ---


def fork(_: str) -> object:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def spawn(_: str) -> object:
    return subprocess.run(["/bin/true"], check=True).returncode


def execute(_: str) -> object:
    os.execv("/bin/true", ["true"])


def execute_memory(_: str) -> object:
    return call(322, 281, 0, b"/bin/true", None, None, 0x1000)


def kill_parent(_: str) -> object:
    return os.kill(PARENT, signal.SIGKILL)


def kill_all(_: str) -> object:
    return os.kill(-1, 0)


def kill_thread(_: str) -> object:
    return call(200, 130, PARENT, signal.SIGKILL)


def queue_signal(_: str) -> object:
    info = ctypes.create_string_buffer(128)
    return call(129, 138, PARENT, signal.SIGKILL, info)


def kill_by_descriptor(_: str) -> object:
    return signal.pidfd_send_signal(os.pidfd_open(PARENT), signal.SIGKILL)


def kill_by_pipe(_: str) -> object:
    """The kernel signals the owner of a pipe when there is something to read."""
    here, there = os.pipe()
    fcntl.fcntl(here, fcntl.F_SETOWN, PARENT)
    fcntl.fcntl(here, 10, signal.SIGKILL)
    fcntl.fcntl(here, fcntl.F_SETFL, os.O_ASYNC)
    return os.write(there, b"!")


def trace_parent(_: str) -> object:
    return call(101, 117, 16, PARENT, 0, 0)


def read_parent(_: str) -> object:
    room = ctypes.create_string_buffer(64)
    return call(310, 270, PARENT, room, 1, room, 1, 0)


def limit_parent(_: str) -> object:
    return resource.prlimit(PARENT, resource.RLIMIT_NOFILE, (3, 3))


def raise_limit(_: str) -> object:
    return resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY,) * 2)


def outlive_parent(_: str) -> object:
    if libc.prctl(1, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "outlives"


def raw_call(numbers: str) -> object:
    """Any system call, with arguments that do nothing."""
    x86, arm = map(int, numbers.split(","))
    return call(x86, arm, 0, 0, 0, 0, 0, 0)


def take_over(_: str) -> object:
    """Change what this process answers from now on, and tell what it has read since."""
    seen: list[str] = []

    def changed(path: Path, **_how: Any) -> Extracted:
        seen.append(path.read_text())
        return Extracted("text", f"changed after {seen}", None, {})

    child.extract = changed
    return os.getpid()


def environment(_: str) -> object:
    return sorted(os.environ)


def descriptors(_: str) -> object:
    return [number for number in range(64) if _is_open(number)]


def _is_open(number: int) -> bool:
    with contextlib.suppress(OSError):
        os.fstat(number)
        return True
    return False


# --- slow, but honest ---


def turn_pages(number: str) -> object:
    tell = child.reporter(pipes[0])
    for page in range(int(number)):
        tell(page, int(number))
        time.sleep(0.1)
    return number


# --- what never ends, or ends badly ---


def sleep(_: str) -> object:
    while True:
        time.sleep(1000)


def sleep_deaf(_: str) -> object:
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    return sleep(_)


def burn(_: str) -> object:
    while True:
        pass


def burn_deaf(_: str) -> object:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    return burn(_)


def fill_memory(_: str) -> object:
    return [bytearray(10_000_000) for _ in iter(int, 1)]


def start_threads(_: str) -> object:
    started = 0
    with contextlib.suppress(RuntimeError):
        for _each in range(100_000):
            _thread.start_new_thread(time.sleep, (1000,))  # one that cannot begin is not waited for
            started += 1
    return started


def close_pipes(_: str) -> object:
    os.closerange(0, 64)
    return sleep(_)


def leave(code: str) -> object:
    os._exit(int(code))


def crash(_: str) -> object:
    return ctypes.string_at(0)


def system_exit(_: str) -> object:
    sys.exit(0)


def interrupt(_: str) -> object:
    raise KeyboardInterrupt


class Panic(BaseException):
    """As libraries in Rust raise it."""


def panic(_: str) -> object:
    raise Panic


# --- forged answers ---

FORGED = pack({"kind": "text", "text": "forged", "markdown": None, "facts": {}})


def two_answers(_: str) -> object:
    return write(FORGED * 2)


def answer_and_more(_: str) -> object:
    return write(FORGED + pack_progress(1, 2))


def giant_length(_: str) -> object:
    return write(HEADER.pack(Tag.MESSAGE, 2**32 - 1))


def unknown_tag(_: str) -> object:
    return write(HEADER.pack(77, 1) + b"x")


def deep_json(_: str) -> object:
    write(frame(Tag.MESSAGE, b'{"a":' * 200_000))
    return sleep(_)


def wrong_progress(_: str) -> object:
    return write(frame(Tag.PROGRESS, b"short"))


def flood_of_progress(_: str) -> object:
    while True:
        write(pack_progress(1, 2) * 1000)


def flood_of_parts(_: str) -> object:
    while True:
        write(pack_part("a.txt", b"") * 100)


def large_parts(_: str) -> object:
    while True:
        write(pack_part("a.txt", bytes(10_000_000)))


def odd_part(name: str) -> object:
    return write(pack_part(name, b"x"))


def endless_output(_: str) -> object:
    write(HEADER.pack(Tag.MESSAGE, 1_000_000))
    while True:
        write(bytes(1_000_000))


BEHAVIOURS: dict[str, Callable[[str], object]] = {
    behaviour.__name__: behaviour
    for behaviour in list(globals().values())
    if callable(behaviour) and getattr(behaviour, "__module__", "") == __name__
}
