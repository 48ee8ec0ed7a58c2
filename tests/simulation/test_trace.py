from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InvalidTrace, UsageError
from fairlead.simulation.simulate import Run
from fairlead.simulation.trace import Arrival, read_trace, write_outcome

HEADER = "at,customer,seconds\n"


def test_columns_may_stand_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("estimate,seconds,customer,weight,at\n2,1.5,acme,3,1e2\n,0,globex,,-7\n")
    assert read_trace(path) == [
        Arrival(100.0, "acme", 1.5, 3.0, 2.0, "1e2"),
        Arrival(-7.0, "globex", 0.0, 1.0, None, "-7"),
    ]
    assert read_trace(str(path)) == read_trace(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_byte_order_mark_line_ends_and_empty_lines_are_tolerated(end: str) -> None:
    text = end.join(["\ufeffat, customer ,seconds", "0,acme,1", "", "1,Ünïcode 株式会社,2", ""])
    expected = [(0.0, "acme"), (1.0, "Ünïcode 株式会社")]
    for file in (io.BytesIO(text.encode()), io.StringIO(text, newline="")):
        assert [(row.at, row.customer) for row in read_trace(file)] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "trace.csv: expected the columns at, customer, seconds .*; the file is empty"),
        (HEADER, "trace.csv: expected at least one row after the header; got none"),
        ("at,customer\n0,acme\n", "line 1: .*'seconds' is missing in 'at,customer'"),
        ("0,acme,1\n", "line 1: .*'at' is missing in '0,acme,1'"),
        ("at,customer,seconds,size\n", "line 1: .*got the unknown column 'size'"),
        ("at,customer,seconds,at\n", "line 1: .*got 'at' more than once"),
        (HEADER + "0,a,1\nx,a,1\n", "line 3: expected a finite number as at; got 'x'"),
        (HEADER + ",a,1\n", "line 2: expected a finite number as at; got ''"),
        (HEADER + "nan,a,1\n", "line 2: expected a finite number as at; got 'nan'"),
        (HEADER + "0,a,inf\n", "line 2: expected a finite number as seconds; got 'inf'"),
        (HEADER + "0,a,-Infinity\n", "line 2: expected a finite number as seconds"),
        (HEADER + "0,a,1e999\n", "line 2: expected a finite number as seconds; got '1e999'"),
        (HEADER + "0,a,1_0\n", "line 2: expected a finite number as seconds; got '1_0'"),
        (HEADER + "0,a,-0.5\n", "line 2: expected seconds of 0 or more; got '-0.5'"),
        (HEADER + "0,,1\n", "line 2: expected the name of a customer; got ''"),
        (HEADER + "0,  ,1\n", "line 2: expected the name of a customer; got '  '"),
        (HEADER + "0,a\n", "line 2: expected 3 values; got 2"),
        (HEADER + "0,a,1,2\n", "line 2: expected 3 values; got 4"),
        (HEADER + '0,"a,1\n', "line 2: expected comma-separated values; got "),
        ("at,customer,seconds,weight\n0,a,1,0\n", "line 2: expected a weight above 0; got '0'"),
        ("at,customer,seconds,weight\n0,a,1,x\n", "line 2: expected a finite number as weight"),
        ("at,customer,seconds,estimate\n0,a,1,-1\n", "line 2: expected estimate of 0 or more"),
    ],
)
def test_a_wrong_trace_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(InvalidTrace, match=message) as caught:
        read_trace(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message


def test_what_is_no_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(HEADER.encode() + b"0,caf\xe9,1\n")
    with pytest.raises(InvalidTrace, match="line 2: expected text in UTF-8; got byte 0xe9"):
        read_trace(path)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTrace, match=r"none\.csv: expected a trace; the file does not exist"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(InvalidTrace, match="expected a trace; this is a folder"):
        read_trace(tmp_path)
    with pytest.raises(InvalidTrace, match="expected a trace; it cannot be read"):
        read_trace("nul\0byte.csv")


def test_a_stream_without_a_name_is_called_standard_input() -> None:
    with pytest.raises(InvalidTrace, match=r"^standard input, line 2"):
        read_trace(io.StringIO(HEADER + "x,a,1\n"))
    assert issubclass(InvalidTrace, UsageError)


names = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1).filter(
    lambda name: name.strip()
)
finite = st.floats(-1e12, 1e12)


@given(st.lists(st.tuples(finite, names, st.floats(0, 1e6)), min_size=1, max_size=20))
def test_what_was_written_is_read_back(rows: list[tuple[float, str, float]]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file).writerows([("at", "customer", "seconds"), *rows])
    read = read_trace(io.BytesIO(file.getvalue().encode()))
    assert [(row.at, row.customer, row.seconds) for row in read] == rows


@given(st.lists(st.tuples(finite, names, finite), min_size=1, max_size=20))
def test_the_outcome_loses_nothing(rows: list[tuple[float, str, float]]) -> None:
    arrivals = [Arrival(at, name, 1.0, at_text=f"{at:.3f}") for at, name, _ in rows]
    runs = [Run(-3, 2, start, start + 1, lane=False) for _, _, start in rows]
    file = io.StringIO(newline="")
    write_outcome(file, arrivals, runs)
    header, *written = csv.reader(io.StringIO(file.getvalue(), newline=""))
    assert header == ["at", "customer", "count", "priority", "started", "finished"]
    for line, arrival, run in zip(written, arrivals, runs, strict=True):
        assert line[:4] == [arrival.at_text, arrival.customer, "-3", "2"]
        assert (float(line[4]), float(line[5])) == (run.started, run.finished)
