"""A done document processed once more, through `Fairlead`, HTTP, the command line and the pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from inprocess import InProcess, in_process
from resultkit import add_done, done_with

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.model.documents import Failed
from fairlead.model.states import State


def finish_again(fairlead: Fairlead, text: str) -> None:
    claim = fairlead.store.claim("worker")
    assert claim is not None
    fairlead.store.finish(claim, done_with(text))


def test_the_old_text_is_read_until_there_is_a_new_one(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        (document,) = add_done(fairlead, "acme", ["old"])
        assert fairlead.retry(document.id).state is State.WAITING
        assert fairlead.text(document.id) == fairlead.result(document.id).text == "old"
        finish_again(fairlead, "new")
        assert fairlead.text(document.id) == fairlead.result(document.id).text == "new"


def test_results_give_it_once_more_and_do_not_repeat_an_old_text(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        (document,) = add_done(fairlead, "acme", ["old"])
        (first,) = fairlead.results(include=["text"])
        fairlead.retry(document.id)
        finish_again(fairlead, "new")
        (second,) = fairlead.results(after=first.cursor, include=["text"])
        assert (second.id, second.text) == (document.id, "new")
        fairlead.retry(document.id)
        claim = fairlead.store.claim("worker")
        assert claim is not None
        fairlead.store.finish(claim, Failed("damaged", "it ends in the middle"))
        (third,) = fairlead.results(after=second.cursor, include=["text"])
        assert (third.state, third.text) == (State.FAILED, None)
        assert fairlead.text(document.id) == "new", "the old result stays readable"


@pytest.mark.parametrize("password", [None, "open sesame"])
def test_it_is_retried_over_http(tmp_path: Path, password: str | None) -> None:
    async def ask(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add("acme")[0])
        (document,) = add_done(server.fairlead, "acme", ["old"])
        assert (await client.retry(document.id, password=password)).state is State.WAITING
        assert await client.text(document.id) == "old"
        claim = server.fairlead.store.claim("worker")
        assert claim is not None
        assert claim.password == password

    in_process(tmp_path, ask)


def test_the_command_line_retries_it(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        (document,) = add_done(fairlead, "acme", ["old"])
    result = CliRunner().invoke(main, ["docs", "retry", document.id, "--data", str(tmp_path)])
    assert result.exit_code == 0, result.output
    with Fairlead(tmp_path) as fairlead:
        assert fairlead.document(document.id).state is State.WAITING


def test_the_dashboard_retries_selected_ones_and_leaves_done_ones_out_of_all(
    tmp_path: Path,
) -> None:
    async def ask(server: InProcess) -> None:
        browser = server.http(server.fairlead.keys.add()[0])
        one, two = add_done(server.fairlead, "acme", ["a", "b"])
        cancelled = server.fairlead.submit("acme", b"c")
        server.fairlead.cancel(cancelled.id)
        assert "/documents/retry" in (await browser.get(f"/document/{one.id}")).text
        await browser.post("/documents/retry", data={"id": one.id})
        await browser.post("/documents/retry", data={"all": "1"})
        states = {document.id: document.state for document in server.fairlead.documents()}
        assert states == {one.id: "waiting", two.id: "done", cancelled.id: "waiting"}
        await browser.post("/documents/retry", data={"all": "1", "state": "done"})
        assert server.fairlead.document(two.id).state is State.WAITING

    in_process(tmp_path, ask)
