"""The comparison of readers: how words and rows are scored, and what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bench.readers import reference
from bench.readers.__main__ import Peer, main
from bench.readers.scoring import Score, markdown_rows, words
from click.testing import CliRunner


def test_rows_of_markdown_are_compared_without_empty_cells_and_escapes() -> None:
    markdown = "| a | b \\| c |\n| --- | --- |\n| 1 |  | 2\\* |\n\n| alone |\ntext | no row"
    assert markdown_rows(markdown) == [("a", "b | c"), ("1", "2*")]


def test_a_score_counts_words_rows_and_false_tables() -> None:
    score = Score()
    score.add_time(0.002)
    score.add_words("one two two four", words("One two three two"))
    score.add_rows("| 1 | 2 |\n| --- | --- |\n| 3 | 4 |", [("1", "2"), ("5", "6")])
    score.add_rows("| 1 | 2 |", [])
    assert score.cells() == ["75%", "75%", "50% of 2", "1", "2.0"]


def test_lines_below_each_other_with_wide_spaces_are_reference_rows() -> None:
    text = "a   b   c\nd   e   f\nprose of words\nlonely   x   y\n"
    assert reference._aligned_rows(text) == [("a", "b", "c"), ("d", "e", "f")]


def test_missing_programs_are_named_and_the_rest_is_printed(
    tmp_path: Path, pdf: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "letter.pdf").write_bytes(pdf("Dear Sir"))
    (tmp_path / "unknown.bin").write_bytes(bytes(range(256)))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(main, [str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "soffice is missing" in result.stderr
    assert "install poppler-utils" in result.stderr
    header, row = result.stdout.splitlines()
    assert header.split()[:3] == ["kind", "documents", "reader"]
    assert row.split()[:7] == ["pdf", "1", "fairlead", "–", "–", "–", "0"]


@pytest.mark.services
def test_a_conversion_that_never_ends_is_ended() -> None:
    """A bomb kept LibreOffice busy until the command failed without a table."""
    assert not reference._ends(["sleep", "600"], 0.0)
    assert reference._ends(["true"], 60.0)


@pytest.mark.services
def test_a_reader_that_dies_or_hangs_is_started_again(tmp_path: Path) -> None:
    """The command failed without a table after a bomb in the folder."""
    answer = '{"text": "read", "seconds": 1}'
    script = f"""while read path; do case $path in
        */dies) exit 1 ;; */hangs) exec sleep 600 ;; *) echo '{answer}' ;; esac; done"""
    peer = Peer(["bash", "-c", script], longest=1.0)
    try:
        found = [peer.read(tmp_path / name) for name in ("dies", "good", "hangs", "good")]
    finally:
        peer.stop()
    assert [reading and reading.text for reading in found] == [None, "read", None, "read"]
