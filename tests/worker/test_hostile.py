"""A document that has taken over its reader: what it can do, and above all what it cannot."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hostilekit import HostileSandbox

from fairlead.model.documents import Broken, Failed
from fairlead.read import ReadLimits
from fairlead.worker.sandbox.answer import Extraction, parse_answer
from fairlead.worker.sandbox.kernel_features import missing
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import ChildDied, ReadJob

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(bool(missing()), reason=f"this machine lacks {missing()}"),
]

Outcome = Extraction | Failed | Broken
SMALL = SandboxLimits(
    seconds=2.0, read=ReadLimits(characters=10_000, unpacked_bytes=1_000_000, members=9)
)


class Doer:
    """Gives hostile documents to a child, and replaces one that died."""

    def __init__(self, start: Any, folder: Path, limits: SandboxLimits, **manner: bool) -> None:
        self._start, self._limits, self._manner = start, limits, manner
        self._path = folder / "hostile-document"
        self._reading: Any = None

    def __call__(self, behaviour: str, argument: object = "") -> Outcome:
        content = f"hostile:{behaviour} {argument}".encode()
        self._path.write_bytes(content)
        if self._reading is None or not self._reading.sandbox.ready:
            self._reading = self._start(HostileSandbox(self._limits, **self._manner))
            self._reading.until_ready()
        self._reading.sandbox.send(ReadJob(self._path, hashlib.sha256(content).hexdigest()))
        try:
            answer = self._reading.answer()
        except ChildDied as death:
            return Broken(death.code, death.how)
        return parse_answer(answer.raw, answer.parts)

    def text(self, behaviour: str, argument: object = "") -> str:
        outcome = self(behaviour, argument)
        assert isinstance(outcome, Extraction), outcome
        return outcome.text


@pytest.fixture
def do(start: Any, tmp_path: Path) -> Doer:
    """Does it in a child that has locked itself in."""
    return Doer(start, tmp_path, SMALL)


@pytest.fixture
def do_spawned(start: Any, tmp_path: Path) -> Doer:
    """Does it in a locked child that is started now, from this process as it is."""
    return Doer(start, tmp_path, SMALL, spawned=True)


@pytest.fixture
def do_unlocked(start: Any, tmp_path: Path) -> Doer:
    """Does it in a child without any lock: the control that shows what a lock prevents."""
    return Doer(start, tmp_path, SMALL, unlocked=True)


# --- network ---


@pytest.fixture
def tcp() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.fixture
def udp() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        yield listener


def heard(listener: socket.socket) -> bool:
    with suppress(BlockingIOError):
        listener.accept()[0].close() if listener.type == socket.SOCK_STREAM else listener.recv(99)
        return True
    return False


def test_no_tcp(do: Doer, do_unlocked: Doer, tcp: socket.socket) -> None:
    assert do.text("tcp", tcp.getsockname()[1]).startswith("refused")
    assert not heard(tcp)
    assert do_unlocked.text("tcp", tcp.getsockname()[1]) == "done: 6"
    assert heard(tcp)


def test_no_udp(do: Doer, do_unlocked: Doer, udp: socket.socket) -> None:
    assert do.text("udp", udp.getsockname()[1]).startswith("refused")
    assert not heard(udp)
    assert do_unlocked.text("udp", udp.getsockname()[1]) == "done: 6"
    assert heard(udp)


@pytest.mark.parametrize("name", ["@fairlead-test-", "socket"])
def test_no_unix_sockets(do: Doer, do_unlocked: Doer, tmp_path: Path, name: str) -> None:
    address = f"{name}{os.getpid()}" if name[0] == "@" else str(tmp_path / name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address.replace("@", "\0"))
        listener.listen()
        listener.setblocking(False)
        assert do.text("unix", address).startswith("refused")
        assert not heard(listener)
        assert do_unlocked.text("unix", address) == "done: 6"
        assert heard(listener)


@pytest.mark.parametrize("behaviour", ["netlink", "pair"])
def test_no_other_sockets(do: Doer, do_unlocked: Doer, behaviour: str) -> None:
    assert do.text(behaviour) == "refused: Operation not permitted"
    assert do_unlocked.text(behaviour).startswith("done")


# --- files ---


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """Another customer's document, in a folder like a data folder's."""
    path = tmp_path / "files" / "other"
    path.parent.mkdir()
    path.write_bytes(b"treasure")
    return path


@pytest.mark.parametrize("name", ["/etc/passwd", "/proc/PARENT/environ", "/proc/self/environ"])
def test_no_foreign_files(do: Doer, do_unlocked: Doer, name: str) -> None:
    assert do.text("read_file", name).startswith("refused")
    assert do_unlocked.text("read_file", name).startswith("done")


def test_no_other_documents(do: Doer, do_unlocked: Doer, treasure: Path) -> None:
    around = f"/usr/share/../..{treasure}"
    for path in (treasure, around, f"/proc/self/root{treasure}"):
        assert do.text("read_file", path).startswith("refused")
    assert do.text("list_folder", treasure.parent).startswith("refused")
    assert do_unlocked.text("read_file", treasure) == "done: b'treasure'"
    assert do_unlocked.text("list_folder", treasure.parent) == "done: ['other']"


def test_no_writing_anywhere(do: Doer, tmp_path: Path) -> None:
    folders = [str(tmp_path), "/tmp", "/dev/shm", "/var/tmp", "~", "~/.cache", "/usr/share"]
    for folder in folders:
        name = f"{folder}/fairlead-{os.getpid()}"
        for behaviour in ("write_file", "make_empty", "make_folder"):
            assert do.text(behaviour, name).startswith("refused"), (behaviour, name)
        assert not Path(name).expanduser().exists()
    assert do.text("memory_file").startswith("refused")


def test_what_writes_without_locks(do_unlocked: Doer, tmp_path: Path) -> None:
    for behaviour in ("write_file", "make_empty", "make_folder"):
        path = tmp_path / behaviour
        assert do_unlocked.text(behaviour, path).startswith("done")
        assert path.exists()


@pytest.mark.parametrize("behaviour", ["truncate", "change_mode", "link", "rename", "remove"])
def test_no_change_to_files(do: Doer, do_unlocked: Doer, treasure: Path, behaviour: str) -> None:
    before = sorted(treasure.parent.iterdir()), treasure.stat()
    assert do.text(behaviour, treasure).startswith("refused")
    assert (sorted(treasure.parent.iterdir()), treasure.stat()) == before
    assert do_unlocked.text(behaviour, treasure).startswith("done")
    assert (sorted(treasure.parent.iterdir()), treasure.exists() and treasure.stat()) != before


# --- processes ---


@pytest.mark.parametrize("behaviour", ["fork", "spawn"])
def test_no_new_processes(do: Doer, do_unlocked: Doer, behaviour: str) -> None:
    assert do.text(behaviour) == "refused: Operation not permitted"
    assert do_unlocked.text(behaviour) == "done: 0"


@pytest.mark.parametrize("behaviour", ["execute", "execute_memory"])
def test_no_other_programs(do: Doer, behaviour: str) -> None:
    assert do.text(behaviour) == "refused: Operation not permitted"


def test_without_locks_another_program_runs(do_unlocked: Doer) -> None:
    assert do_unlocked("execute") == Broken("crashed", "exit code 0")


def test_no_harm_to_the_parent(do: Doer) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGIO, lambda number, _: received.append(number))
    try:
        for behaviour in (
            *("kill_parent", "kill_all", "kill_thread", "queue_signal", "kill_by_descriptor"),
            *("kill_by_pipe", "trace_parent", "read_parent", "limit_parent", "raise_limit"),
            "outlive_parent",
        ):
            assert do.text(behaviour).startswith("refused"), behaviour
    finally:
        signal.signal(signal.SIGIO, before)
    assert not received


def test_without_locks_others_can_be_reached(do_unlocked: Doer) -> None:
    assert do_unlocked.text("outlive_parent").startswith("done")
    assert do_unlocked.text("kill_all").startswith("done")  # with the signal that only asks


# Numbers on x86_64 and aarch64.
FORBIDDEN = {
    "io_uring_setup": "425,425",
    "io_uring_enter": "426,426",
    "mount": "165,40",
    "fsopen": "430,430",
    "unshare": "272,97",
    "setns": "308,268",
    "keyctl": "250,219",
    "add_key": "248,217",
    "bpf": "321,280",
    "userfaultfd": "323,282",
    "perf_event_open": "298,241",
    "open_by_handle_at": "304,265",
    "personality": "135,92",
    "ptrace": "101,117",
    "process_vm_writev": "311,271",
    "shmget": "29,194",
    "semget": "64,190",
    "msgget": "68,186",
    "mq_open": "240,180",
    "seccomp": "317,277",
    "clone3": "435,435",
    "vfork or clone": "58,220",
    "setuid": "105,146",
    "setsid": "112,157",
    "chroot": "161,51",
    "init_module": "175,105",
    "kexec_load": "246,104",
    "reboot": "169,142",
    "openat2": "437,437",
    "recvmsg": "47,212",
    "process_madvise": "440,440",
    "pidfd_getfd": "438,438",
    "a call of the future": "900,900",
}


def test_no_other_system_calls(do: Doer) -> None:
    errors = ("refused: Operation not permitted", "refused: Function not implemented")
    allowed = [
        name for name, numbers in FORBIDDEN.items() if do.text("raw_call", numbers) not in errors
    ]
    assert not allowed


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the calls of 32 bits are of x86")
def test_no_calls_by_another_numbering(do: Doer) -> None:
    """The numbers of x32 mean other calls, with the same effect."""
    x32 = 0x40000000
    assert do.text("raw_call", f"{x32 + 41},0") == "refused: Function not implemented"


def test_it_knows_no_secrets(do_spawned: Doer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_SECRET", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert "SECRET" not in do_spawned.text("environment")


def test_it_inherits_no_descriptors(do_spawned: Doer, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        assert do_spawned.text("descriptors") == "done: [0, 1, 2, 3, 4]"


# --- what never ends, or ends badly ---


def test_memory_is_bounded(start: Any, tmp_path: Path) -> None:
    do = Doer(start, tmp_path, SandboxLimits(memory=300_000_000))
    outcome = do("fill_memory")
    assert outcome == Broken("memory-limit", "Reading it needed more than 300 MB of memory.")


def test_processor_time_is_bounded(do: Doer) -> None:
    assert do("burn") == Broken("time-limit", "SIGXCPU")


def test_processor_time_of_a_child_that_ignores_the_signal_is_bounded(
    start: Any, tmp_path: Path
) -> None:
    """Safety finding 4: only the soft limit was set, whose signal a child can ignore."""
    do = Doer(start, tmp_path, SandboxLimits(seconds=1.0))
    assert do("burn_deaf") == Broken("time-limit", "SIGKILL")


def test_no_new_threads(do: Doer) -> None:
    """Safety finding 4: threads were bounded only by the memory that they take."""
    assert do.text("start_threads") == "done: 0"


@pytest.mark.parametrize(
    ("behaviour", "how"),
    [
        ("leave", "exit code 0"),
        ("crash", "SIGSEGV"),
        ("close_pipes", "SIGKILL"),
    ],
)
def test_an_end_is_a_crash(do: Doer, behaviour: str, how: str) -> None:
    assert do(behaviour, 0) == Broken("crashed", how)


@pytest.mark.parametrize("behaviour", ["system_exit", "interrupt", "panic"])
def test_what_is_no_exception_is_damage_all_the_same(do: Doer, behaviour: str) -> None:
    outcome = do(behaviour)
    assert isinstance(outcome, Failed)
    assert outcome.code == "damaged"


# --- forged answers ---


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("two_answers", "more than one answer"),
        ("answer_and_more", "more than one answer"),
        ("giant_length", "longer than allowed"),
        ("unknown_tag", "invalid frame"),
        ("wrong_progress", "invalid frame"),
        ("flood_of_progress", "more than allowed"),
        ("flood_of_parts", "more parts than allowed"),
        ("large_parts", "longer than allowed"),
        ("endless_output", "more than one answer|more than allowed|not JSON|another job"),
    ],
)
def test_forged_frames_end_the_child(do: Doer, behaviour: str, words: str) -> None:
    outcome = do(behaviour)
    assert isinstance(outcome, Broken)
    assert outcome.code == "bad-answer"
    assert any(word in outcome.detail for word in words.split("|")), outcome.detail


@pytest.mark.parametrize(("behaviour", "argument"), [("deep_json", ""), ("odd_part", "../../x")])
def test_forged_content_is_a_bad_answer(do: Doer, behaviour: str, argument: str) -> None:
    outcome = do(behaviour, argument)
    assert isinstance(outcome, Broken)
    assert outcome.code == "bad-answer"


def test_a_good_part_arrives(do: Doer) -> None:
    outcome = do("odd_part", "invoice.pdf")
    assert isinstance(outcome, Extraction)
    assert [part.name for part in outcome.parts] == ["invoice.pdf"]
