"""The child's answers are untrusted: whatever comes, an outcome comes out."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.documents import Broken, Failed
from fairlead.read import ReadLimits
from fairlead.worker.sandbox.answer import (
    FINAL,
    REQUEUED,
    ExtractedFile,
    Extraction,
    failure,
    parse_answer,
    plain,
)
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.protocol import BadFrame, FrameReader, Tag, pack, pack_part
from fairlead.worker.sandbox.spool import SpooledBytes


def packed(**answer: object) -> bytes:
    return json.dumps(answer).encode()


def good(**changes: object) -> bytes:
    return packed(
        **{"kind": "pdf", "text": "words", "markdown": None, "facts": {"pages": 1}, **changes}
    )


def error(**changes: object) -> bytes:
    return packed(**{"error": "damaged", "detail": "It is broken.", "kind": "pdf", **changes})


def nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(depth - 1):
        value = {"in": value}
    return value


def test_a_proper_answer() -> None:
    assert parse_answer(good()) == Extraction("pdf", "words", {"pages": 1})


def test_markdown_is_kept_where_it_differs() -> None:
    for markdown, expected in ((None, None), ("words", None), ("# words", "# words")):
        outcome = parse_answer(good(markdown=markdown))
        assert isinstance(outcome, Extraction)
        assert outcome.markdown == expected


def test_parts_come_with_the_answer() -> None:
    outcome = parse_answer(good(), [("a ä.pdf".encode(), b"%PDF"), (b"a", b"")])
    assert isinstance(outcome, Extraction)
    assert outcome.parts == (ExtractedFile("a ä.pdf", b"%PDF"), ExtractedFile("a", b""))
    assert isinstance(parse_answer(error(), [(b"/", b"")]), Failed)


@pytest.mark.parametrize(
    "name",
    [
        *(b"", b".", b"..", b"a/b", b"a\\b", b"a\nb", b"\x1b[2J", b"\xff", b"a" * 256, b"a\x00"),
        "a\u2028b".encode(),
    ],
)
def test_a_part_with_an_improper_name_is_a_bad_answer(name: bytes) -> None:
    outcome = parse_answer(good(), [(b"good.txt", b"x"), (name, b"x")])
    assert isinstance(outcome, Broken)
    assert outcome.code == "bad-answer"


def test_files_come_with_the_answer() -> None:
    files = [(b"page-001.png", b"x"), (b"page-12345.png", b""), (b"searchable.pdf", b"%PDF")]
    outcome = parse_answer(good(), files=files)
    assert isinstance(outcome, Extraction)
    assert outcome.files == tuple(ExtractedFile(name.decode(), content) for name, content in files)


@pytest.mark.parametrize(
    "names",
    [
        *([b"page-1.png"], [b"page-001.png\n"], [b"../searchable.pdf"], [b"index.html"], [b"\xff"]),
        [b"page-001.png", b"page-001.png"],
    ],
)
def test_a_file_that_no_output_has_is_a_bad_answer(names: list[bytes]) -> None:
    outcome = parse_answer(good(), files=[(name, b"x") for name in names])
    assert isinstance(outcome, Broken)
    assert outcome.code == "bad-answer"


@pytest.mark.parametrize("code", sorted(FINAL))
def test_final_codes(code: str) -> None:
    assert parse_answer(error(error=code)) == Failed(code, "It is broken.", "pdf")


@pytest.mark.parametrize("code", sorted(REQUEUED))
def test_codes_worth_another_attempt(code: str) -> None:
    assert parse_answer(error(error=code, kind=None)) == Broken(code, "It is broken.")


def test_an_unknown_code_of_ours_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        failure("odd", "x")


def test_a_detail_is_made_fit_to_be_shown() -> None:
    outcome = parse_answer(error(detail="a\x1b[31m\nb\u202e\ud800" + "c" * 9_999))
    assert isinstance(outcome, Failed)
    assert outcome.detail.startswith("a[31m bccc")
    assert len(outcome.detail) == 500
    assert plain("\x00\n") == ""


def test_facts_at_the_bounds() -> None:
    for facts in (nested(5), {str(n): n for n in range(64)}, {"a": "x" * 65_000}, {"n": -(2**53)}):
        assert isinstance(parse_answer(good(facts=facts)), Extraction)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 10_000,
        packed(),
        good(kind="PDF"),
        good(kind="p" * 33),
        good(kind="pdf\n"),
        good(kind=None),
        good(text=None),
        good(text="\ud800"),
        good(text="a\x00b"),
        good(markdown="\ud800"),
        good(markdown=7),
        good(facts=[]),
        good(facts={"a": float("nan")}),
        good(facts={"a": 2**60}),
        good(facts={"a": "\x00"}),
        good(facts={"\ud800": 1}),
        good(facts={"a": "x" * 65_536}),
        good(facts=nested(6)),
        good(facts={str(n): n for n in range(65)}),
        good(extra=1),
        good().replace(b"1}", b"1e999}"),
        error(error="odd"),
        error(error=["damaged"]),
        error(detail=7),
        error(detail="\x00"),
        error(kind=7),
        error(text="both"),
    ],
)
def test_anything_else_is_broken(raw: bytes) -> None:
    outcome = parse_answer(raw)
    assert isinstance(outcome, Broken)
    assert outcome.code == "bad-answer"
    assert outcome.detail.endswith(".")


def test_a_long_answer_may_be_long_only_by_its_strings() -> None:
    assert isinstance(parse_answer(good(text='"\\' * 1_000_000)), Extraction)
    for flood in (b"[]," * 1_000_000, b'"",' * 1_000_000, b'{"a":0},' * 200_000):
        outcome = parse_answer(b'{"kind":"a","text":"","facts":{"a":[' + flood + b"0]}}")
        assert isinstance(outcome, Broken)
        assert "too much structure" in outcome.detail


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)
kinds = st.sampled_from(["pdf", "", "X", None, 3])
answers = st.fixed_dictionaries(
    {}, optional={"kind": kinds | values, "text": values, "facts": values}
) | st.fixed_dictionaries(
    {"error": st.sampled_from(["damaged", "crashed", "odd"]) | values, "detail": values},
    optional={"kind": kinds | values},
)


@given(st.binary() | (values | answers).map(lambda value: json.dumps(value).encode()))
def test_nothing_raises_and_what_passes_can_be_kept(raw: bytes) -> None:
    outcome = parse_answer(raw)
    if isinstance(outcome, Extraction):
        outcome.text.encode()
        json.dumps(dict(outcome.facts), allow_nan=False, ensure_ascii=False).encode()
    else:
        outcome.detail.encode()
        assert outcome.code in FINAL | REQUEUED


@pytest.mark.parametrize("unit", [b'\\"', b'"', b"\\\\", b"\\", b'{"a":', b"[", b'"\\'])
def test_a_long_answer_made_to_be_slow_is_refused_in_time(unit: bytes) -> None:
    """Five million of them: anything that goes back and forth would not end."""
    assert isinstance(parse_answer(b'"' + unit * 5_000_000), Broken)


def test_escaped_quotes_do_not_hide_structure() -> None:
    text = good(text='\\"' * 600_000)
    assert isinstance(parse_answer(text), Extraction)
    many = good(text="\\", facts={"n": [1] * 600_000})
    assert isinstance(parse_answer(many), Broken)


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [(ReadLimits(page_pictures=2), [1, 1, 1]), (ReadLimits(output_bytes=10), [10, 9, 1])],
)
def test_more_files_than_allowed_end_the_child(limits: ReadLimits, sizes: list[int]) -> None:
    """All pictures have a limit, and the PDF has the same."""
    frames = FrameReader(SandboxLimits(read=limits))
    for size in sizes:
        push(frames, pack_part("page-001.png", bytes(size), Tag.FILE))
    with pytest.raises(BadFrame, match="files"):
        push(frames, pack_part("page-001.png", b"x", Tag.FILE))


def push(frames: FrameReader, stream: bytes) -> None:
    reader, writer = os.pipe()
    os.write(writer, stream)
    os.close(writer)
    try:
        frames.fill(reader)
        frames.take()
    finally:
        os.close(reader)


def test_parts_and_files_are_kept_apart(tmp_path: Path) -> None:
    frames = FrameReader(SandboxLimits(), tmp_path)
    push(frames, pack_part("page-001.png", b"picture", Tag.FILE) + pack_part("a", b"part"))
    assert frames.parts.take() == ((b"a", b"part"),)
    assert frames.files.take() == ((b"page-001.png", b"picture"),)
    frames.expect_answer()
    assert frames.files.take() == ()


def test_a_long_part_waits_on_disk(tmp_path: Path) -> None:
    """Safety finding 5: parts of an archive were in memory until they were saved."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    frames = FrameReader(SandboxLimits(), tmp_path)
    long, short = bytes(range(256)) * 1_000, b"short"
    stream = b"".join(pack_part(*part) for part in (("a", long), ("b", short), ("c", long[1:])))
    stream += pack({"done": True})
    for start in range(0, len(stream), 10_007):
        os.write(writer, stream[start : start + 10_007])
        frames.fill(reader)
        answer = frames.take()
    os.close(reader)
    os.close(writer)
    assert answer == b'{"done": true}'
    first, second, third = frames.parts.take()
    assert second == (b"b", short)
    for (name, content), expected in ((first, (b"a", long)), (third, (b"c", long[1:]))):
        assert isinstance(content, SpooledBytes)
        assert (name, b"".join(content.chunks())) == expected
        assert (len(content), content.head) == (len(expected[1]), expected[1][:4096])
        assert content.sha256 == hashlib.sha256(expected[1]).hexdigest()
    assert list(tmp_path.iterdir()) == []
