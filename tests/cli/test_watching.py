"""`fairlead events`, `top`, `webhooks`, `-q` and shell completion, on a data folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from resultkit import add_done

from fairlead import Fairlead
from fairlead.cli import main


@pytest.fixture
def fairlead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fairlead]:
    data = tmp_path / "data"
    data.mkdir()
    (data / "fairlead.toml").write_text('webhook_networks = ["127.0.0.0/8"]\n')
    monkeypatch.setenv("FAIRLEAD_DATA", str(data))
    with Fairlead(data) as opened:
        yield opened


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return result


def test_following_a_customer_that_is_unknown_says_so(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fairlead, "events", lambda *_args, **_named: iter(()))  # it has no end
    result = run("events", "--follow", "--customer", "acme")
    assert "there is no customer 'acme' yet" in result.stderr
    fairlead.submit("acme", b"one")
    assert run("events", "--follow", "--customer", "acme").stderr == ""


def test_events_are_printed_from_the_first_to_the_newest(fairlead: Fairlead) -> None:
    (document,) = add_done(fairlead, "acme", ["one"])
    add_done(fairlead, "bolt", ["two"])
    lines = run("events").stdout.splitlines()
    assert len(lines) == fairlead.store.last_event()
    assert any("done" in line and document.id in line and "acme" in line for line in lines)
    events = [json.loads(line) for line in run("events", "--json").stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(lines) + 1))
    mine = run("events", "--json", "--customer", "bolt").stdout.splitlines()
    assert {json.loads(line)["customer"] for line in mine} == {"bolt"}
    last = run("events", "--after", str(len(lines) - 1)).stdout.splitlines()
    assert last == lines[-1:]


def test_top_shows_who_waits_the_longest_first(fairlead: Fairlead) -> None:
    for customer in ("acme", "bolt"):
        fairlead.submit(customer, b"waits")
    fairlead.customers.add("idle")
    fairlead.customers.pause("acme")
    header, columns, first, second = run("top").stdout.splitlines()
    assert header == "0 workers; 2 waiting, 0 processing; policy classic"
    assert columns.split()[:2] == ["customer", "waiting"]
    assert (first.split()[0], second.split()[0]) == ("acme", "bolt")
    assert first.endswith("paused")
    shown = json.loads(run("top", "--once", "--json").stdout)
    assert [customer["name"] for customer in shown["customers"]] == ["acme", "bolt"]


def test_webhooks_are_made_listed_tested_and_deleted(fairlead: Fairlead) -> None:
    fairlead.customers.add("acme")
    url = "http://127.0.0.1:9/hook"
    webhook = json.loads(run("webhooks", "add", url, "--customer", "acme", "--json").stdout)
    assert webhook["secret"].startswith("whsec_")
    every = run("webhooks", "add", url, "--kind", "document.done", "-q").stdout.strip()
    assert run("webhooks", "list", "-q").stdout.split() == [webhook["id"], every]
    assert "(all)" in run("webhooks", "list").stdout
    test = json.loads(run("webhooks", "test", every, "--wait", "0", "--json").stdout)
    assert (test["kind"], test["status"]) == ("webhook.test", "pending")
    assert test["id"] in run("webhooks", "deliveries", every).stdout
    assert test["id"] in run("webhooks", "retry", test["id"]).stdout
    run("webhooks", "delete", every)
    listed = json.loads(run("webhooks", "list", "--json").stdout)["webhooks"]
    assert [webhook["id"] for webhook in listed] == [webhook["id"]]


def test_quiet_prints_ids_only(fairlead: Fairlead, tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear all")
    sent = run("docs", "submit", "-q", "--customer", "acme", str(letter)).stdout
    assert sent == run("docs", "list", "-q").stdout == f"{fairlead.documents().items[0].id}\n"
    assert run("customers", "list", "-q").stdout == "acme\n"
    _, key = fairlead.keys.add("acme")
    assert run("keys", "list", "-q").stdout == f"{key.id}\n"


def completed(*words: str) -> list[str]:
    *before, last = words
    shell = ShellComplete(main, {}, "fairlead", "_FAIRLEAD_COMPLETE")
    assert isinstance(main, click.Command)
    return [item.value for item in shell.get_completions(before, last)]


def test_customers_and_ids_are_completed(fairlead: Fairlead, tmp_path: Path) -> None:
    document = fairlead.submit("acme", b"a letter")
    fairlead.submit("bolt", b"a letter")
    _, key = fairlead.keys.add("acme")
    assert completed("customers", "show", "a") == ["acme"]
    assert completed("docs", "list", "--customer", "") == ["acme", "bolt"]
    assert completed("docs", "why", document.id[:-1]) == [document.id]
    assert completed("keys", "revoke", "") == [key.id]
    assert completed("docs", "show", "--data", str(tmp_path / "none"), "") == []
