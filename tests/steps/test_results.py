"""What a step may return: limits, one beyond each, and data that earlier steps found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.errors import InvalidResult
from fairlead.steps.declare import Result
from fairlead.steps.results import MOST_DATA_BYTES, MOST_FILES, write_result

LIMIT = 100_000_000


def write(result: Result, folder: Path, **earlier: object) -> object:
    returned = write_result(result, folder / "result", LIMIT, lambda: earlier)
    return None if returned.data is None else json.loads(returned.data.read())


def test_data_of_earlier_steps_stay_but_for_the_same_keys(tmp_path: Path) -> None:
    data = write(Result(data={"total": 2}), tmp_path, total=1, order=7)
    assert data == {"total": 2, "order": 7}


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("what", ["files", "parts"])
def test_files_and_parts_are_bounded(tmp_path: Path, what: str, more: int) -> None:
    number = MOST_FILES + more
    files = {f"{n}.txt": b"x" for n in range(number if what == "files" else 0)}
    parts = [(f"{n}.txt", b"x") for n in range(number if what == "parts" else 0)]
    result = Result(files=files, parts=parts)
    if more:
        with pytest.raises(InvalidResult, match=f"a result may have 1,000 {what}; got 1,001"):
            write(result, tmp_path)
    else:
        write(result, tmp_path)


@pytest.mark.parametrize("more", [0, 1])
def test_data_are_bounded_with_those_of_earlier_steps(tmp_path: Path, more: int) -> None:
    half = "x" * (MOST_DATA_BYTES // 2)
    overhead = len(json.dumps({"a": "", "b": ""}, separators=(",", ":")))
    rest = "x" * (MOST_DATA_BYTES - len(half) - overhead + more)
    if more:
        with pytest.raises(InvalidResult, match="may have 16,000,000 bytes as JSON"):
            write(Result(data={"b": rest}), tmp_path, a=half)
    else:
        write(Result(data={"b": rest}), tmp_path, a=half)


def test_long_contents_are_files_and_short_ones_are_not(tmp_path: Path) -> None:
    result = Result(text="short", files={"long.bin": b"x" * 100_000, "short.bin": b"x" * 65_536})
    returned = write_result(result, tmp_path / "result", LIMIT)
    long, short = returned.files
    assert returned.text is not None
    assert (returned.text.path, short.path, long.content) == (None, None, None)
    assert long.path is not None
    assert long.read() == b"x" * 100_000
