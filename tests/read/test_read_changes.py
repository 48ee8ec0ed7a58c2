"""Text that a tracked change deletes is no part of the document."""

from __future__ import annotations

import struct
from collections.abc import Callable

from olefiles import word_document

from fairlead.read import Extracted

Read = Callable[..., Extracted]

DELETED = struct.pack("<HB", 0x0800, 1)
INSERTED = struct.pack("<HB", 0x0801, 1)


def test_deleted_text_of_an_old_word_document_is_left_out(read: Read) -> None:
    text = "It costs 9010 \U0001f600 euros\rgone\rin all\r"
    runs = [
        (0, 9, b""),
        (9, 11, DELETED),
        (11, 13, INSERTED),
        (13, 23, b""),
        (23, 28, DELETED),
        (28, 35, b""),
    ]
    assert read(word_document(text, runs=runs)).text == "It costs 10 \U0001f600 euros\nin all"


def test_damaged_formatting_of_an_old_word_document_costs_no_text(read: Read) -> None:
    data = bytearray(word_document("all of it\r", runs=[(0, 3, DELETED), (3, 10, b"")]))
    page = data.index(DELETED) // 512 * 512
    data[page + 511] = 255  # more runs than a page holds
    assert read(bytes(data)).text == "all of it"


def test_deleted_text_of_rich_text_is_left_out(read: Read) -> None:
    extracted = read(
        rb"{\rtf1\ansi It costs {\deleted 90}{\revised 10} euros{\deleted\par gone}\par"
        rb" in \deleted 9\deleted0 all \deleted 9\plain of it {\mvf moved }{\mvt moved}\par}"
    )
    assert extracted.text == "It costs 10 euros\nin all of it moved"


def test_a_character_of_two_units_in_rich_text_stays_whole(read: Read) -> None:
    assert read(rb"{\rtf1 a \uc0 \u55357\uc1 \u56832\'3f b}").text == "a \U0001f600 b"
