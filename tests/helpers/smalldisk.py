"""Runs as a program in a mount namespace of its own: a small real disk that gets full.

Usage: python smalldisk.py SCENARIO FOLDER. Ends with 0 when all is as promised.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from apikit import problem, served_by, upload
from storekit import DONE, Clock, RulesInForce, submit

from fairlead import Fairlead
from fairlead.blobs import LocalBlobs
from fairlead.config import disk_reserve
from fairlead.errors import DiskFull, ReadOnlyData
from fairlead.intake import Intake
from fairlead.storage.sqlite import SqliteStore

SIZE = "6m"
BALLAST = 2_000_000
SKIPPED = 77
PROGRAM = ("-m", "fairlead")
"""The exit code where the machine cannot do what the scenario needs."""
PAGE = b"a page\n"
LONG, SHORT = PAGE * 10_000, PAGE * 3_000
"""Of one the bytes become a file; of the other they go into the store."""


class Disk:
    """An installation on a small disk, of which a part can be freed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ballast = folder / "ballast"

    def mount(self, *options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={SIZE}", *options])]
        subprocess.run([*command, "tmpfs", str(self.folder)], check=True)

    def fill_a_part(self) -> None:
        self.ballast.write_bytes(b"\1" * BALLAST)

    def free_some_space(self) -> None:
        self.ballast.unlink()

    @contextmanager
    def installation(self) -> Iterator[tuple[Intake, SqliteStore, LocalBlobs]]:
        clock = Clock()
        files = LocalBlobs(self.folder / "files")
        store = SqliteStore(self.folder / "fairlead.db", rules=RulesInForce(), clock=clock)
        try:
            yield Intake(store, files, limit=lambda: 10**9, clock=clock), store, files
        finally:
            store.close()

    def stored_files(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "files").rglob("*") if path.is_file())


def until_full(action: Callable[[], object]) -> int:
    """How often the action worked before the disk was full."""
    for number in range(100_000):
        try:
            action()
        except DiskFull:
            return number
    raise AssertionError("the disk never got full")


def check_intact(
    disk: Disk, store: SqliteStore, files: LocalBlobs, accepted: int, pages: bytes
) -> None:
    documents = store.documents(limit=100_000)
    assert store.problems() == []
    assert len(documents) == accepted, (len(documents), accepted)
    assert sorted(document.count for document in documents) == [*range(1 - accepted, 1)]
    assert disk.stored_files() == (
        sorted(document.id for document in documents) if pages == LONG else []
    )
    for document in documents:
        content = store.original(document.id)
        assert (files.read(document.id, document.sha256) if content is None else content) == pages


def files_fill_the_disk(disk: Disk) -> None:
    documents_fill_the_disk(disk, LONG)


def short_documents_fill_the_disk(disk: Disk) -> None:
    documents_fill_the_disk(disk, SHORT)


def documents_fill_the_disk(disk: Disk, pages: bytes) -> None:
    disk.mount()
    disk.fill_a_part()
    with disk.installation() as (intake, store, files):

        def take(times: int = 1) -> None:
            intake.submit("acme", [(pages, None)] * times)

        accepted = until_full(take)
        assert accepted > 20
        check_intact(disk, store, files, accepted, pages)
        assert until_full(lambda: take(30)) == 0
        check_intact(disk, store, files, accepted, pages)
        disk.free_some_space()
        take()
        check_intact(disk, store, files, accepted + 1, pages)
        claim = store.claim("worker")
        assert claim is not None
        assert store.finish(claim, DONE) == "saved"
    with disk.installation() as (_, store, files):
        check_intact(disk, store, files, accepted + 1, pages)


def rows_fill_the_disk(disk: Disk) -> None:
    disk.mount()
    disk.fill_a_part()
    with disk.installation() as (_, store, _):
        accepted = until_full(lambda: submit(store, "acme", 10)) * 10
        assert accepted > 100
        check_rows(store, accepted)
        disk.free_some_space()
        submit(store, "acme", 10)
        check_rows(store, accepted + 10)
    with disk.installation() as (_, store, _):
        check_rows(store, accepted + 10)


def check_rows(store: SqliteStore, accepted: int) -> None:
    counts = sorted(document.count for document in store.documents(limit=100_000))
    assert counts == [*range(1 - accepted, 1)]
    assert store.customer("acme").waiting == accepted
    assert store.last_event() == accepted + 1
    assert store.problems() == []


def no_room_for_a_database(disk: Disk) -> None:
    disk.mount()
    fill_to_the_last_byte(disk)
    assert until_full(lambda: submit_to(disk)) == 0
    disk.free_some_space()
    submit_to(disk)


def disk_is_read_only(disk: Disk) -> None:
    disk.mount()
    with disk.installation() as (intake, _, _):
        intake.submit("acme", [(LONG, None)])
    disk.mount("remount", "ro")
    must_be_read_only(lambda: submit_to(disk))
    must_be_read_only(lambda: LocalBlobs(disk.folder / "files").put_all([("0" * 26, b"x")]))
    disk.mount("remount", "rw")
    with disk.installation() as (intake, store, files):
        intake.submit("acme", [(LONG, None)])
        check_intact(disk, store, files, 2, LONG)


def new_disk_is_read_only(disk: Disk) -> None:
    disk.mount("ro")
    must_be_read_only(lambda: submit_to(disk))


def the_server_outlives_a_full_disk(disk: Disk) -> None:
    disk.mount()
    with served_by(PROGRAM, disk.folder, "--workers", "1") as server:
        client = server.customer("acme")
        assert server.operator.post("/v1/customers/acme/pause").status_code == 200
        id_ = upload(client, PAGE * 100_000).json()["id"]
        fill_up_to(disk, room=500_000)
        assert server.operator.post("/v1/customers/acme/resume").status_code == 200
        while not any("workers retry until this succeeds" in line for line in server.log):
            assert client.get(f"/v1/documents/{id_}?wait=1").json()["attempts"] <= 1
        problem(server.operator.get("/readyz"), "unavailable", 503)
        problem(upload(client, PAGE * 100_000), "disk-full", 507)
        assert client.get(f"/v1/documents/{id_}").json()["state"] == "processing"
        assert len(client.get(f"/v1/documents/{id_}/file").content) == 100_000 * len(PAGE)
        disk.free_some_space()
        while server.operator.get("/readyz").status_code != 200:
            """Until it has saved what it kept."""
        ended = client.get(f"/v1/documents/{id_}", params={"wait": 60}).json()
        assert (ended["state"], ended["attempts"]) == ("done", 1), ended
        assert len(client.get(f"/v1/documents/{id_}/text").text) >= 99_000 * len(PAGE)
        assert server.stop() == 0
        assert sum("fairlead: work" in line for line in server.log) == 2, server.log


def the_server_outlives_a_read_only_disk(disk: Disk) -> None:
    """Regression: the answer was 500, and the server ended.

    A file system that finds errors becomes read-only under open files. Only a real one can be made
    to: a disk in a file.
    """
    image, data = disk.folder / "image", disk.folder / "data"
    data.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, data], check=False).returncode:
        sys.exit(SKIPPED)
    with served_by(PROGRAM, data, "--workers", "1") as server:
        client = server.customer("acme")
        short, long = (upload(client, pages).json()["id"] for pages in (SHORT, LONG))
        for id_ in (short, long):
            assert client.get(f"/v1/documents/{id_}?wait=60").json()["state"] == "done"
        for _ in range(100):  # the workers have something to do
            assert upload(client, SHORT).status_code == 202
        subprocess.run(["mount", "-o", "remount,abort", data], check=True)
        while server.operator.get("/readyz").status_code != 503:
            """Until it has noticed."""
        for content in (SHORT, LONG):
            problem(upload(client, content), "unavailable", 503)
        problem(client.delete(f"/v1/documents/{long}"), "unavailable", 503)
        problem(server.operator.post("/v1/customers/acme/pause"), "unavailable", 503)
        assert client.get(f"/v1/documents/{long}/file").content == LONG
        with ThreadPoolExecutor(16) as readers:  # more than the server has connections yet
            texts = list(readers.map(client.get, [f"/v1/documents/{short}/text"] * 64))
        assert all(answer.text.startswith("a page") for answer in texts)
        listed = client.get("/v1/documents?state=waiting").json()["documents"]
        assert all(document["attempts"] <= 1 for document in listed), listed
        assert server.operator.get("/livez").status_code == 200
        assert server.process.poll() is None


def the_server_starts_on_a_full_disk(disk: Disk) -> None:
    """It serves what is there, lets room be made, and goes on by itself."""
    disk.mount("size=40m")
    with served_by(PROGRAM, disk.folder, "--workers", "1") as server:
        key = server.key("acme")
        client = server.client(key)
        short, long = (upload(client, pages).json()["id"] for pages in (SHORT, LONG))
        for id_ in (short, long):
            assert client.get(f"/v1/documents/{id_}?wait=60").json()["state"] == "done"
        wait_for_the_reserve(disk)
        assert server.stop() == 0
    fill_to_the_last_byte(disk)
    with served_by(PROGRAM, disk.folder, "--workers", "1") as server:
        assert any("almost full" in line for line in server.log)
        problem(server.operator.get("/readyz"), "unavailable", 503)
        client = server.client(key)
        assert client.get(f"/v1/documents/{long}/file").content == LONG
        fill_to_the_last_byte(disk)
        problem(upload(client, LONG), "disk-full", 507)
        for id_ in (short, long):
            assert client.delete(f"/v1/documents/{id_}").status_code == 204
            problem(client.get(f"/v1/documents/{id_}"), "unknown-document", 404)
        disk.free_some_space()
        while server.operator.get("/readyz").status_code != 200:
            """Until it has noticed."""
        accepted = upload(client, LONG).json()["id"]
        assert client.get(f"/v1/documents/{accepted}?wait=60").json()["state"] == "done"
        assert server.stop() == 0


def a_full_disk_without_data_is_said_so(disk: Disk) -> None:
    """There is nothing to serve."""
    disk.mount()
    fill_to_the_last_byte(disk)
    for command in ("serve", "worker"):
        data = disk.folder / "data"
        program = [sys.executable, "-m", "fairlead", command, "--data", str(data)]
        ran = subprocess.run(program, check=False, capture_output=True, text=True)
        assert ran.returncode == 1
        assert ran.stderr.startswith("fairlead: the disk of")
        assert ran.stderr.count("\n") == 1, ran.stderr


def output_on_a_full_disk_is_said_in_a_sentence(disk: Disk) -> None:
    disk.mount()
    with TemporaryDirectory() as data:
        with Fairlead(data) as fairlead:
            fairlead.customers.add("acme")
        output = disk.folder / "output"
        output.touch()
        fill_to_the_last_byte(disk)
        for options in ([], ["--json"]):
            command = ["customers", "list", *options, "--data", data]
            with output.open("w") as file:
                ran = subprocess.run(
                    [sys.executable, "-m", "fairlead", *command],
                    check=False,
                    stdout=file,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            assert (ran.returncode, ran.stderr.count("\n")) == (1, 1), ran.stderr
            assert "cannot be written" in ran.stderr


def a_full_disk_works_again(disk: Disk, rounds: int = 2, size: str = "24m") -> None:
    """Regression: room came back neither from the database nor from its WAL."""
    disk.mount(f"size={size}")
    content, accepted = os.urandom(30_000), []
    with Fairlead(disk.folder) as fairlead:
        fairlead.folder.reserve.fill()
        for _ in range(rounds):
            ids: list[str] = []
            for number in (150, 20, 1):  # the last ones fill the disk one by one
                sources = [content] * number
                until_full(
                    lambda: ids.extend(  # noqa: B023 (called at once)
                        document.id
                        for document in fairlead.submit_many("acme", sources)  # noqa: B023
                    )
                )
            accepted.append(len(ids))
            for id_ in ids:
                fairlead.delete(id_)
            assert fairlead.has_room()
            assert fairlead.folder.has_room(int(size[:-1]) << 19), "most of the disk is free"
            assert (disk.folder / "reserve").stat().st_size == disk_reserve.SIZE
        assert fairlead.store.problems() == []
    assert min(accepted) > 0.9 * max(accepted), accepted


def a_full_disk_works_again_ten_times(disk: Disk) -> None:
    a_full_disk_works_again(disk, 10, "100m")


def wait_for_the_reserve(disk: Disk) -> None:
    place = disk.folder / "reserve"
    while not place.exists() or place.stat().st_size < disk_reserve.SIZE:
        """It is laid beside everything else."""


def fill_to_the_last_byte(disk: Disk) -> None:
    with disk.ballast.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            """Until it is full to the last page."""


def fill_up_to(disk: Disk, *, room: int) -> None:
    """Leave this number of bytes free."""
    stat = os.statvfs(disk.folder)
    disk.ballast.write_bytes(b"\1" * (stat.f_bavail * stat.f_frsize - room))


def submit_to(disk: Disk) -> None:
    with disk.installation() as (_, store, _):
        submit(store, "acme")


def must_be_read_only(action: Callable[[], object]) -> None:
    try:
        action()
    except ReadOnlyData:
        return
    raise AssertionError("a folder that cannot be written was written")


Scenario = Callable[[Disk], None]


def by_name(*scenarios: Scenario) -> dict[str, Scenario]:
    return {scenario.__name__: scenario for scenario in scenarios}


SCENARIOS = by_name(
    files_fill_the_disk,
    disk_is_read_only,
    the_server_outlives_a_full_disk,
    output_on_a_full_disk_is_said_in_a_sentence,
    a_full_disk_works_again,
)
FULL_SCENARIOS = by_name(
    short_documents_fill_the_disk,
    rows_fill_the_disk,
    no_room_for_a_database,
    new_disk_is_read_only,
    the_server_starts_on_a_full_disk,
    a_full_disk_without_data_is_said_so,
)
"""Only `make test-full` runs them."""
SUPERUSER_SCENARIOS = by_name(the_server_outlives_a_read_only_disk)
"""They mount a disk in a file, which no namespace of a user's own permits."""
LONG_SCENARIOS = by_name(a_full_disk_works_again_ten_times)
"""Only `make faults` runs them."""

if __name__ == "__main__":
    scenarios = SCENARIOS | FULL_SCENARIOS | SUPERUSER_SCENARIOS | LONG_SCENARIOS
    scenarios[sys.argv[1]](Disk(Path(sys.argv[2])))
