"""The demo's play on a small stage: who comes when, what is shown, and what is said in the end."""

from __future__ import annotations

from email.message import EmailMessage
from io import StringIO
from pathlib import Path

from rich.console import Console

from fairlead import Fairlead
from fairlead.demo.samples import Sample
from fairlead.demo.scenario import LARGE, SMALL, SMALL_DOCUMENTS, Scenario, Scene, Standing
from fairlead.demo.screen import draw_picture, live_table, verdict_table


def scene(customer: str, documents: int, after: int) -> Scene:
    made = [Sample(f"{n}.txt", b"hello", "hello") for n in range(documents)]
    return Scene(customer, made, after)


def shown(table: object, width: int = 100) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_small_customers_come_while_the_pile_is_worked_off(tmp_path: Path) -> None:
    seen: list[list[Standing]] = []
    with Fairlead(tmp_path, settings={"workers": 2}) as fairlead:
        play = Scenario(fairlead, [scene(LARGE, 30, 0), scene("[b]small", 3, 5)])

        def tick() -> None:
            play.advance()
            seen.append(play.standings())

        fairlead.run_until_idle(on_tick=tick)
        verdicts = {each.customer: each for each in play.verdicts()}
        assert play.failed() == []
        assert {each.done for each in play.standings()} == {30, 3}
    assert play.documents_in_all == 33
    assert [each.customer for each in seen[0]] == [LARGE]
    at_its_coming = next(each for each in seen if len(each) == 2)
    assert at_its_coming[0].done >= 5
    assert all(
        each.documents == each.waiting + each.processing + each.done
        for standings in seen
        for each in standings
    )
    assert verdicts[LARGE].priorities == (1, 9)
    assert verdicts["[b]small"].priorities == (1, 1)
    assert verdicts["[b]small"].waited.max < verdicts[LARGE].waited.max
    assert "[b]small" in shown(verdict_table(list(verdicts.values())))
    draw_picture(verdict_table(list(verdicts.values())), tmp_path / "picture.svg")
    assert "[b]small" in (tmp_path / "picture.svg").read_text("utf-8").replace("&#160;", " ")


def test_the_live_table_shows_pending_priority_and_waits() -> None:
    text = shown(live_table([Standing("acme", 10, 4, 2, 4, 3, 1.25, 2.5), ENDED]))
    (acme,) = [line for line in text.splitlines() if "acme" in line]
    assert acme.split() == ["acme", "6", "2", "████░░░░░░", "4", "3", "1.2", "s", "2.5", "s"]
    (ended,) = [line for line in text.splitlines() if "done" in line and "–" in line]
    assert "██████████" in ended
    shown(live_table([ENDED]), width=30)


ENDED = Standing("all done", 3, 0, 0, 3, None, 0.0, 0.0)


def test_every_small_customer_has_its_documents() -> None:
    assert len(SMALL) == len(SMALL_DOCUMENTS)
    assert LARGE not in SMALL


def test_what_is_attached_to_a_document_is_no_document_of_its_own_here(tmp_path: Path) -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "a@example.org", "attached"
    mail.set_content("see the attachment")
    for number in range(3):
        mail.add_attachment(f"attached {number}", filename=f"{number}.txt")
    samples = [Sample("mail.eml", bytes(mail), "see")] * 4
    with Fairlead(tmp_path, settings={"workers": 2}) as fairlead:
        play = Scenario(fairlead, [Scene(LARGE, samples, 0)])
        fairlead.run_until_idle(on_tick=play.advance)
        play.advance()
        assert len(fairlead.documents().items) == 16
        (standing,), (verdict,) = play.standings(), play.verdicts()
    assert (standing.documents, standing.done, standing.waiting + standing.processing) == (4, 4, 0)
    assert verdict.documents == 4
