from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from lxml import etree

from fairlead.cli import main
from fairlead.cli.simulate import simulate_command, write_atomically
from fairlead.errors import InvalidSetting, InvalidTrace, UsageError
from fairlead.policy.classic import ClassicPolicy, FifoPolicy
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.report import Report, render
from fairlead.simulation.simulate import simulate
from fairlead.simulation.summary import summarise
from fairlead.simulation.trace import read_trace

HOSTILE = "</td><script>alert(1)</script>&\"'[red]\x1b[31m\u202e"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    quoted = HOSTILE.replace('"', '""')
    rows = ["0,big,10"] * 25 + ["1.50,small,2", f'2,"{quoted}",3', "30.0,small,2"]
    path.write_text("at,customer,seconds\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def call(*arguments: object, text: str | None = None) -> Result:
    words = [str(argument) for argument in arguments]
    settings = main.context_settings  # Click keeps the help option of a command's first call
    return CliRunner().invoke(
        simulate_command, words, input=text, catch_exceptions=False, **settings
    )


def test_the_table_shows_each_customer_beside_fifo(trace: Path) -> None:
    shown = call(trace)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    # By hand: three at once, then 7 s for the small ones, then the rest; fifo every 10 s.
    expected = "big 25 126.2 127.0 237.0 247.0 120.0 230.0 240.0"
    assert expected in [" ".join(line.split()) for line in lines]
    assert any(line.startswith("all") for line in lines)
    assert "\x1b" not in shown.stdout
    assert "\u202e" not in shown.stdout


def test_fifo_has_nothing_to_be_compared_with(trace: Path) -> None:
    assert "fifo" not in call(trace, "--policy", "fifo").stdout
    outcome = json.loads(call(trace, "--policy", "fifo", "--json").stdout)
    assert outcome["settings"] == {"policy": "fifo/1", "workers": 1}
    assert "fifo" not in outcome["all"]


def test_json_tells_all_that_the_summary_knows(trace: Path) -> None:
    outcome = json.loads(call(trace, "--json", "--workers", 2, "--overdue-after", 20).stdout)
    arrivals = read_trace(trace)
    own = summarise(arrivals, simulate(arrivals, ClassicPolicy(), 2, OverdueLane(20.0)))
    fifo = summarise(arrivals, simulate(arrivals, FifoPolicy(), 2, None))
    assert outcome["settings"]["policy"] == "classic/1"
    assert outcome["settings"]["overdue_after"] == 20.0
    assert outcome["started_by_lane"] == own.lane
    assert [customer["customer"] for customer in outcome["customers"]] == list(own.customers)
    for customer in outcome["customers"]:
        assert (customer["documents"], *customer["wait"].values()) == own.customers[
            customer["customer"]
        ]
        assert tuple(customer["fifo"].values()) == fifo.customers[customer["customer"]][1:]
    assert tuple(outcome["all"]["wait"].values()) == own.whole[1:]


def test_settings_reach_the_policy(trace: Path) -> None:
    outcome = json.loads(
        call(
            trace, "--json", "--reset", "window", "--reset-interval", 9, "--thresholds", "-1,-3"
        ).stdout
    )
    assert outcome["settings"] == {
        "policy": "classic/1",
        "workers": 1,
        "reset_interval": 9.0,
        "reset": "window",
        "thresholds": [-1, -3],
        "overdue_after": 9.0,
    }
    off = json.loads(call(trace, "--json", "--no-overdue-lane").stdout)
    assert off["settings"]["overdue_after"] is None


def test_fair_shows_its_settings_and_counts_in_units(trace: Path) -> None:
    outcome = json.loads(call(trace, "--json", "--policy", "fair", "--unit", 5).stdout)
    assert outcome["settings"] == {
        "policy": "fair/2",
        "workers": 1,
        "unit": 5.0,
        "reset_interval": 1500.0,
        "thresholds": [-2, -4, -6, -8, -10, -12, -14, -20],
        "overdue_after": 1500.0,
    }
    lines = call(trace, "--policy", "fair", "--unit", 5, "--output", "-").stdout.splitlines()
    # By hand: documents of 10 s are two units each, and at 10 the two others go first, for 5 s.
    assert lines[1:4] == ["0,big,0,1,0.0,10.0", "0,big,-2,1,15.0,25.0", "0,big,-4,2,25.0,35.0"]


def test_fair_reads_weights_and_estimates() -> None:
    rows = ["0,a,6,2,12", "0,a,6,2,12", "0,a,6,2,12", "100,a,6,2,"]
    text = "at,customer,seconds,weight,estimate\n" + "\n".join(rows) + "\n"
    shown = call("-", "--policy", "fair", "--output", "-", text=text).stdout.splitlines()
    # What it had lately has not faded after 100 s.
    assert [line.split(",")[2] for line in shown[1:]] == ["0", "-1", "-2", "-1"]


def test_the_outcome_goes_to_a_file_or_to_stdout_alone(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    shown = call(trace, "--output", out)
    piped = call("-", "--output", "-", text=trace.read_text(encoding="utf-8"))
    assert "mean" in shown.stdout
    assert piped.stdout_bytes == out.read_bytes()
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "at,customer,count,priority,started,finished"
    assert lines[26] == "1.50,small,0,1,30.0,32.0"
    assert len(lines) == 29


def test_a_broken_trace_leaves_no_file_behind(tmp_path: Path) -> None:
    path, out = tmp_path / "bad.csv", tmp_path / "out.csv"
    path.write_text("at,customer,seconds\n0,a,x\n")
    with pytest.raises(InvalidTrace, match=r"bad\.csv, line 2"):
        call(path, "--output", out)
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--thresholds", "-2,x"], "thresholds must be whole numbers"),
        (["--thresholds", "-4,-2"], "thresholds must decrease"),
        (["--reset-interval", "nan"], "reset_interval must be"),
        (["--reset-interval", "-1"], "reset_interval must be"),
        (["--overdue-after", "-1"], "overdue_after must be"),
        (["--policy", "fair", "--unit", "0"], "unit must be"),
        (["--policy", "fair", "--reset-interval", "-1"], "reset_interval must be"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(trace: Path, flags: list[str], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        call(trace, *flags)


@pytest.mark.parametrize(
    "flags", [["--report", "-"], ["--output", "-", "--json"], ["--output", "x", "--report", "x"]]
)
def test_targets_that_contradict_are_refused(trace: Path, flags: list[str]) -> None:
    with pytest.raises(UsageError):
        call(trace, *flags)


@pytest.mark.parametrize("flags", [["--workers", "0"], ["--policy", "lifo"], ["--workers", "x"]])
def test_wrong_words_end_with_two(trace: Path, flags: list[str]) -> None:
    assert call(trace, *flags).exit_code == 2


def test_an_unwritable_file_is_one_sentence(trace: Path, tmp_path: Path) -> None:
    for target in (tmp_path / "no" / "out.csv", tmp_path, trace / "out.csv"):
        shown = call(trace, "--output", target)
        assert shown.exit_code == 1
        assert len(shown.stderr.splitlines()) == 1
        assert str(target) in shown.stderr
    assert sorted(tmp_path.iterdir()) == [trace]


def test_a_failed_write_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(click.FileError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == [path]


def test_links_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_atomically(Path(os.devnull), "gone")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_new_file_has_the_usual_rights(tmp_path: Path) -> None:
    plain, whole = tmp_path / "plain", tmp_path / "whole"
    plain.write_text("")
    write_atomically(whole, "")
    assert whole.stat().st_mode == plain.stat().st_mode


def report_of(path: Path) -> str:
    call(path, "--report", path.with_suffix(".html"))
    return path.with_suffix(".html").read_text(encoding="utf-8")


def test_the_report_needs_nothing_and_runs_nothing(trace: Path) -> None:
    page = report_of(trace)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)" in page
    for word in ("http://", "https://", "src=", "href=", "@import", "url("):
        assert word not in page
    assert "prefers-color-scheme: dark" in page


def test_the_report_is_well_formed_and_shows_all_parts(trace: Path) -> None:
    page = report_of(trace)
    body = etree.fromstring(page[page.index("<body>") : page.index("</html>")])
    assert len(body.findall(".//svg")) == 2
    rows = ["".join(map(str, row.itertext())) for row in body.iter("tr")]
    assert len(rows) == 1 + 3 + 1
    assert "fifo p95" in rows[0]
    assert any(row.startswith("big25") for row in rows)
    polygons = list(body.iter("polygon"))
    assert len(polygons) == 9
    assert all(len(str(polygon.get("points")).split()) <= 400 for polygon in polygons)


def test_the_report_lists_fifty_customers_and_counts_the_others(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("at,customer,seconds\n" + "".join(f"{n},c{n:03},1\n" for n in range(73)))
    page = report_of(path)
    assert page.count("<tr") == 1 + 50 + 1
    assert "and 23 others" in page
    assert "and 23 others" in call(path).stdout


def test_a_trace_without_any_wait_or_length_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "still.csv"
    path.write_text("at,customer,seconds\n5,$acme ${x},0\n")
    page = report_of(path)
    assert "$acme ${x}" in page
    assert "nan" not in page.lower()


def test_the_report_of_fifo_compares_nothing(trace: Path) -> None:
    arrivals = read_trace(trace)
    runs = simulate(arrivals, FifoPolicy(), 1, None)
    page = render(Report({"policy": "fifo/1"}, arrivals, runs, summarise(arrivals, runs)))
    assert "fifo mean" not in page
    assert "under fifo" not in page
