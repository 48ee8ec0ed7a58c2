"""Facts that every kind has: language and times; and rows of plain text."""

from __future__ import annotations

from collections.abc import Callable
from email.message import EmailMessage

import pytest

from fairlead import read as package
from fairlead.read import CannotRead, Extracted, kinds
from fairlead.read.base import Rank, Reader
from fairlead.read.dates import iso
from fairlead.read.language import language_of

Read = Callable[..., Extracted]
Refuse = Callable[..., CannotRead]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The contract is valid from the first of May and it ends with the year."),
        ("de", "Der Vertrag ist ab dem ersten Mai gültig und endet mit dem Jahr, nicht früher."),
        ("fr", "Le contrat est valable dans les pays de la liste et pour une année de plus."),
        (
            "es",
            "El contrato es válido desde el primero de mayo y termina con el año, según la ley.",
        ),
        ("pt", "O contrato é válido a partir de maio e não termina com o ano, mas com uma carta."),
        ("pl", "Umowa jest ważna od maja i nie kończy się z rokiem, ale może być przedłużona."),
        ("ru", "Договор действует с первого мая"),
        ("ja", "契約は五月一日から有効です"),
        ("zh", "合同自五月一日起生效"),
        ("ar", "العقد ساري المفعول من أول مايو"),
        ("el", "Η σύμβαση ισχύει από την πρώτη Μαΐου"),
        (None, "4711 0815"),
        (None, "SKU-1 Blue"),
        (None, ""),
    ],
)
def test_language(language: str | None, text: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("D:20240131120000+01'00'", "2024-01-31T12:00:00+01:00"),
        ("D:2024", "2024-01-01T00:00:00"),
        ("D:20241399", None),
        ("2024-01-31T12:00:00Z", "2024-01-31T12:00:00+00:00"),
        ("2024-01-31", "2024-01-31"),
        ("yesterday", None),
        (7, None),
    ],
)
def test_times(value: object, moment: str | None) -> None:
    assert iso(value) == moment


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'name,price\nx,1\n"a,b",2\n', "name\tprice\nx\t1\na,b\t2"),
        (b"name;price;unit\nx;1,5;kg\n", "name\tprice\tunit\nx\t1,5\tkg"),
        (b"a\tb\nc\td\n", "a\tb\nc\td"),
    ],
)
def test_rows_of_values_are_a_table(read: Read, data: bytes, text: str) -> None:
    extracted = read(data)
    assert (extracted.kind, extracted.text) == ("csv", text)
    assert extracted.markdown is not None
    assert extracted.markdown.startswith("| ")


def test_sentences_with_commas_are_no_table(read: Read) -> None:
    assert read(b"Hello, world.\nBye, all of you.\nSo long, then.\n").kind == "text"


def test_mail_nested_deeply_gives_one_part(read: Read) -> None:
    start = b"From: a@example.org\nTo: b@example.org\nSubject: s\nMIME-Version: 1.0\n"
    inner = start + b"\ninnermost"
    for _ in range(50):
        inner = start + b"Content-Type: message/rfc822\n\n" + inner
    extracted = read(inner)
    assert [part.name for part in extracted.parts] == ["s.eml"]
    assert "innermost" not in extracted.text


def test_only_so_many_attachments_are_taken(read: Read) -> None:
    message = EmailMessage()
    message["From"], message["To"] = "a@example.org", "b@example.org"
    message.set_content("body")
    for number in range(4):
        message.add_attachment(f"words {number}", filename=f"{number}.txt")
    extracted = read(message.as_bytes(), members=2)
    assert [part.name for part in extracted.parts] == ["0.txt", "1.txt"]
    assert extracted.facts["warnings"] == ["only the first 2 parts were taken"]


class Panic(BaseException):
    """What a library written in Rust raises."""


@pytest.mark.parametrize("error", [Panic, RecursionError, KeyError])
def test_any_failure_of_a_library_means_damaged(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(*_: object) -> Extracted:
        raise error

    reader = Reader("odd", Rank.SIGNATURE, lambda _: True, fail)
    monkeypatch.setattr(package, "recognise", lambda _: reader)
    assert refuse(b"x").code == "damaged"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_an_error_that_is_not_the_documents_is_raised(
    read: Read, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(*_: object) -> Extracted:
        raise error

    reader = Reader("odd", Rank.SIGNATURE, lambda _: True, fail)
    monkeypatch.setattr(package, "recognise", lambda _: reader)
    with pytest.raises(error):
        read(b"x")


def test_every_reader_has_a_short_kind() -> None:
    assert all(reader.kind.replace("-", "").isalnum() for reader in kinds.readers())
