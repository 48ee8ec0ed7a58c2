"""Archives: members become parts, within limits, under names that are only names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable

import pytest

from fairlead.read import CannotRead, Extracted
from fairlead.read.draft import safe_name

Read = Callable[..., Extracted]
Refuse = Callable[..., CannotRead]


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def tarred(members: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as file:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
        # A device claims a size and has no content; a link leads elsewhere. Neither is a document.
        device = tarfile.TarInfo("device")
        device.type = tarfile.CHRTYPE
        file.addfile(device)
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(link)
    return buffer.getvalue()


def crypted(content: bytes, password: bytes) -> bytes:
    """A zip archive of one member, locked in the old way."""
    table = [0] * 256
    for index in range(256):
        value = index
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        table[index] = value
    keys = [0x12345678, 0x23456789, 0x34567890]

    def update(byte: int) -> None:
        keys[0] = keys[0] >> 8 ^ table[(keys[0] ^ byte) & 255]
        keys[1] = ((keys[1] + (keys[0] & 255)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = keys[2] >> 8 ^ table[(keys[2] ^ keys[1] >> 24) & 255]

    def encrypt(byte: int) -> int:
        mask = keys[2] | 2
        update(byte)
        return byte ^ (mask * (mask ^ 1) >> 8 & 255)

    for byte in password:
        update(byte)
    checksum = zlib.crc32(content)
    raw = bytes(map(encrypt, bytes(11) + bytes([checksum >> 24]) + content))
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as file:
        file.writestr("secret.txt", raw)
    data = bytearray(plain.getvalue())
    central = data.index(b"PK\x01\x02")
    for at, flags, crc in ((0, 6, 14), (central, 8, 16)):
        data[at + flags] |= 1
        data[at + crc : at + crc + 4] = checksum.to_bytes(4, "little")
        size = at + crc + 8
        data[size : size + 4] = len(content).to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("zip", zipped({"a/b.txt": b"hello", "../../up.txt": b"you", "__MACOSX/x": b"junk"})),
        ("tar", tarred({"a/b.txt": b"hello", "../../up.txt": b"you"})),
        ("tar", tarred({"a/b.txt": b"hello", "../../up.txt": b"you"}, "w:gz")),
        ("tar", tarred({"a/b.txt": b"hello", "../../up.txt": b"you"}, "w:bz2")),
        ("tar", tarred({"a/b.txt": b"hello", "../../up.txt": b"you"}, "w:xz")),
    ],
)
def test_members_become_parts(read: Read, kind: str, data: bytes) -> None:
    extracted = read(data)
    assert (extracted.kind, extracted.text) == (kind, "b.txt\nup.txt")
    assert [(p.name, p.content) for p in extracted.parts] == [
        ("b.txt", b"hello"),
        ("up.txt", b"you"),
    ]
    assert extracted.facts["attachments"] == ["b.txt", "up.txt"]


@pytest.mark.parametrize(
    ("kind", "pack"), [("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress)]
)
def test_a_compressed_file_is_one_part(
    read: Read, refuse: Refuse, kind: str, pack: Callable[[bytes], bytes]
) -> None:
    extracted = read(pack(b"hello"))
    assert (extracted.kind, [part.content for part in extracted.parts]) == (kind, [b"hello"])
    assert refuse(pack(b"")).code == "empty"
    assert refuse(pack(bytes(30_000_000))).code == "too-large"


def test_a_compressed_file_keeps_its_name(read: Read) -> None:
    buffer = io.BytesIO()
    with gzip.GzipFile("../dir/report.csv", "wb", fileobj=buffer) as file:
        file.write(b"a,b")
    assert read(buffer.getvalue()).parts[0].name == "report.csv"


def test_empty_members_are_named_and_left_out(read: Read) -> None:
    extracted = read(zipped({"empty": b"", "full": b"x"}))
    assert [part.name for part in extracted.parts] == ["full"]
    assert "empty and was left out: empty" in str(extracted.facts["warnings"])


@pytest.mark.parametrize("make", [zipped, tarred, lambda members: tarred(members, "w:gz")])
def test_the_limits_hold(
    read: Read, refuse: Refuse, make: Callable[[dict[str, bytes]], bytes]
) -> None:
    many = make({f"{number}": b"x" for number in range(20)})
    assert len(read(many, members=5).parts) == 5
    assert "only the first 5" in str(read(many, members=5).facts["warnings"])
    assert refuse(make({"a": b"x" * 60_000, "b": b"y" * 60_000}), unpacked_bytes=100_000).code == (
        "too-large"
    )


def test_bombs_are_refused_by_their_ratio(refuse: Refuse) -> None:
    assert refuse(zipped({"a": bytes(3_000_000)})).code == "too-large"
    assert refuse(tarred({"a": bytes(30_000_000)}, "w:gz")).code == "too-large"


def test_a_tar_that_lies_about_its_size(refuse: Refuse) -> None:
    member = tarfile.TarInfo("lie")
    member.size = 8_000_000_000
    assert refuse(member.tobuf() + bytes(1_024)).code == "too-large"


def test_a_locked_archive_needs_its_password(read: Read, refuse: Refuse) -> None:
    data = crypted(b"the secret words", b"key")
    assert refuse(data).code == "encrypted"
    assert refuse(data, password="wrong").code == "encrypted"
    assert read(data, password="key").parts[0].content == b"the secret words"


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a/b\\c.txt", "c.txt"),
        ("..", "document"),
        ("", "document"),
        ("folder/", "folder"),
        ("evil\u202etxt.exe\n\x00", "eviltxt.exe"),
        ("x" * 400 + ".pdf", "x" * 251 + ".pdf"),
        ("a\tb  c", "a b c"),
    ],
)
def test_names_are_only_names(name: str, safe: str) -> None:
    assert safe_name(name) == safe
