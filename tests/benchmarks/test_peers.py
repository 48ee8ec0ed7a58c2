"""The comparison with other queues: what it prints, and what it reads from /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.peers import cpu
from bench.peers.__main__ import Row, main
from bench.peers.contestants import contestants
from bench.peers.page import MARKS
from bench.peers.stores import opened
from bench.peers.table import ratios
from bench.peers.waiting import prepare, titles
from click.testing import CliRunner
from storekit import fast_folder

ROOT = Path(__file__).parents[2]


@pytest.mark.services
def test_standard_output_holds_only_rows_in_json() -> None:
    command = [sys.executable, "-m", "bench.peers", "--json", "--quick", "--documents", "200"]
    result = subprocess.run(
        [*command, "--only", "fairlead-sqlite-classic", "--batch", "50"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        check=True,
        capture_output=True,
        text=True,
    )
    (row,) = json.loads(result.stdout)
    assert set(row) == {"name", "batch", "per_s", "cpu_us"}
    assert (row["name"], row["batch"]) == ("fairlead-sqlite-classic", 50)
    assert row["per_s"] > 0
    assert row["cpu_us"] >= 0  # the system counts in ticks, of which so few documents take none


def test_each_name_has_one_row_per_batch() -> None:
    keys = [(each.name, each.batch) for each in contestants()]
    assert len(keys) == len(set(keys))
    assert {
        *("pgqueuer", "procrastinate", "celery-redis", "celery-rabbitmq", "dramatiq-redis"),
        *("huey-redis", "pgqueuer-submit", "fairlead-postgres-submit", "fairlead-sqlite-submit"),
        *("fairlead-postgres-classic", "fairlead-postgres-fair", "fairlead-postgres-fair-many"),
        *("fairlead-sqlite-classic", "fairlead-sqlite-fair"),
        *("fairlead-postgres-step", "fairlead-sqlite-step"),
    } <= {name for name, _ in keys}


def test_an_unknown_name_is_refused() -> None:
    result = CliRunner().invoke(main, ["--only", "nobody"])
    assert result.exit_code == 2
    assert "got nobody" in result.output


def test_ratios_are_to_pgqueuer_with_the_same_batch() -> None:
    rows = [
        Row("pgqueuer", 50, 1000.0, 100.0),
        Row("pgqueuer", 1, 100.0, 1000.0),
        Row("pgqueuer-submit", 500, 5000.0, 10.0),
    ]
    assert ratios(Row("fairlead-sqlite-fair", 1, 50.0, 500.0), rows) == ("0.50", "0.50")
    assert ratios(Row("huey-redis", None, 500.0, 150.0), rows) == ("0.50", "1.50")
    assert ratios(Row("fairlead-sqlite-submit", 500, 5000.0, 20.0), rows) == ("1.00", "2.00")
    assert ratios(Row("huey-redis", None, 500.0, 150.0), []) == ("", "")


@pytest.mark.services
@pytest.mark.parametrize("read", [cpu.seconds, cpu.running_seconds])
def test_cpu_time_read_from_proc_is_what_the_process_used(
    read: Callable[[list[int]], float],
) -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(time.process_time()); input()"
    with subprocess.Popen(
        [sys.executable, "-u", "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        used = float(process.stdout.readline())
        assert read([process.pid]) == pytest.approx(used, abs=0.1)
        process.communicate("\n")


@pytest.mark.full
def test_a_claim_behind_documents_held_by_a_quota_takes_another_one() -> None:
    """Regression: the claim behind 900,000 that a quota holds was not measured."""
    documents = 10_000
    held = titles(documents).index("behind 9,000 of 1,000 customers, held by a quota")
    with fast_folder() as folder:
        store = opened(str(folder / "store.db"), "classic")
        prepare(store, held, documents)
        (claim,) = store.claim_for(["bench"])
        store.close()
    assert claim.customer.startswith("customer")


def test_a_page_is_written_from_rows_in_json(tmp_path: Path) -> None:
    """The results as a page with date and machine, renewed by one command."""
    page, rows = tmp_path / "page.md", tmp_path / "rows.json"
    page.write_text("before\n" + MARKS[0] + "old\n" + MARKS[1] + "\nafter\n", "utf-8")
    rows.write_text(json.dumps([Row("pgqueuer", 50, 1000.0, 100.0)._asdict()]), "utf-8")
    result = CliRunner().invoke(main, ["--from", str(rows), "--page", str(page)])
    assert result.exit_code == 0, result.output
    text = page.read_text("utf-8")
    assert "| pgqueuer | 50 | 1,000 | 100 | 1.00 | 1.00 |" in text
    assert "old" not in text
    assert text.startswith("before\n") and text.endswith("\nafter\n")  # noqa: PT018


def test_the_page_of_results_has_its_marks() -> None:
    text = (ROOT / "docs" / "reference" / "benchmarks.md").read_text("utf-8")
    assert all(mark in text for mark in MARKS)
