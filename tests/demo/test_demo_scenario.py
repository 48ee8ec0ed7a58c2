"""The demo's scenario: when each customer submits, what is shown, and what is reported."""

from __future__ import annotations

from email.message import EmailMessage
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from fairlead import Fairlead
from fairlead.demo.samples import SampleDocument
from fairlead.demo.scenario import (
    LARGE,
    SMALL,
    SMALL_DOCUMENTS,
    CustomerProgress,
    PlannedSubmission,
    Scenario,
    first_come_first_served,
)
from fairlead.demo.screen import draw_picture, live_table, wait_table

pytestmark = pytest.mark.services


def planned(customer: str, documents: int, after: int) -> PlannedSubmission:
    documents_of_customer = [
        SampleDocument(f"{n}.txt", b"hello", "hello") for n in range(documents)
    ]
    return PlannedSubmission(customer, documents_of_customer, after)


def shown(table: object, width: int = 100) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_small_customers_come_while_the_pile_is_worked_off(tmp_path: Path) -> None:
    seen: list[list[CustomerProgress]] = []
    with Fairlead(tmp_path, settings={"workers": 2}) as fairlead:
        scenario = Scenario(fairlead, [planned(LARGE, 30, 0), planned("[b]small", 3, 5)])

        def tick() -> None:
            scenario.advance()
            seen.append(scenario.progress())

        fairlead.run_until_idle(on_tick=tick)
        reports = {row.customer: row for row in scenario.wait_reports()}
        assert scenario.failed() == []
        assert {row.done for row in scenario.progress()} == {30, 3}
    assert scenario.total_documents == 33
    assert [row.customer for row in seen[0]] == [LARGE]
    at_submission = next(row for row in seen if len(row) == 2)
    assert at_submission[0].done >= 5
    assert all(
        row.documents == row.waiting + row.processing + row.done for rows in seen for row in rows
    )
    assert reports[LARGE].priorities == (1, 9)
    assert reports["[b]small"].priorities == (1, 1)
    assert reports["[b]small"].waited.max < reports[LARGE].waited.max
    assert reports["[b]small"].waited.mean <= reports["[b]small"].fifo.mean
    assert "[b]small" in shown(wait_table(list(reports.values())))
    draw_picture(wait_table(list(reports.values())), tmp_path / "picture.svg")
    assert "[b]small" in (tmp_path / "picture.svg").read_text("utf-8").replace("&#160;", " ")


def test_the_live_table_shows_pending_priority_and_waits() -> None:
    text = shown(live_table([CustomerProgress("acme", 10, 4, 2, 4, 3, 1.25, 2.5), ENDED]))
    (acme,) = [line for line in text.splitlines() if "acme" in line]
    assert acme.split() == ["acme", "6", "2", "████░░░░░░", "4", "3", "1.2", "s", "2.5", "s"]
    (ended,) = [line for line in text.splitlines() if "done" in line and "–" in line]
    assert "██████████" in ended
    shown(live_table([ENDED]), width=30)


def test_the_comparison_has_the_costs_of_the_run_too(tmp_path: Path) -> None:
    """Regression: with many workers, simulated documents started at once and real ones did not."""
    with Fairlead(tmp_path) as fairlead:
        accepted = fairlead.submit_many("acme", [b"one", b"two", b"three"])
    began = accepted[0].submitted_at
    after = {accepted[0].id: 7.0, accepted[1].id: 5.0, accepted[2].id: 5.0}  # seconds
    documents = [replace(document, started_at=began + after[document.id]) for document in accepted]
    waits = first_come_first_served(documents)
    assert [round(waits[document.id], 3) for document in accepted] == [5.0, 5.0, 7.0]


ENDED = CustomerProgress("all done", 3, 0, 0, 3, None, 0.0, 0.0)


def test_every_small_customer_has_its_documents() -> None:
    assert len(SMALL) == len(SMALL_DOCUMENTS)
    assert LARGE not in SMALL


def test_what_is_attached_to_a_document_is_no_document_of_its_own_here(tmp_path: Path) -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "a@example.org", "attached"
    mail.set_content("see the attachment")
    for number in range(3):
        mail.add_attachment(f"attached {number}", filename=f"{number}.txt")
    samples = [SampleDocument("mail.eml", bytes(mail), "see")] * 4
    with Fairlead(tmp_path, settings={"workers": 2}) as fairlead:
        scenario = Scenario(fairlead, [PlannedSubmission(LARGE, samples, 0)])
        fairlead.run_until_idle(on_tick=scenario.advance)
        scenario.advance()
        assert len(fairlead.documents().items) == 16
        (progress,), (report,) = scenario.progress(), scenario.wait_reports()
    assert (progress.documents, progress.done, progress.waiting + progress.processing) == (4, 4, 0)
    assert report.documents == 4
